"""The index and the models of commands that prepare searches: the flags that `calibrate` and `learn` share."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from tour_pyserini.encoders.sentence_model import POOLINGS
from tour_pyserini.pipeline.request import Request, option
from tour_pyserini.pipeline.search_request import SearchRequest
from tour_pyserini.rerankers.options import BACKENDS, PRECISIONS
from tour_pyserini.support.devices import DTYPES

# Groups of flags in --help.
INPUT, MODELS = "what is read", "models"


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
    vectors: str | None = option(
        None,
        "exact vectors for a compressed index, as the searches will have them: the folder of an encoded corpus",
        group=INPUT,
        metavar="DIR",
    )
    encoder: str | None = option(
        None, "query encoder (default: the encoder that built the index)", group=MODELS, metavar="NAME"
    )
    encoder_class: str | None = option(
        None, "Pyserini's encoder class; inferred if not given", group=MODELS, metavar="CLASS"
    )
    tokenizer: str | None = option(None, "tokenizer, if not the encoder's own", group=MODELS, metavar="NAME")
    pooling: str | None = option(
        None, "how vectors of tokens become one (default: as for the index)", group=MODELS, choices=tuple(POOLINGS)
    )
    l2_norm: bool | None = option(None, "vectors of unit norm (default: as for the index)", group=MODELS)
    truncate_dim: int | None = option(
        None, "dimensions kept of each vector (default: as for the index)", group=MODELS, count=True
    )
    query_prefix: str | None = option(
        None,
        "put before each query when it is encoded, instead of the model's own prompt",
        group=MODELS,
        metavar="TEXT",
    )
    device: str = option("cpu", "device of encoder and re-ranker: cpu, cuda:0, ...", group=MODELS)
    dtype: str = option(
        "auto",
        "numbers that models compute with (not ONNX re-rankers); auto: float32 on a CPU, as stored on a GPU",
        group=MODELS,
        choices=DTYPES,
    )
    trust_remote_code: bool = option(False, "run Python code that a model's folder or name brings along", group=MODELS)
    reranker: Any = option(  # noqa: RUF009 (a dataclass field; Any hides it)
        "default", "a cross-encoder's name or folder, or `default`", group=MODELS
    )
    reranker_max_length: int = option(512, "tokens of a query and a passage together", group=MODELS, count=True)
    reranker_prompt: str | None = option(
        None,
        "what a language model reads as a re-ranker, if its files do not say it: a family's name or a JSON file",
        group=MODELS,
        metavar="PROMPT",
    )
    backend: str = option("auto", "what runs a cross-encoder's checkpoint", group=MODELS, choices=BACKENDS)
    precision: str | None = option(
        None, "int8 is faster and gives other scores (default: the model's own)", group=MODELS, choices=PRECISIONS
    )
    cache: str | None = option(
        None, "the score cache (default: scores.sqlite in the cache folder)", group=MODELS, metavar="FILE"
    )

    def search_request(self, **fields: Any) -> SearchRequest:
        """A search of the index with these models; `fields` are further fields of it."""
        named = {item.name: getattr(self, item.name) for item in dataclasses.fields(ModelsRequest)}
        return SearchRequest(**named, **fields)
