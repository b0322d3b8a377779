"""TouR in other frameworks: one module for each, which needs the extra of the same framework.

Here: searchers over what a framework's vector store holds, lists of its documents, and the place of results in its
metadata.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.errors import TourError
from tour_pyserini.searchers.list_reranker import TourReranker
from tour_pyserini.searchers.searcher import TourSearcher

KEY = "tour"
"""The key of a document's metadata that holds what TouR knows of it."""
_SIGNS = {"==": "eq", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "in": "in"}


def store_searcher(
    vectors: Mapping[str, Sequence[float]],
    texts: Mapping[str, str],
    embed: Callable[[str], Sequence[float]],
    score: Any,
    *,
    fields: Mapping[str, Mapping[str, Any]],
    cosine: bool,
    settings: Mapping[str, Any],
) -> TourSearcher:
    """A searcher over a vector store's own vectors.

    Args:
        vectors: the vector [d] of each document, by id.
        texts: its passage, by id.
        embed: from a query to its vector [d].
        score: where labels come from, as `TourSearcher.from_vectors` takes it.
        fields: its metadata, which filters read, by id.
        cosine: whether the store compares by cosine: vectors then get length 1.
        settings: of `TourSearcher.from_vectors`.
    """
    if not vectors:
        raise TourError("the vector store has no documents with vectors; add them before making a retriever.")
    try:
        matrix = np.array(list(vectors.values()), dtype=np.float32)
    except ValueError as error:
        raise TourError(f"the vectors of the store are not all of the same length ({error}).") from error
    shape: Callable[[Any], Floats] = _unit if cosine else _plain
    return TourSearcher.from_vectors(
        shape(matrix),
        {docid: texts[docid] for docid in vectors},
        lambda query: shape(embed(query)),
        score,
        fields=fields,
        **settings,
    )


def condition(field: str, sign: str, value: Any) -> dict[str, Any]:
    """A condition on a field in our language, from the sign that LlamaIndex and Haystack write.

    Raises:
        TourError: if we have no such condition.
    """
    if sign not in _SIGNS:
        raise TourError(f"the filter compares {field!r} by {sign!r}, and filters here have {', '.join(_SIGNS)}.")
    return {field: {_SIGNS[sign]: value}}


def open_searcher(fields: Mapping[str, Any]) -> TourSearcher:
    """The searcher that fields of a search request describe: `index`, `corpus`, `reranker`, `method`, `budget`, ..."""
    from tour_pyserini.opening import Opener  # whoever has a searcher needs none of this
    from tour_pyserini.search_request import SearchRequest

    request, opener = SearchRequest.from_flags({"topics": "none", **fields}).completed(), Opener()
    return opener.searcher(request, opener.reranker(request) if request.config.most_labels else None)


def rank_documents(
    reranker: TourReranker,
    query: str,
    texts: Sequence[str],
    scores: Sequence[float | None] = (),
    vectors: Sequence[Any] = (),
    query_vector: Any = None,
) -> Iterator[tuple[int, float, dict[str, Any]]]:
    """The documents of a list, best first: position, score and metadata of each.

    Args:
        reranker: what ranks them.
        query: the query's text.
        texts: [n] their passages.
        scores: [n] what the first stage says of them; their order counts unless each has a score.
        vectors: [n] their vectors; the query moves if each has one and the query too.
        query_vector: [d] the query's vector.
    """
    known = [*scores] if len(scores) == len(texts) and None not in scores else None
    own = [*vectors] if len(vectors) == len(texts) and not any(vector is None for vector in vectors) else None
    if query_vector is None or not own:
        own = query_vector = None
    ranked = reranker.rank(query, texts, own, known, query_vector=query_vector)  # type: ignore[arg-type]
    for rank, (_, position, score, label) in enumerate(ranked, start=1):
        yield position, score, {"score": score, "label": label, "rank": rank, "rank_before": position + 1}


def refuse_unknown(names: Collection[str]) -> None:
    """Refuse keywords that a retriever does not have: a filter that is ignored shows what was to be hidden.

    Raises:
        TourError: if there are any.
    """
    if names:
        raise TourError(
            f"a TourRetriever has no {', '.join(sorted(names))}; leave it out. What may be found is said by filter= "
            "(filters= in LlamaIndex and Haystack)."
        )


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


def _plain(vectors: Any) -> Floats:
    return np.asarray(vectors, dtype=np.float32)


def _unit(vectors: Any) -> Floats:
    """The vectors with length 1; a zero vector stays one."""
    values = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(values, axis=-1, keepdims=True)
    return values / np.where(norms > 0, norms, 1)
