"""What runs a checkpoint: ONNX Runtime from an exported graph, or torch."""

import logging
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.classifier import Classifier
from tour_pyserini.rerankers.graph_cache import NoGraph, kept_graph
from tour_pyserini.rerankers.onnx_classifier import OnnxClassifier
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import PairTokens
from tour_pyserini.rerankers.quantise import quantise, recipe
from tour_pyserini.support.checkpoints import files_of, fingerprint, read_model
from tour_pyserini.support.hardware import cpu_flags

logger = logging.getLogger(__name__)

GRAPH = "one unpadded pair, first token, opset 17"
"""Which graph is made of a checkpoint; another one would be kept under another key."""
PROBES = (
    ("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare."),
    ("far?", "No."),
    ("of the", "sea " * 4096),
)
"""Pairs of different lengths, the last one cut to the maximum, on which what is made of a model is compared with it."""


class Checkpoint:
    """A sequence classifier that is not loaded yet.

    Args:
        folder: its files.
        config: its configuration.
        tokens: its tokenizer.
        fill: what rows are padded with.
    """

    def __init__(self, folder: Path, config: Any, tokens: PairTokens, fill: Mapping[str, int]) -> None:
        self._folder = folder
        self._config = config
        self._rows = next(iter(tokens.rows([PROBES])))
        self._fill = fill

    def classifier(self, options: Options) -> tuple[Classifier, dict[str, str]]:
        """What runs it, and how that changes its scores, for the fingerprint."""
        if backend_for(options) == "onnx":
            try:
                return self._onnx(options)
            except NoGraph as error:
                if options.backend == "onnx" or options.precision == "int8":
                    raise TourError(
                        f"{self._folder}: {error}; use the back end torch and the precision fp32."
                    ) from error
                logger.warning("%s: %s; torch runs it", self._folder, error)
        return self._torch(options), {}

    def _torch(self, options: Options) -> Classifier:
        from tour_pyserini.rerankers.torch_classifier import TorchClassifier

        return TorchClassifier(self._model(options), options, self._rows[:2], self._fill)

    def _onnx(self, options: Options) -> tuple[Classifier, dict[str, str]]:
        if options.device != "cpu":
            raise TourError(f"a checkpoint runs on {options.device} by torch, in fp32; use the back end torch, or cpu.")
        files = files_of(self._folder)
        settings = {"backend": "onnx"}
        graph = kept_graph(_key(files, graph=GRAPH), self._export)
        if options.precision == "int8":
            settings["precision"] = recipe()
            graph = kept_graph(_key(files, graph=GRAPH, precision=recipe()), partial(quantise, graph))
        return OnnxClassifier(graph, options), settings

    def _export(self, path: Path) -> None:
        from tour_pyserini.rerankers.onnx_export import export

        export(self._model(Options()), self._rows, self._fill, path)

    def _model(self, options: Options) -> Any:
        return read_model(self._folder, "AutoModelForSequenceClassification", self._config, device=options.device)


def backend_for(options: Options) -> str:
    """The back end that was asked for, or the one that is faster here.

    On x86 processors with AVX2 or AVX-512, ONNX Runtime was measured to be. Elsewhere nothing was measured and torch
    needs no export; a GPU is torch's.
    """
    if options.backend != "auto":
        return options.backend
    if options.precision == "int8":
        return "onnx"
    here = options.device == "cpu" and "avx2" in (cpu_flags() or ())
    return "onnx" if here and find_spec("onnx") and find_spec("onnxruntime") else "torch"


def _key(files: list[Path], **settings: str) -> str:
    return fingerprint("graph", files, **settings).removeprefix("graph:")
