"""Load a re-ranker from a folder with an ONNX graph and a tokenizer."""

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.classifier import ClassifierReranker
from tour_pyserini.rerankers.description import ENGINES, Description
from tour_pyserini.rerankers.onnx_classifier import OnnxClassifier
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import POLICY, FastPairTokens
from tour_pyserini.support.model_files import fingerprint
from tour_pyserini.support.onnx_graphs import GraphError, cached_graph, has_gpu_support
from tour_pyserini.support.optional import import_optional
from tour_pyserini.support.quantise import is_dynamically_quantised, quantisation_recipe, quantise

log = logging.getLogger(__name__)

BACKENDS: tuple[str, ...] = ("onnx",)
DTYPES: tuple[str, ...] = ("auto", "float32")
FILES = "model.onnx with tokenizer.json"


def accepts(folder: Path) -> bool:
    """Whether the folder holds an ONNX graph and a tokenizer."""
    return _graph(folder) is not None and (folder / "tokenizer.json").is_file()


def load(folder: Path, options: Options, *, name: str) -> ClassifierReranker:
    """Load the re-ranker in a folder with `model.onnx` or `onnx/model.onnx`, and `tokenizer.json`.

    The graph is run as it is, unless int8 is asked for and it is not quantised yet. It is run on the CPU if it has
    8-bit weights, or if ONNX Runtime has no support for GPUs here: the device of a search is that of its encoder too.
    """
    graph = _graph(folder)
    if graph is None:
        raise TourError(f"{folder} holds neither model.onnx nor onnx/model.onnx; export the model to ONNX first.")
    graph_name = graph.relative_to(folder).as_posix()
    quantised = is_dynamically_quantised(graph)
    if quantised and options.precision == "fp32":
        raise TourError(f"the graph of {name} has 8-bit weights; choose another model, or the precision int8.")
    if options.device.startswith("cuda") and (quantised or not has_gpu_support()):
        reason = "its graph has 8-bit weights" if quantised else "ONNX Runtime has no support for it here"
        log.warning("the re-ranker %s runs on cpu, not on %s: %s", name, options.device, reason)
        options = replace(options, device="cpu")
    settings: dict[str, Any] = {}
    files = [graph, *_external_data(graph), folder / "tokenizer.json"]
    if options.precision == "int8" and not quantised:
        settings["precision"] = quantisation_recipe()
        key = fingerprint("graph", files[:-1], **settings)
        try:
            graph = cached_graph(key.removeprefix("graph:"), partial(quantise, graph))
        except GraphError as error:
            raise TourError(f"{error}; use the precision fp32 to run the graph as it is.") from error
    classifier = OnnxClassifier(graph, options)
    tokenizer = _tokenizer(folder / "tokenizer.json")
    return ClassifierReranker(
        name,
        fingerprint("onnx", files, max_length=options.max_length, template=POLICY, **settings),
        Description(
            f"ONNX graph {graph_name}",
            "one logit, or second logit minus first logit",
            None,
            ENGINES["onnx"],
            "int8" if quantised or settings else "as stored",
            "as stored",
            options.max_length,
        ),
        FastPairTokens(tokenizer, max_length=options.max_length),
        classifier,
        options,
        fill=_padding(tokenizer),
    )


def _graph(folder: Path) -> Path | None:
    return next((path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path.is_file()), None)


def _external_data(graph: Path) -> list[Path]:
    """The weight files of a graph that is larger than 2 GB, found by the names that exporters give them."""
    candidates = {*graph.parent.glob(f"{graph.name}?*"), *graph.parent.glob("*.data")}
    return sorted(path for path in candidates if path.is_file())


def _tokenizer(path: Path) -> Any:
    try:
        return import_optional("tokenizers").Tokenizer.from_file(str(path))
    except TourError:
        raise
    except Exception as error:
        raise TourError(f"{path} cannot be read as a tokenizer ({first_line(error)}); download it again.") from error


def _padding(tokenizer: Any) -> dict[str, int]:
    ids = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return {"input_ids": next((token_id for token_id in ids if token_id is not None), 0)}
