"""Choose and create the back end that runs a checkpoint: ONNX Runtime with an exported graph, or torch."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.classifier import Classifier
from tour_pyserini.rerankers.onnx_classifier import OnnxClassifier
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import PROBES, PairTokens
from tour_pyserini.support.checkpoints import read_model
from tour_pyserini.support.hardware import cpu_flags
from tour_pyserini.support.model_files import checkpoint_files, fingerprint
from tour_pyserini.support.onnx_graphs import GraphError, cached_graph
from tour_pyserini.support.quantise import quantisation_recipe, quantise

log = logging.getLogger(__name__)

GRAPH = "one unpadded pair, first token, opset 17, longest probe traced"
"""Describes the exported graph. Part of its key in the cache folder: change it when the export changes."""

PROVED = 512
"""Tokens of the longest pair on which a graph is compared with its model, if the model takes so many."""


class Checkpoint:
    """A sequence classifier in a folder, whose weights are read when a back end needs them.

    Args:
        folder: the folder of the checkpoint.
        config: its configuration.
        tokens: its tokenizer of pairs, with a maximum length of `PROVED` or more if the model takes so many.
        dtype: the type of numbers that it computes with.
        fill: the value that each input is padded with.
        pad_left: batches are padded at the start of a row instead of its end.
    """

    def __init__(
        self,
        folder: Path,
        config: Any,
        tokens: PairTokens,
        *,
        dtype: str,
        fill: Mapping[str, int],
        pad_left: bool = False,
    ) -> None:
        self._folder = folder
        self._config = config
        self._rows = next(iter(tokens.rows([PROBES])))
        self._dtype = dtype
        self._fill = fill
        self._pad_left = pad_left

    def classifier(self, options: Options) -> tuple[Classifier, dict[str, str]]:
        """Create the back end, and return it with the settings that change scores, for the fingerprint."""
        if self._dtype != "float32":
            return self._torch(options), {"dtype": self._dtype}
        if backend_for(options) == "onnx":
            try:
                return self._onnx(options)
            except GraphError as error:
                if options.backend == "onnx" or options.precision == "int8":
                    raise TourError(
                        f"{self._folder}: {error}; use the back end torch and the precision fp32."
                    ) from error
                log.warning("%s: %s; using torch instead", self._folder, error)
        return self._torch(options), {}

    def _torch(self, options: Options) -> Classifier:
        from tour_pyserini.rerankers.torch_classifier import TorchClassifier

        return TorchClassifier(self._model(options), options, self._rows[:2], self._fill, pad_left=self._pad_left)

    def _onnx(self, options: Options) -> tuple[Classifier, dict[str, str]]:
        if options.device != "cpu":
            raise TourError(
                f"the back end onnx runs checkpoints on cpu only, not on {options.device}; use torch or cpu."
            )
        files = checkpoint_files(self._folder, code=options.trust_remote_code)
        settings = {"backend": "onnx"}
        graph = cached_graph(_key(files, **self._graph_settings()), partial(self._export, options))
        if options.precision == "int8":
            settings["precision"] = quantisation_recipe()
            key = _key(files, **self._graph_settings(), precision=settings["precision"])
            graph = cached_graph(key, partial(quantise, graph))
        return OnnxClassifier(graph, options), settings

    def _graph_settings(self) -> dict[str, str]:
        """What a graph depends on besides the files; graphs are proved for `PROVED` tokens, or for more on request."""
        longest = max(len(row["input_ids"]) for row in self._rows)
        return {"graph": GRAPH} if longest <= PROVED else {"graph": GRAPH, "proved": str(longest)}

    def _export(self, options: Options, path: Path) -> None:
        from tour_pyserini.rerankers.onnx_export import export

        export(self._model(replace(options, device="cpu")), self._rows, self._fill, path)

    def _model(self, options: Options) -> Any:
        return read_model(
            self._folder,
            "AutoModelForSequenceClassification",
            self._config,
            device=options.device,
            dtype=self._dtype,
            trust_remote_code=options.trust_remote_code,
        )


def backend_for(options: Options) -> str:
    """The back end of the options; for "auto", the one that is faster on this machine.

    On x86 processors with AVX2 or AVX-512, ONNX Runtime was measured to be faster. Other processors were not measured;
    they use torch, which needs no export. GPUs use torch too.
    """
    if options.backend != "auto":
        return options.backend
    if options.precision == "int8":
        return "onnx"
    has_avx2 = options.device == "cpu" and "avx2" in (cpu_flags() or ())
    return "onnx" if has_avx2 and find_spec("onnx") and find_spec("onnxruntime") else "torch"


def _key(files: list[Path], **settings: str) -> str:
    return fingerprint("graph", files, **settings).removeprefix("graph:")
