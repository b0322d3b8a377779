"""TouR in other frameworks: one module for each, which needs the extra of the same framework.

Here: searchers over what a framework's vector store holds, lists of its documents, and the place of results in its
metadata.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError
from tour_pyserini.searchers.list_reranker import TourReranker
from tour_pyserini.searchers.searcher import TourSearcher

KEY = "tour"
"""The key of a document's metadata that holds what TouR knows of it."""
SIGNS = {"==": "eq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "in": "in"}
"""What the signs of LlamaIndex and Haystack are called in our filters, which refuse other ones."""


def store_searcher(
    documents: Mapping[str, tuple[Sequence[float], str, Mapping[str, Any]]],
    embed: Callable[[str], Sequence[float]],
    score: Any,
    *,
    cosine: bool,
    **settings: Any,
) -> TourSearcher:
    """A searcher over a vector store's own vectors.

    Args:
        documents: the vector [d] of each document, its passage, and its metadata, which filters read, by id.
        embed: from a query to its vector [d].
        score: where labels come from, as `TourSearcher.from_vectors` takes it.
        cosine: whether the store compares by cosine: vectors then get length 1.
        settings: of `TourSearcher.from_vectors`.
    """
    if not documents:
        raise TourError("the vector store has no documents with vectors; add them before making a retriever.")

    def scaled(values: Any) -> Floats:
        """The vectors as the store compares them; a zero vector stays one."""
        values = np.asarray(values, dtype=np.float32)
        norms = np.linalg.norm(values, axis=-1, keepdims=True)
        return values / np.where(norms > 0, norms, 1) if cosine else values

    vectors, texts, fields = (dict(zip(documents, part, strict=True)) for part in zip(*documents.values(), strict=True))
    matrix = scaled(list(vectors.values()))
    return TourSearcher.from_vectors(
        matrix, texts, lambda query: scaled(embed(query)), score, fields=fields, **settings
    )


def rank_documents(
    reranker: TourReranker, query: str, documents: Sequence[tuple[str, float | None, Any]], query_vector: Any = None
) -> Iterator[tuple[int, float, dict[str, Any]]]:
    """The documents of a list, best first: position, score and metadata of each.

    Args:
        reranker: what ranks them.
        query: the query's text.
        documents: the passage of each, what the first stage says of it, and its vector. Their order counts unless each
            has a score; the query moves if each has a vector, and the query too.
        query_vector: [d] the query's vector.
    """
    parts: Any = ([one[part] for one in documents] for part in range(3))
    texts, scores, vectors = parts
    if query_vector is None or any(vector is None for vector in vectors):
        vectors = query_vector = None
    known = None if None in scores else scores
    ranked = reranker.rank(query, texts, vectors, known, query_vector=query_vector)
    for rank, (_, position, score, label) in enumerate(ranked, start=1):
        yield position, score, {"score": score, "label": label, "rank": rank, "rank_before": position + 1}


def check_store(store: Any, kind: type) -> None:
    """Refuse a store of another kind than the one whose vectors can be read.

    Raises:
        TourError: if it is of another kind.
    """
    if not isinstance(store, kind):
        raise TourError(
            f"{type(store).__name__} does not hand out its vectors: give a TourSearcher, made by "
            "TourSearcher.from_vectors from the vectors and texts that you put there."
        )
