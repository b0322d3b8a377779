"""Runs an encoder with ONNX Runtime: from a graph that is made once, proved against the model, and kept.

The graph holds the whole model, from token ids to the vector, and its tokenizer. Once it exists, neither torch nor
transformers is imported.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.encoders.encoder import TextRunner
from tour_pyserini.encoders.sentence_model import (
    BARE_LENGTH,
    ModelOptions,
    TorchRunner,
    fingerprint,
    is_modular,
    load_sentence_model,
)
from tour_pyserini.support.devices import cores
from tour_pyserini.support.model_files import CallLock, encodable, read_json
from tour_pyserini.support.onnx_graphs import (
    GraphError,
    cached_graph,
    is_dynamically_quantised,
    open_graph,
    quantisation_recipe,
    quantise,
    write_graph,
)
from tour_pyserini.support.packages import import_optional

TOLERANCE = 1e-5
"""Allowed difference between a vector of the graph and of the model, relative to the norm of the vector."""
_GRAPH = "one unpadded text to its vector, tokenizer inside, opset 17"
"""Describes the exported graph. Part of its key in the cache folder: change it when the export changes."""
PROBES = (
    "who wrote hamlet",
    "far?",
    "Zürich in 1901: naïve, résumé, 東京",
    " of the  Sea, twice; \n" + "the sea of " * 60,
    "of the " + "sea " * 4096,
)
"""Texts on which the graph is compared with the model; the last one is cut to the length that the model reads."""
_GRAPH_FILE = "model.onnx"  # of an encoder that is published as a graph


class GraphRunner(TextRunner):
    """An encoder as a graph. Each text is computed alone and unpadded, so that its vector depends on nothing else.

    This is also the fastest way on a CPU: no padding, and one thread for each of several texts at a time.

    Args:
        path: the graph.
        role: `query` or `document`.
        options: `threads` are the texts that are computed at a time, `precision` is for records.
    """

    backend = "onnx"

    def __init__(self, path: Path, role: str, options: ModelOptions) -> None:
        self._options, self._session = options, open_graph(path)
        properties = self._properties()
        self._tokenizer = import_optional("tokenizers").Tokenizer.from_str(properties["tokenizer"])
        self._tokenizer.no_padding()  # the file of a published graph may ask for it
        self._lock = CallLock()
        self._side, own = properties["side"], properties[role]
        self.prompt, self.length, self.limit = own["prompt"], own["length"], properties["limit"]
        self.special_tokens = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self.settings = {**properties["settings"], "precision": options.precision}
        self._cut = own["cut"]
        self._workers = options.threads or cores()

    @classmethod
    def of_model(cls, folder: Path, role: str, options: ModelOptions) -> "GraphRunner":
        """The encoder of a folder as a graph, made now or before.

        Raises:
            GraphError: if the model cannot be exported, or its graph gives other vectors; this is remembered.
        """
        files = [fingerprint(folder), fingerprint(Path(options.tokenizer)) if options.tokenizer else None]
        asked = [options.pooling, options.l2_norm, options.truncate_dim]
        graph = cached_graph(_key(files, asked, _GRAPH), partial(_export, folder, options))
        if options.precision == "int8":
            graph = cached_graph(_key(files, asked, _GRAPH, quantisation_recipe()), partial(quantise, graph))
        return cls(graph, role, options)

    def _properties(self) -> dict[str, Any]:
        """Tokenizer, lengths and settings, as `_export` writes them into the graph."""
        return json.loads(self._session.get_modelmeta().custom_metadata_map["encoder"])

    def vectors(self, texts: Sequence[str], *, prompt: str, max_length: int | None) -> Floats:
        """The vectors float32 [n, d] of texts, each with the prompt before it."""
        ids = self.tokens([prompt + encodable(text) for text in texts], max_length)
        # The longest first: the last ones to finish are then short, and no worker waits long for another.
        order = sorted(range(len(ids)), key=lambda position: -len(ids[position]))
        rows: list[Any] = [None] * len(ids)
        for position, row in zip(order, self._run([ids[position] for position in order]), strict=True):
            rows[position] = row
        return np.stack(rows)

    def tokens(self, texts: list[str], max_length: int | None = None) -> list[list[int]]:
        """Token ids of texts, cut to the maximum length."""
        with self._lock:  # the truncation of a tokenizer is the same for all threads
            self._tokenizer.no_truncation()
            if limit := max_length or self._cut:
                self._tokenizer.enable_truncation(limit, direction=self._side)
            return [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]

    def _run(self, rows: list[list[int]]) -> Iterator[Floats]:
        if len(rows) == 1 or self._workers == 1:
            yield from map(self._vector, rows)
            return
        pool = ThreadPoolExecutor(self._workers)
        try:
            yield from pool.map(self._vector, rows)
        finally:
            pool.shutdown(cancel_futures=True)  # after an interruption, the rest is not computed

    def _vector(self, ids: list[int]) -> Floats:
        """The vector [d] of the token ids of a text."""
        return self._session.run(None, {"input_ids": np.array([ids], dtype=np.int64)})[0][0]


class StoredGraphRunner(GraphRunner):
    """An encoder that is published as an ONNX graph from tokens to token vectors, with its tokenizer.

    Args:
        folder: holds `model.onnx` and `tokenizer.json`.
        role: `query` or `document`.
        options: how token vectors are pooled, and whether vectors get norm 1.
    """

    def __init__(self, folder: Path, role: str, options: ModelOptions) -> None:
        self._folder, graph = folder, folder / _GRAPH_FILE
        precision = "int8" if is_dynamically_quantised(graph) else "fp32"
        super().__init__(graph, role, replace(options, precision=precision))
        self._inputs = {node.name for node in self._session.get_inputs()}

    @staticmethod
    def accepts(folder: Path) -> bool:
        """Whether a folder holds an encoder as an ONNX graph alone."""
        has_weights = any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))
        return (folder / _GRAPH_FILE).is_file() and (folder / "tokenizer.json").is_file() and not has_weights

    def _properties(self) -> dict[str, Any]:
        positions = read_json(self._folder / "config.json").get("max_position_embeddings")
        longest = read_json(self._folder / "tokenizer_config.json").get("model_max_length")
        limit = min((length for length in (positions, longest) if length), default=None)
        roles = {"query": limit, "document": min(BARE_LENGTH, limit or BARE_LENGTH)}
        options = self._options
        settings = {"pooling": options.pooling, "l2_norm": bool(options.l2_norm), "truncate_dim": options.truncate_dim}
        return {
            "tokenizer": (self._folder / "tokenizer.json").read_text(encoding="utf-8"),
            "side": "right",
            "limit": limit,
            "settings": settings,
            **{role: {"prompt": "", "length": length, "cut": limit} for role, length in roles.items()},
        }

    def _vector(self, ids: list[int]) -> Floats:
        row = np.array([ids], dtype=np.int64)
        feeds = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        tokens = self._session.run(None, {name: feeds[name] for name in self._inputs})[0][0]
        vector = _POOLED[str(self._options.pooling)](tokens)[: self._options.truncate_dim]
        return vector / np.linalg.norm(vector) if self._options.l2_norm else vector


_POOLED: dict[str, Callable[[Floats], Floats]] = {
    "cls": lambda tokens: tokens[0],
    "last": lambda tokens: tokens[-1],
    "mean": lambda tokens: tokens.mean(axis=0),
    "max": lambda tokens: tokens.max(axis=0),
}


def _key(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(["encoder", *parts]).encode()).hexdigest()


def _export(folder: Path, options: ModelOptions, path: Path) -> None:
    """Write the graph, and prove that it gives the vectors of `encode_query` and `encode_document` of the model."""
    onnx = import_optional("onnx", extra="onnx")
    model = load_sentence_model(folder, options)
    if reason := _obstacle(model):
        raise GraphError(reason)
    runners = [TorchRunner(model, role, bare=not is_modular(folder)) for role in ("query", "document")]
    # In one padded batch: the reference is what the model's authors compute.
    expected = [model.encode_query(list(PROBES)), model.encode_document(list(PROBES))]
    ids = [_ids(model, runner) for runner in runners]
    properties: dict[str, Any] = {
        "tokenizer": model.tokenizer.backend_tokenizer.to_str(),
        "side": model.tokenizer.truncation_side,
        "limit": runners[0].limit,
        "settings": runners[0].settings,
    }
    for runner in runners:
        properties[runner.role] = {"prompt": runner.prompt, "length": runner.length, "cut": runner.cut}
    model[0].auto_model.set_attn_implementation("eager")
    inputs = {"input_ids": np.array(ids[0][:1])}

    def vector(tensors: dict[str, Any]) -> Any:
        """The vector [1, d] of token ids [1, length]."""
        ids = tensors["input_ids"]
        features = model({"input_ids": ids, "attention_mask": ids.new_ones(ids.shape)})
        return features["sentence_embedding"][:, : model.truncate_dim]

    write_graph(model, vector, inputs, path, output="vector")
    written = onnx.load(str(path))
    onnx.helper.set_model_props(written, {"encoder": json.dumps(properties)})
    onnx.save(written, str(path))
    graphs = [GraphRunner(path, role, ModelOptions(threads=1)) for role in ("query", "document")]
    texts = [[runner.prompt + probe for probe in PROBES] for runner in runners]
    if not all(g.tokens(t) == i for g, t, i in zip(graphs, texts, ids, strict=True)):
        raise GraphError("the tokenizer of the ONNX graph gives other tokens than the model's tokenizer")
    actual = [g.vectors(PROBES, prompt=r.prompt, max_length=None) for g, r in zip(graphs, runners, strict=True)]
    found, wanted = np.concatenate(actual), np.concatenate(expected)
    difference = float((np.abs(found - wanted).max(axis=1) / np.linalg.norm(wanted, axis=1)).max())
    if not difference <= TOLERANCE:  # also true for NaN
        raise GraphError(f"the ONNX graph gives other vectors than the model (difference {difference:.2g})")


def _obstacle(model: Any) -> str | None:
    """Why the model cannot be a graph of one text; None if nothing is known to stand in the way."""
    if not hasattr(model[0], "auto_model") or not hasattr(model.tokenizer, "backend_tokenizer"):
        return "the model does not begin with a transformer and a fast tokenizer, which a graph consists of"
    if any(getattr(module, "include_prompt", True) is False for module in model):
        return "the model pools without its prompt, which a graph does not know"
    return None


def _ids(model: Any, runner: Any) -> list[list[int]]:
    """Token ids of the probes without padding, as the model's own preparation of texts makes them."""
    rows = []
    for probe in PROBES:
        features = model.preprocess([probe], prompt=runner.prompt, task=runner.role)
        rows.append(features["input_ids"][0][features["attention_mask"][0].bool()].tolist())
    return rows
