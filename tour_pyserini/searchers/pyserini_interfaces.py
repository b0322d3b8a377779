"""What Pyserini sees: TouR as a FaissSearcher, as a QueryEncoder and as a rule of dense pseudo-relevance feedback.

Importing this module makes Java ready, which Pyserini needs.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.texts import open_texts, read_text
from tour_pyserini.errors import TourError
from tour_pyserini.searchers.hits import Hit
from tour_pyserini.searchers.list_reranker import Feedback
from tour_pyserini.searchers.searched_index import SearchedIndex, as_signals, hybrid_parts, open_index
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.support.pyserini import ensure_java

ensure_java()

from pyserini.encode import QueryEncoder  # noqa: E402
from pyserini.search.faiss import DenseSearchResult, FaissSearcher, PrfDenseSearchResult  # noqa: E402
from pyserini.search.faiss._prf import DenseVectorPrf  # noqa: E402

__all__ = ["FaissSearcher", "TourFaissSearcher", "TourPrf", "TourQueryEncoder"]


@dataclass(eq=False)
class _Hit(Hit, DenseSearchResult, PrfDenseSearchResult):
    """Pyserini's hit, with or without its vector, and with the passage's text."""


class TourFaissSearcher(TourSearcher, FaissSearcher):
    """What `TourSearcher` makes of a FaissSearcher: the same, and a FaissSearcher itself.

    FaissSearcher's own constructor, which opens an index, is not called: every attribute of the wrapped searcher is
    used instead.
    """

    hit_class = _Hit


class TourQueryEncoder(QueryEncoder):
    """A query encoder that returns optimised vectors.

    A stock FaissSearcher with it retrieves what TouR retrieves last. Further signals take part in finding its
    vectors; to search with them as well, put that FaissSearcher into a HybridSearcher.

    Example:
        encoder = TourQueryEncoder(AutoQueryEncoder(name), "indexes/scifact", "default", "scifact/corpus.jsonl")
        hits = FaissSearcher("indexes/scifact", encoder).search("do statins prevent stroke")
    """

    def __init__(
        self,
        encoder: QueryEncoder,
        searcher: FaissSearcher | str | os.PathLike[str],
        reranker: Any = "default",
        texts: Mapping[str, str] | str | None = None,
        config: TourConfig | None = None,
        *,
        vectors: Any = None,
        signals: Sequence[Any] = (),
        threads: int = 1,
    ) -> None:
        """Wrap an encoder.

        Args:
            encoder: what gives the first vector of a query.
            searcher: the index searched on the way: a FaissSearcher, whose own encoder is not used, or a folder; or a
                HybridSearcher, whose second searcher is a signal.
            reranker: where labels come from: anything `load_reranker` takes.
            texts: the candidates' passages: anything `open_texts` takes.
            config: the method and its settings.
            vectors: where candidate vectors come from if not from the index.
            signals: what finds candidates beside the index, as `TourSearcher` takes it.
            threads: FAISS's threads.
        """
        super().__init__()
        self.has_model = True
        self.encoder = encoder
        if isinstance(searcher, str | os.PathLike):
            searcher = open_index(searcher)
        dense, more = hybrid_parts(searcher)
        index, signals = SearchedIndex(dense.index, dense.docids, encoder), [*more, *as_signals(signals)]
        self._tour = TourSearcher(index, reranker, texts, config, vectors=vectors, signals=signals)
        self._threads = threads

    def encode(self, query: str, **_: Any) -> np.ndarray:
        """The optimised vector [d] of one query."""
        return self.encode_batch([query])[0]

    def encode_batch(self, queries: list[str], **_: Any) -> np.ndarray:
        """The optimised vectors [n, d] of queries that advance together."""
        return self._tour.batch_run(queries, [f"query {row}" for row in range(len(queries))], 1, self._threads)[0]


class TourPrf(DenseVectorPrf):
    """One update of a query from the candidates it is given; the caller retrieves again.

    Pyserini hands a PRF rule vectors and ids but no query text: `topics` has the texts by id, or a single query's
    text is passed along.

    Example:
        prf = TourPrf("default", "scifact/corpus.jsonl", topics={"q1": "do statins prevent stroke"})
        vectors, candidates = searcher.batch_search(["do statins prevent stroke"], ["q1"], k=10, return_vector=True)
        hits = searcher.batch_search(prf.get_batch_prf_q_emb(["q1"], vectors, candidates), ["q1"])
    """

    def __init__(
        self,
        reranker: Any = "default",
        texts: Mapping[str, str] | str | None = None,
        config: TourConfig | None = None,
        *,
        topics: Mapping[str, str] | None = None,
    ) -> None:
        """Set up the rule; its candidates are those it is given, not `config.depth`, and its updates one.

        Args:
            reranker: where labels come from: anything `load_reranker` takes.
            texts: the candidates' passages: anything `open_texts` takes.
            config: the method and its settings.
            topics: the texts of queries by their ids.
        """
        super().__init__()
        config = config or TourConfig()
        if config.most_labels and texts is None:
            raise TourError(f"the method {config.method} reads passages: give their texts (the corpus).")
        self._texts = open_texts(texts) if texts is not None else {}
        self._topics = topics or {}
        self._rule = Feedback(reranker, config)
        self.config = self._rule.config

    def get_prf_q_emb(
        self, emb_qs: np.ndarray, prf_candidates: list[PrfDenseSearchResult], query: str | None = None
    ) -> np.ndarray:
        """The updated vector [d] of the query of that text and vector [d]; the same where it may stop already."""
        if self._rule.labels and not query:
            raise TourError("TourPrf labels candidates and needs the query's text: pass query=, or topics= and ids.")
        return self._rule.update(
            emb_qs,
            np.array([hit.vectors for hit in prf_candidates], dtype=np.float32),
            passages=[read_text(self._texts, hit.docid) for hit in prf_candidates] if self._rule.labels else (),
            query=query,
        )

    def get_batch_prf_q_emb(
        self, topic_ids: list[str], emb_qs: np.ndarray, prf_candidates: dict[str, list[PrfDenseSearchResult]]
    ) -> np.ndarray:
        """The updated vectors [n, d] of the queries of these ids."""
        unknown = [id_ for id_ in topic_ids if self._rule.labels and id_ not in self._topics]
        if unknown:
            raise TourError(f"TourPrf knows no text of the query {unknown[0]!r}: add it to topics=.")
        return np.array(
            [
                self.get_prf_q_emb(vector, prf_candidates[id_], self._topics.get(id_))
                for id_, vector in zip(topic_ids, emb_qs, strict=True)
            ],
            dtype=np.float32,
        )
