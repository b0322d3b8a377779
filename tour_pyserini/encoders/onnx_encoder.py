"""The query encoder of the class auto on ONNX Runtime: it starts in a fraction of the time that torch takes."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.encoders.document_vectors import fitting_length
from tour_pyserini.encoders.grouped_encoder import GroupedQueryEncoder, pooled
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.onnx_graphs import GraphError, cached_graph, open_graph, write_graph
from tour_pyserini.support.optional import import_optional

TOLERANCE = 1e-5
"""Allowed difference between a vector of the graph and of the model, relative to the norm of the vector."""
GRAPH = "one unpadded query, token vectors, tokenizer inside, opset 17"
"""Describes the exported graph. Part of its key in the cache folder: change it when the export changes."""
PROBES = (
    "who wrote hamlet",
    "far?",
    "Zürich in 1901: naïve, résumé, 東京",
    "of the " + "sea " * 4096,
)
"""Queries on which the graph is compared with the model; the last one is cut to the length that the model reads."""
_MAX_LENGTH = 1_000_000  # transformers means "no limit" with numbers above


class OnnxQueryEncoder:
    """Encodes queries with a graph that is exported once, compared with the model and kept in the cache folder.

    Each query is encoded on its own with one thread, so its vector depends on nothing else. It differs from the vector
    that torch computes by rounding, at most by `TOLERANCE`. Once the graph exists, neither torch nor transformers is
    imported.

    Args:
        folder: the model's folder.
        fingerprint: identifies the content of the model and the tokenizer.
        tokenizer_name: folder of the tokenizer, if not the model's own.
        pooling: `mean`, or the vector of the first token for any other word.
        l2_norm: whether vectors get norm 1.
        prefix: text put before every query, followed by a space.

    Raises:
        TourError: if the model cannot be exported, or the graph gives other vectors.
    """

    has_model = True

    def __init__(
        self,
        folder: str,
        *,
        fingerprint: str,
        tokenizer_name: str | None = None,
        pooling: str = "cls",
        l2_norm: bool = False,
        prefix: str | None = None,
    ) -> None:
        self.pooling, self.l2_norm, self.prefix = pooling, l2_norm, prefix
        key = hashlib.sha256(json.dumps(["query encoder", fingerprint, GRAPH]).encode()).hexdigest()
        try:
            graph = cached_graph(key, lambda path: _export(folder, tokenizer_name, path))
        except GraphError as error:
            raise TourError(f"{folder}: {error}; use --encoder-backend torch.") from error
        self._graph = _Graph(graph)

    def encode(self, query: str, max_length: int | None = None) -> Floats:
        """The vector [d] of a query."""
        return self.encode_batch([query], max_length)[0]

    def encode_batch(self, queries: Sequence[str], max_length: int | None = None) -> Floats:
        """The vectors [n, d] of the queries."""
        texts = [f"{self.prefix} {query}" if self.prefix else query for query in queries]
        outputs = (self._graph(ids) for ids in self._graph.tokens(texts, max_length))
        mean = self.pooling == "mean"
        return np.concatenate([pooled(output, mean=mean, l2_norm=self.l2_norm) for output in outputs])


class _Graph:
    """A graph in memory, with its tokenizer."""

    def __init__(self, path: Path) -> None:
        self._session = open_graph(path)
        properties = self._session.get_modelmeta().custom_metadata_map
        self._tokenizer = import_optional("tokenizers").Tokenizer.from_str(properties["tokenizer"])
        self._limit = int(properties["max_length"])
        self._side = properties["side"]

    def tokens(self, texts: list[str], max_length: int | None = None) -> list[list[int]]:
        """Token ids of texts, cut to the maximum length."""
        limit = max_length or self._limit
        if limit < _MAX_LENGTH:
            self._tokenizer.enable_truncation(limit, direction=self._side)
        else:
            self._tokenizer.no_truncation()
        return [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]

    def __call__(self, ids: list[int]) -> Floats:
        """Vectors of tokens [1, length, d]."""
        return self._session.run(None, {"input_ids": np.array([ids], dtype=np.int64)})[0]


def _export(folder: str, tokenizer_name: str | None, path: Path) -> None:
    """Write the graph with its tokenizer, and check that both give what the model and its tokenizer give."""
    onnx = import_optional("onnx", extra="onnx")
    encoder = GroupedQueryEncoder(folder, tokenizer_name=tokenizer_name, pooling="mean")
    tokenizer = getattr(encoder.tokenizer, "backend_tokenizer", None)
    if tokenizer is None:
        raise GraphError("its tokenizer is written in Python and cannot be part of a graph")
    expected_ids = encoder.tokenizer(list(PROBES), truncation=True)["input_ids"]
    length = fitting_length(encoder, None)
    rows = [ids[:length] for ids in expected_ids]
    expected = np.concatenate([encoder._vectors([row]) for row in rows])
    tokenizer.no_padding()
    tokenizer.no_truncation()
    properties = {
        "tokenizer": tokenizer.to_str(),
        "max_length": str(min(encoder.tokenizer.model_max_length, _MAX_LENGTH)),
        "side": encoder.tokenizer.truncation_side,
    }
    try:
        encoder.model.set_attn_implementation("eager")
        write_graph(_token_vectors(encoder.model), {"input_ids": np.array(expected_ids[:1])}, path, output="vectors")
        model = onnx.load(str(path))
        onnx.helper.set_model_props(model, properties)
        onnx.save(model, str(path))
        graph = _Graph(path)
        ids = graph.tokens(list(PROBES))
        actual = np.concatenate([pooled(graph(row), mean=True, l2_norm=False) for row in rows])
    except Exception as error:
        raise GraphError(f"the model cannot be exported to ONNX ({first_line(error)[:200]})") from error
    if ids != expected_ids:
        raise GraphError("the tokenizer of the ONNX graph gives other tokens than the model's tokenizer")
    difference = float((np.abs(actual - expected).max(axis=1) / np.linalg.norm(expected, axis=1)).max())
    if not difference <= TOLERANCE:  # also true for NaN
        raise GraphError(f"the ONNX graph gives other vectors than the model (difference {difference:.2g})")


def _token_vectors(model: Any) -> Any:
    """A module from token ids to vectors of tokens, as the exporter needs it."""
    import torch

    class TokenVectors(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids, attention_mask=torch.ones_like(ids))[0]

    return TokenVectors()
