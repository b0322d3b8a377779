"""TouR's update as one of Pyserini's dense PRF rules."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.searchers.feedback import Feedback
from tour_pyserini.support.java import ensure_java

ensure_java()

from pyserini.search.faiss import PrfDenseSearchResult  # noqa: E402
from pyserini.search.faiss._prf import DenseVectorPrf  # noqa: E402


class TourPrf(DenseVectorPrf):
    """One update of a query from the candidates it is given; the caller retrieves again.

    Pyserini hands a PRF rule vectors and ids but no query text: `topics` has the texts by id, or a single query's
    text is passed along. Further signals are asked for the query's text, and what they say is compared among the
    candidates that the rule is given; it knows no others.

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
        signals: Sequence[Any] = (),
    ) -> None:
        """Set up the rule; its candidates are those it is given, not `config.depth`, and its updates one.

        Args:
            reranker: where labels come from: anything `load_reranker` takes.
            texts: the candidates' passages: anything `open_texts` takes.
            config: the method and its settings.
            topics: the texts of queries by their ids.
            signals: what else says something of the candidates, each anything `as_signal` takes.
        """
        super().__init__()
        config = config or TourConfig()
        if config.most_labels and texts is None:
            raise TourError(f"the method {config.method} reads passages: give their texts (the corpus).")
        self._texts = open_texts(texts) if texts is not None else {}
        if not isinstance(topics, Mapping | None):
            raise TourError(f"topics is a mapping from query id to text, not {type(topics).__name__}.")
        self._topics = topics or {}
        self._rule = Feedback(reranker, config, signals=signals)
        self.config = self._rule.config

    def get_prf_q_emb(
        self, emb_qs: np.ndarray, prf_candidates: list[PrfDenseSearchResult], query: str | None = None
    ) -> np.ndarray:
        """The updated vector [d] of the query of that text and vector [d]; the same where it may stop already."""
        if self._rule.reads_query and not query:
            raise TourError("TourPrf labels candidates and needs the query's text: pass query=, or topics= and ids.")
        docids = [hit.docid for hit in prf_candidates]
        return self._rule.update(
            emb_qs,
            np.array([hit.vectors for hit in prf_candidates], dtype=np.float32),
            docids=docids,
            passages=[self._texts[docid] for docid in docids] if self._rule.labels else (),
            query=query,
        )

    def get_batch_prf_q_emb(
        self, topic_ids: list[str], emb_qs: np.ndarray, prf_candidates: dict[str, list[PrfDenseSearchResult]]
    ) -> np.ndarray:
        """The updated vectors [n, d] of the queries of these ids."""
        unknown = [id_ for id_ in topic_ids if self._rule.reads_query and id_ not in self._topics]
        if unknown:
            raise TourError(f"TourPrf knows no text of the query {unknown[0]!r}: add it to topics=.")
        return np.array(
            [
                self.get_prf_q_emb(vector, prf_candidates[id_], self._topics.get(id_))
                for id_, vector in zip(topic_ids, emb_qs, strict=True)
            ],
            dtype=np.float32,
        )
