"""TouR behind QueryEncoder's interface."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.config import TourConfig
from tour_pyserini.searchers.dense_signal import dense_part, listed, sparse_parts
from tour_pyserini.searchers.faiss_searcher import FaissSearcher
from tour_pyserini.searchers.searched_index import open_searcher
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.support.java import ensure_java

ensure_java()

from pyserini.encode import QueryEncoder  # noqa: E402


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
        searcher = open_searcher(searcher, encoder) if isinstance(searcher, str | os.PathLike) else searcher
        signals = [*sparse_parts(searcher), *listed(signals)]
        index = _With(dense_part(searcher), encoder)
        self._tour = TourSearcher(index, reranker, texts, config, vectors=vectors, signals=signals)
        self._threads = threads

    def encode(self, query: str, **_: Any) -> np.ndarray:
        """The optimised vector [d] of one query."""
        return self.encode_batch([query])[0]

    def encode_batch(self, queries: list[str], **_: Any) -> np.ndarray:
        """The optimised vectors [n, d] of queries that advance together."""
        return self._tour.optimise(queries, threads=self._threads)


class _With:
    """A searcher seen with another query encoder."""

    def __init__(self, searcher: FaissSearcher, encoder: QueryEncoder) -> None:
        self._searcher, self.query_encoder = searcher, encoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._searcher, name)
