"""The index and the models of a command that prepares searches."""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

from tour_pyserini.pipeline.request import Request, option, same_option
from tour_pyserini.pipeline.search_request import SearchRequest

# Groups of flags in --help.
INPUT, MODELS = "what is read", "models"

_same = functools.partial(same_option, SearchRequest, group=MODELS)


@dataclass(frozen=True, kw_only=True)
class ModelsRequest(Request):
    """An index, its passages, a query encoder and a re-ranker, as searches will have them.

    Attributes:
        index: the index.
        corpus: its passages.
        vectors: exact vectors of a compressed index.
        reranker: a cross-encoder's name, folder or object, or `default`.
    """

    index: str = option(
        dataclasses.MISSING, "FAISS index folder, or the name of a prebuilt index", group=INPUT, metavar="DIR"
    )
    corpus: str = option(
        dataclasses.MISSING,
        "passages: BEIR corpus.jsonl, Lucene index folder or prebuilt name",
        group=INPUT,
        metavar="FILE",
    )
    vectors: str | None = same_option(
        SearchRequest,
        "vectors",
        group=INPUT,
        help="exact vectors for a compressed index, as the searches will have them: the folder of an encoded corpus",
    )
    encoder: str | None = _same("encoder", help="query encoder (default: the encoder that built the index)")
    encoder_class: str | None = _same("encoder_class")
    tokenizer: str | None = _same("tokenizer")
    pooling: str | None = _same("pooling", help="how vectors of tokens become one (default: as for the index)")
    l2_norm: bool | None = _same("l2_norm", help="vectors of unit norm (default: as for the index)")
    truncate_dim: int | None = _same("truncate_dim")
    query_prefix: str | None = _same("query_prefix")
    device: str = _same("device")
    dtype: str = _same("dtype")
    trust_remote_code: bool = _same("trust_remote_code")
    reranker: Any = _same(  # noqa: RUF009 (a dataclass field; Any hides it)
        "reranker", help="a cross-encoder's name or folder, or `default`"
    )
    reranker_max_length: int = _same("reranker_max_length")
    reranker_prompt: str | None = _same("reranker_prompt")
    backend: str = _same("backend")
    precision: str | None = _same("precision")
    cache: str | None = _same("cache", help="the score cache (default: scores.sqlite in the cache folder)")

    def search_request(self, **fields: Any) -> SearchRequest:
        """A search of the index with these models; `fields` are further fields of it."""
        named = {item.name: getattr(self, item.name) for item in dataclasses.fields(ModelsRequest)}
        return SearchRequest(**named, **fields)
