"""TouR as a searcher: over Pyserini's FaissSearcher, or over vectors in memory."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.purse import Purse
from tour_pyserini.encoders.query_adapter import QueryAdapter
from tour_pyserini.errors import TourError
from tour_pyserini.searchers.dense_signal import dense_part
from tour_pyserini.searchers.in_memory import in_memory_index
from tour_pyserini.searchers.optimiser import Observer
from tour_pyserini.searchers.tour_engine import TourEngine


class TourSearcher(TourEngine):
    """A searcher whose queries are optimised at test time.

    Made from a FaissSearcher of Pyserini's, it is a FaissSearcher itself: it has its methods, signatures and results,
    so it can be used wherever one can. Made from a HybridSearcher, it is one too, and searches with both parts of it. A
    query given as a vector has no text to label and is searched as it is.
    `TourSearcher.from_vectors` needs neither Pyserini nor files.

    Attributes:
        config: what it computes.
        costs: what it has cost so far.

    Example:
        searcher = TourSearcher(FaissSearcher("indexes/scifact", encoder), "default", "scifact/corpus.jsonl")
        hits = searcher.search("do statins prevent stroke", k=100)
        print(hits[0].docid, hits[0].score, hits[0].text)
    """

    def __new__(cls, searcher: Any = None, *_: Any, **__: Any) -> Self:
        """As `pathlib.Path` does, choose the class that fits: a FaissSearcher gives a FaissSearcher."""
        # Whoever has a FaissSearcher has imported this module already, so that nothing is imported for the others.
        pyserini = sys.modules.get("pyserini.search.faiss")
        if cls is TourSearcher and pyserini is not None and isinstance(dense_part(searcher), pyserini.FaissSearcher):
            from tour_pyserini.searchers.faiss_searcher import TourFaissSearcher

            return super().__new__(TourFaissSearcher)
        return super().__new__(cls)

    @classmethod
    def from_vectors(
        cls,
        vectors: Any,
        texts: Mapping[str, str] | Iterable[str] | str | os.PathLike[str],
        encode: Any,
        score: Any = None,
        config: TourConfig | None = None,
        *,
        docids: Iterable[str] | None = None,
        signals: Sequence[Any] = (),
        remove_query: bool = False,
        scale: float | str | os.PathLike[str] | None = None,
        purse: Purse | None = None,
        adapter: QueryAdapter | str | os.PathLike[str] | None = None,
        observe: Observer | None = None,
        **settings: Any,
    ) -> "TourSearcher":
        """Search vectors that are in memory.

        Args:
            vectors: the passages' vectors: a matrix [n, d], or a FAISS index of inner products.
            texts: the passages: a list in the order of the vectors, or a mapping from docid to text, in their order
                too unless `docids` says otherwise. The file of a BEIR corpus is such a mapping.
            encode: a function from a query to its vector [d], or from a list of queries to their vectors [n, d]; or
                an object with `encode_query` or `encode`, such as a SentenceTransformer. Queries are encoded one at
                a time, so that no query's vector depends on another query.
            score: a function from a list of pairs (query, passage) to their scores, raw logits if there are such; or
                anything that `load_reranker` takes, such as a CrossEncoder. None for methods that do not label.
            config: the method and its settings.
            docids: the name of each vector; without it, the keys of `texts`, or positions "0", "1", ... in a list.
            signals: what finds candidates beside the vectors: functions `(queries, k) -> docids, scores`, best first,
                or anything else that `as_signal` takes.
            remove_query: never retrieve the document whose docid is the query's id.
            scale: the factor that puts similarities on the scale of labels; None: each query finds its own.
            purse: labels that queries share in the order in which they arrive; for a service.
            adapter: corrects the vector of every query before it is searched: what `learn` wrote, or its file.
            observe: called after each round of a batch, with the query ids of the batch.
            settings: settings by name, over `config` or the defaults: `method="hard", depth=20`.

        Raises:
            TourError: if something has the wrong type or size, or is not finite.

        Example:
            searcher = TourSearcher.from_vectors(matrix, texts, model.encode, CrossEncoder(name), budget=30)
            print(searcher.search("do statins prevent stroke", k=10)[0].text)
        """
        config = _config(config, settings)
        if score is None and config.method_class.needs_labels:
            raise TourError(f"the method {config.method} needs labels: give score, a function or a re-ranker.")
        index, passages = in_memory_index(vectors, texts, encode, docids=docids)
        return TourSearcher(
            index,
            score,
            passages,
            config,
            signals=signals,
            remove_query=remove_query,
            scale=scale,
            purse=purse,
            adapter=adapter,
            observe=observe,
        )


def _config(config: TourConfig | None, settings: Mapping[str, Any]) -> TourConfig:
    if config is None:
        return TourConfig(**settings)
    if not isinstance(config, TourConfig):
        raise TourError(f"config is a TourConfig, not {type(config).__name__}: TourConfig.parse reads text.")
    return config.replace(**settings) if settings else config
