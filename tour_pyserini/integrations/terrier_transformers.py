"""TouR as transformers of PyTerrier; needs the extra `pyterrier`. Nothing here needs Java."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.texts import open_texts
from tour_pyserini.searchers.list_reranker import DocumentList, Feedback, TourReranker
from tour_pyserini.support.packages import import_optional

import_optional("pyterrier", extra="pyterrier")

import pandas as pd  # noqa: E402
import pyterrier as pt  # noqa: E402


class Tour(pt.Transformer):
    """Searches with queries that are optimised at test time: queries in, results out.

    After another retriever, as in `bm25 >> Tour(searcher)`, the documents that it found are a further signal for their
    query: they are candidates too, and their scores count. All documents must be in the searcher's index.

    Example:
        tour = Tour(searcher, num_results=100)
        pt.Experiment([dense, tour, bm25 >> tour], topics, qrels, [nDCG @ 10, R @ 100])
    """

    def __init__(
        self,
        searcher: Any,
        *,
        num_results: int = 1000,
        batch_size: int = 64,
        text: bool = False,
        vectors: bool = False,
        filter: Any = None,
    ) -> None:
        """Retrieve with a searcher.

        Args:
            searcher: a `TourSearcher`.
            num_results: documents of a query.
            batch_size: queries that advance together; results do not depend on it.
            text: whether results have the passages (`text`).
            vectors: whether results have vectors (`query_vec`, the optimised one, and `doc_vec`).
            filter: which documents may be found, see `TourSearcher.search`.
        """
        self.searcher = searcher if filter is None else searcher.only(filter)
        self.num_results, self.batch_size, self.text, self.vectors = num_results, batch_size, text, vectors

    def __repr__(self) -> str:
        return f"Tour({self.searcher.config.method}, num_results={self.num_results})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The results of the queries of a frame: their own columns, `docno`, `score` and `rank` (from 0)."""
        with pt.validate.any(inp) as frame:
            frame.query_frame(extra_columns=["query"])
            frame.result_frame(extra_columns=["query", "score"])
        queries = _queries(inp).drop(columns="query_vec", errors="ignore")
        searcher = self.searcher.with_signals(_FrameSignal(inp)) if "docno" in inp else self.searcher
        rows: list[tuple[str, int, Any, np.ndarray]] = []  # query id, rank, hit, the query's vector
        for start in range(0, len(queries), self.batch_size):
            some = queries.iloc[start : start + self.batch_size]
            texts, ids = some["query"].tolist(), some["qid"].tolist()
            vectors, lists = searcher.batch_run(texts, ids, self.num_results, hit_vectors=self.vectors)
            for vector, (qid, hits) in zip(vectors, lists.items(), strict=True):
                rows += [(qid, rank, hit, vector) for rank, hit in enumerate(hits)]
        lines = [(qid, hit.docid, hit.score, rank) for qid, rank, hit, _ in rows]
        found = pd.DataFrame(lines, columns=["qid", "docno", "score", "rank"])
        if self.text:
            found["text"] = [hit.text for _, _, hit, _ in rows]
        if self.vectors:
            found["query_vec"], found["doc_vec"] = (
                [vector for *_, vector in rows],
                [hit.vectors for _, _, hit, _ in rows],
            )
        if searcher.config.calibration:
            found["relevance"] = [hit.relevance for _, _, hit, _ in rows]
        return queries.merge(found.astype({"score": "float64", "rank": "int64"}), on="qid")


class TourVectorPrf(pt.Transformer):
    """One update of the query vectors from results with vectors: results in, queries with `query_vec` out.

    It takes the columns `query_vec` and `doc_vec`, and passages from the column `text` or from `texts`.

    Example:
        pipeline = model.query_encoder() >> index.retriever() >> index.vec_loader()
        pipeline >> TourVectorPrf("default", "corpus.jsonl") >> index.retriever()
    """

    def __init__(
        self,
        reranker: Any = "default",
        texts: Mapping[str, str] | str | None = None,
        config: TourConfig | None = None,
        *,
        k: int = 10,
    ) -> None:
        """Set up the rule.

        Args:
            reranker: where labels come from: anything `load_reranker` takes.
            texts: the passages, where results have no column `text`: anything `open_texts` takes.
            config: the method and its settings; there is one update, from the first k documents.
            k: documents of a query that it learns from.
        """
        self._rule = Feedback(reranker, config)
        self._texts = None if texts is None else open_texts(texts)
        self.k = k

    def __repr__(self) -> str:
        return f"TourVectorPrf({self._rule.config.method}, k={self.k})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The queries of a frame of results, each with its updated `query_vec`."""
        needed = ["rank", "query_vec", "doc_vec", *(["query"] if self._rule.labels else [])]
        needed += ["text"] if self._rule.labels and self._texts is None else []
        pt.validate.result_frame(inp, extra_columns=needed)
        queries = _queries(inp)
        by_query = {qid: results.nsmallest(self.k, "rank") for qid, results in inp.groupby("qid", sort=False)}
        # A list of arrays; a column of them cannot be made by pandas from an array [n, d].
        vectors = [self._updated(by_query[qid]) for qid in queries["qid"]]
        return queries.assign(query_vec=pd.Series(vectors, index=queries.index, dtype=object))

    def _updated(self, results: pd.DataFrame) -> np.ndarray:
        vector, vectors = results["query_vec"].iloc[0], np.stack(results["doc_vec"].tolist())
        if not self._rule.labels:
            return self._rule.update(vector, vectors)
        docids = results["docno"].astype(str)
        passages = results["text"].tolist() if self._texts is None else [self._texts[docid] for docid in docids]
        return self._rule.update(vector, vectors, passages=passages, query=results["query"].iloc[0])


class TourRerank(pt.Transformer):
    """Ranks the results of any retriever anew, with labels for their promising part alone: results in, results out.

    It takes the columns `query` and `text`, and `score` if there is one; with `query_vec` and `doc_vec`, the query
    moves.

    Example:
        pipeline = bm25 >> pt.text.get_text(index, "text") >> TourRerank("default", TourConfig(budget=20))
    """

    def __init__(self, reranker: Any = "default", config: TourConfig | None = None, *, batch_size: int = 64) -> None:
        """Take labels from a re-ranker, anything `load_reranker` takes, for so many queries at a time."""
        self._reranker, self.batch_size = TourReranker(reranker, config), batch_size

    def __repr__(self) -> str:
        return f"TourRerank({self._reranker.config.method})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The results of a frame in their new order, with `score` and `rank` (from 0)."""
        pt.validate.result_frame(inp, extra_columns=["query", "text"])
        groups = [results for _, results in inp.groupby("qid", sort=False)]
        parts = [inp.iloc[:0].assign(score=pd.Series(dtype="float64"), rank=pd.Series(dtype="int64"))]
        for start in range(0, len(groups), self.batch_size):
            some = groups[start : start + self.batch_size]
            for results, ranked in zip(some, self._reranker.rank_lists(list(map(_list_of, some))), strict=True):
                order, scores = [one.position for one in ranked], [one.score for one in ranked]
                parts.append(results.iloc[order].assign(score=scores, rank=range(len(order))))
        return pd.concat(parts if len(parts) == 1 else parts[1:], ignore_index=True)


def _list_of(results: pd.DataFrame) -> DocumentList:
    """The results of a query as a list to be ranked."""
    vectors = {"query_vec", "doc_vec"} <= set(results.columns)
    return DocumentList(
        str(results["query"].iloc[0]),
        results["text"].tolist(),
        np.stack(results["doc_vec"].tolist()) if vectors else None,
        results["score"].tolist() if "score" in results else None,
        results["query_vec"].iloc[0] if vectors else None,
    )


class _FrameSignal:
    """What the results of a frame say of its queries; a signal."""

    __name__, by_id = "before Tour in the pipeline", True

    def __init__(self, results: pd.DataFrame) -> None:
        best_first = results.sort_values("score", ascending=False, kind="stable").drop_duplicates(["qid", "docno"])
        self._found = dict(iter(best_first.groupby("qid")))

    def __call__(self, q_ids: Sequence[str], k: int) -> tuple[list[list[str]], list[list[float]]]:
        """At most k docids of each query and their scores, best first."""
        found = [self._found[q_id].head(k) for q_id in q_ids]
        return [some["docno"].astype(str).tolist() for some in found], [some["score"].tolist() for some in found]


def _queries(frame: pd.DataFrame) -> pd.DataFrame:
    """The queries of a frame, one line each, in their order, with the columns that PyTerrier counts as theirs."""
    theirs = pt.model.query_columns(frame)  # in an order that changes from process to process
    return frame[[name for name in frame.columns if name in theirs]].drop_duplicates("qid").reset_index(drop=True)
