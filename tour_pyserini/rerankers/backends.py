"""Choose and create the back end that runs a checkpoint: ONNX Runtime with an exported graph, or torch."""

import logging
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.classifier import Classifier
from tour_pyserini.rerankers.onnx_classifier import OnnxClassifier
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import PairTokens
from tour_pyserini.support.checkpoints import checkpoint_files, fingerprint, read_model
from tour_pyserini.support.hardware import cpu_flags
from tour_pyserini.support.onnx_graphs import GraphError, cached_graph
from tour_pyserini.support.quantise import quantisation_recipe, quantise

log = logging.getLogger(__name__)

GRAPH = "one unpadded pair, first token, opset 17"
"""Describes the exported graph. Part of its key in the cache folder: change it when the export changes."""
PROBES = (
    ("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare."),
    ("far?", "No."),
    ("of the", "sea " * 4096),
)
"""Pairs on which a graph or a shortened layer is compared with its model; the last one is cut to the maximum length."""


class Checkpoint:
    """A sequence classifier in a folder, whose weights are read when a back end needs them.

    Args:
        folder: the folder of the checkpoint.
        config: its configuration.
        tokens: its tokenizer of pairs.
        fill: the value that each input is padded with.
    """

    def __init__(self, folder: Path, config: Any, tokens: PairTokens, fill: Mapping[str, int]) -> None:
        self._folder = folder
        self._config = config
        self._rows = next(iter(tokens.rows([PROBES])))
        self._fill = fill

    def classifier(self, options: Options) -> tuple[Classifier, dict[str, str]]:
        """Create the back end, and return it with the settings that change scores, for the fingerprint."""
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

        return TorchClassifier(self._model(options), options, self._rows[:2], self._fill)

    def _onnx(self, options: Options) -> tuple[Classifier, dict[str, str]]:
        if options.device != "cpu":
            raise TourError(
                f"the back end onnx runs checkpoints on cpu only, not on {options.device}; use torch or cpu."
            )
        files = checkpoint_files(self._folder)
        settings = {"backend": "onnx"}
        graph = cached_graph(_key(files, graph=GRAPH), self._export)
        if options.precision == "int8":
            settings["precision"] = quantisation_recipe()
            key = _key(files, graph=GRAPH, precision=settings["precision"])
            graph = cached_graph(key, partial(quantise, graph))
        return OnnxClassifier(graph, options), settings

    def _export(self, path: Path) -> None:
        from tour_pyserini.rerankers.onnx_export import export

        export(self._model(Options()), self._rows, self._fill, path)

    def _model(self, options: Options) -> Any:
        return read_model(self._folder, "AutoModelForSequenceClassification", self._config, device=options.device)


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
