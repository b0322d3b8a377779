"""Cross-encoders with a classification head: checkpoints and ONNX folders, run by ONNX Runtime or torch."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.language_models import FAMILIES, PAIR, PromptTokens, choose_prompt
from tour_pyserini.rerankers.local_reranker import (
    INPUTS,
    POLICY,
    PROBES,
    Checkpoint,
    FastPairTokens,
    Kind,
    LocalReranker,
    Options,
    Runner,
    Tokens,
    output_count_error,
    pair_tokens,
)
from tour_pyserini.rerankers.reranker import Reranker
from tour_pyserini.support.devices import cores, cpu_flags, does_not_fit
from tour_pyserini.support.model_files import Row, fingerprint, padded, read_json
from tour_pyserini.support.onnx_graphs import (
    GraphError,
    cached_graph,
    has_gpu_support,
    is_dynamically_quantised,
    open_graph,
    quantisation_recipe,
    quantise,
)
from tour_pyserini.support.packages import import_optional

log = logging.getLogger(__name__)

GRAPH = "one unpadded pair, first token, opset 17, longest probe traced"
"""Describes the exported graph. Part of its key in the cache folder: change it when the export changes."""
PROVED = 512
"""Tokens of the longest pair on which a graph is compared with its model, if the model takes so many."""
TOLERANCE = 1e-3
"""Allowed difference between logits of the graph and of the model; rounding causes about 1e-5."""

_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class OnnxRunner:
    """A classifier as an ONNX graph.

    On a CPU, the graph gets one pair per call, without padding, and there is one worker with one thread per core. The
    logit of a pair then depends only on the pair: not on other pairs, the batch size or the number of threads. A
    dynamically quantised graph chooses its scale from the whole batch, so that other pairs would change a logit by up
    to 0.5. On a GPU, graphs that are not dynamically quantised get batches.

    Args:
        graph: the file.
        options: the device and the number of threads.
        fill: the value that each input is padded with.
    """

    # One pair per call was also the fastest (MiniLM-L-12, pairs of 40-250 tokens, AVX-512). fp32, CPU seconds of one
    # thread for 30 pairs: 1.91 with one pair per call, 1.93 in batches of 256 tokens, 2.25 in batches of 1,024. Wall
    # seconds of two cores for 40 pairs, two workers against one session of two threads: fp32 5.3 and 9.5, int8 2.5
    # and 4.1; other processes used these cores too, which slows down threads that wait for each other.
    backend = "onnx"

    def __init__(self, graph: Path, options: Options, fill: Mapping[str, int]) -> None:
        self.one_pair_per_call = options.device == "cpu" or is_dynamically_quantised(graph)
        self.workers = (options.threads or cores()) if self.one_pair_per_call else 1
        self._graph = graph
        self._fill = fill
        self._session = open_graph(graph, device=options.device)
        self._types = {graph_input.name: _TYPES.get(graph_input.type) for graph_input in self._session.get_inputs()}
        unknown = [name for name, dtype in self._types.items() if name not in INPUTS or dtype is None]
        if unknown or "input_ids" not in self._types:
            raise TourError(
                f"the inputs of {graph} are {', '.join(self._types) or 'none'}, but a re-ranker takes integers as "
                f"{', '.join(INPUTS)}; export the model as a text classifier."
            )

    def __call__(self, rows: Sequence[Row]) -> np.ndarray:
        """Compute logits [n] or [n, labels]."""
        batch = padded(rows, self._fill)
        feed = {name: batch[name].astype(dtype, copy=False) for name, dtype in self._types.items()}
        try:
            return self._session.run(None, feed)[0]
        except Exception as error:
            length = batch["input_ids"].shape[1]
            reason = f"it cannot score {length} tokens: {first_line(error):.200}"
            raise does_not_fit(self._graph, reason) from error


def choose_backend(options: Options) -> str:
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


def export_checked(read: Callable[[], Any], rows: Sequence[Row], fill: Mapping[str, int], path: Path) -> None:
    """Write a classifier as an ONNX graph to `path`, and check that its logits equal those of the model.

    Args:
        read: gives the model, which is changed.
        rows: tokenised pairs of different lengths, the longest one last.
        fill: the value that each input is padded with.
        path: the file to write.

    Raises:
        GraphError: when the model cannot be exported, or the graph gives other logits than the model.
    """
    from tour_pyserini.rerankers.torch_runner import export_graph

    expected = export_graph(read(), rows, fill, path)
    try:
        runner = OnnxRunner(path, Options(), fill)
        differences = [np.abs(runner([row]) - logits).max() for row, logits in zip(rows, expected, strict=True)]
    except Exception as error:
        raise GraphError(f"the model cannot be exported to ONNX ({first_line(error)[:200]})") from error
    if not max(differences) <= TOLERANCE:  # also true for NaN
        raise GraphError(
            f"the model's ONNX graph gives other logits than the model (difference {max(differences):.2g})"
        )


def load_classifier(folder: Path, options: Options, *, name: str, load_by_library: Callable[..., Reranker]) -> Reranker:
    """Load the most common kind: a checkpoint with a classification head.

    A model whose chat template shows pairs is loaded by `load_by_library(folder, options, name=...)`.
    """
    checkpoint = Checkpoint(folder, options, longest=declared_length(folder))
    config = checkpoint.config
    classifiers = import_optional("transformers").MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    head = (config.architectures or [config.model_type])[0]
    if type(config) not in classifiers and not options.trust_remote_code:  # such as one that also reads images
        raise TourError(
            f"{name} is a {head}, which transformers does not run as a classifier of pairs of texts; choose "
            "another re-ranker, or one with modules.json of sentence-transformers."
        )
    if config.num_labels not in (1, 2):
        raise output_count_error(name, config.num_labels)
    tokenizer = checkpoint.tokenizer
    prompt = None if options.prompt == PAIR else choose_prompt(folder, options.prompt, name=name)
    if options.prompt is None and getattr(tokenizer, "chat_template", None):
        if _shows_pairs(tokenizer):
            return load_by_library(folder, options, name=name)
        if prompt is None:
            raise TourError(
                f"{name} is a classifier of chats, whose chat template has no place for a query and a passage; say "
                f"what it reads with --reranker-prompt (in Python: prompt): {PAIR} for the two texts alone, "
                f"{', '.join(FAMILIES)}, or a file."
            )
    prefix, length = _default_prefix(folder), checkpoint.length

    def make_tokens(max_length: int) -> Tokens:
        if prompt is not None:
            return PromptTokens(tokenizer, prompt, max_length=max_length, name=name)
        return pair_tokens(tokenizer, max_length=max_length, prefix=prefix)

    probes = make_tokens(checkpoint.usable_length(max(length, PROVED), warn=False)).rows(PROBES)
    runner, settings = _make_runner(checkpoint, probes)
    template: Any = prompt or ([POLICY, prefix] if prefix else POLICY)
    return LocalReranker(
        name,
        checkpoint.identify("sequence-classification", template=template, **settings),
        make_tokens(length),
        runner,
        options,
    )


def _shows_pairs(tokenizer: Any) -> bool:
    """Whether the tokenizer's chat template shows a query and a passage, as sentence-transformers fills it."""
    pairs = (("one", "two"), ("three", "two"), ("one", "four"))

    def fill_template(query: Any, passage: Any) -> str:
        messages = [{"role": "query", "content": query}, {"role": "document", "content": passage}]
        return str(tokenizer.apply_chat_template(messages, tokenize=False))

    for wrap in (str, lambda text: [{"type": "text", "text": text}]):
        try:
            texts = {fill_template(wrap(query), wrap(passage)) for query, passage in pairs}
        except Exception:  # the template refuses such messages in its own way
            continue
        if len(texts) == len(pairs):
            return True
    return False


def _default_prefix(folder: Path) -> str:
    """The text before each query that files of sentence-transformers name; empty if they name none."""
    path = folder / "config_sentence_transformers.json"
    settings = read_json(path)
    prompts, name = settings.get("prompts") or {}, settings.get("default_prompt_name")
    if name is not None and name not in prompts:
        raise TourError(f"{path} has no prompt named {name!r}, its default prompt; correct it.")
    return prompts[name] if name is not None else ""


def declared_length(folder: Path) -> int:
    """Most tokens of a pair that files of sentence-transformers name; any length if they name none."""
    return read_json(folder / "sentence_bert_config.json").get("max_seq_length") or 10**9


def _make_runner(checkpoint: Checkpoint, probes: Sequence[Row]) -> tuple[Runner, dict[str, str]]:
    """What runs a checkpoint, and the settings of it that change scores, for the fingerprint."""
    options, tokenizer, files = checkpoint.options, checkpoint.tokenizer, checkpoint.files
    # Without a padding token, pairs of different lengths cannot share a batch.
    fill = {} if tokenizer.pad_token_id is None else {"input_ids": tokenizer.pad_token_id}
    fill["token_type_ids"] = tokenizer.pad_token_type_id
    read = partial(checkpoint.read, "AutoModelForSequenceClassification")

    if checkpoint.dtype == "float32" and choose_backend(options) == "onnx":
        if options.device != "cpu":
            raise TourError(
                f"the back end onnx runs checkpoints on cpu only, not on {options.device}; use torch or cpu."
            )
        # Graphs are proved for `PROVED` tokens, or for more on request.
        longest = max(len(row["input_ids"]) for row in probes)
        graph_settings = {"graph": GRAPH} if longest <= PROVED else {"graph": GRAPH, "proved": str(longest)}
        settings = {"backend": "onnx"}
        try:
            graph = cached_graph(_key(files, **graph_settings), partial(export_checked, read, probes, fill))
            if options.precision == "int8":
                settings["precision"] = quantisation_recipe()
                key = _key(files, **graph_settings, precision=settings["precision"])
                graph = cached_graph(key, partial(quantise, graph))
            return OnnxRunner(graph, options, fill), settings
        except GraphError as error:
            if options.backend == "onnx" or options.precision == "int8":
                reason = f"{checkpoint.folder}: {error}"
                raise TourError(f"{reason}; use the back end torch and the precision fp32.") from error
            log.warning("%s: %s; using torch instead", checkpoint.folder, error)

    from tour_pyserini.rerankers.torch_runner import TorchRunner, shorten_last_layer

    runner = TorchRunner(read(), options, fill=fill, pad_left=tokenizer.padding_side == "left")
    shorten_last_layer(runner.model, runner.tensors(probes[:2]))
    runner.test_batches(probes[:2])
    return runner, {}


def _find_graph(folder: Path) -> Path | None:
    """The graph in an ONNX folder: `model.onnx` or `onnx/model.onnx` beside `tokenizer.json`; None in any other."""
    graphs = [path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path.is_file()]
    return graphs[0] if graphs and (folder / "tokenizer.json").is_file() else None


def _load_onnx_folder(folder: Path, options: Options, *, name: str) -> LocalReranker:
    """Load the graph and the tokenizer in a folder.

    The graph is run as it is, unless int8 is asked for and it is not quantised yet. It is run on the CPU if it has
    8-bit weights, or if ONNX Runtime has no support for GPUs here: the device of a search is that of its encoder too.
    """
    graph = _find_graph(folder)
    assert graph is not None  # as it was accepted
    quantised = is_dynamically_quantised(graph)
    if quantised and options.precision == "fp32":
        raise TourError(f"the graph of {name} has 8-bit weights; choose another model, or the precision int8.")
    if options.device.startswith("cuda") and (quantised or not has_gpu_support()):
        reason = "its graph has 8-bit weights" if quantised else "ONNX Runtime has no support for it here"
        log.warning("the re-ranker %s runs on cpu, not on %s: %s", name, options.device, reason)
        options = replace(options, device="cpu")
    # A graph that is larger than 2 GB has weight files, with the names that exporters give them.
    weights = {*graph.parent.glob(f"{graph.name}?*"), *graph.parent.glob("*.data")}
    files = [graph, *sorted(path for path in weights if path.is_file())]
    settings: dict[str, Any] = {}
    if options.precision == "int8" and not quantised:
        settings["precision"] = quantisation_recipe()
        try:
            graph = cached_graph(_key(files, **settings), partial(quantise, graph))
        except GraphError as error:
            raise TourError(f"{error}; use the precision fp32 to run the graph as it is.") from error
    path, length = folder / "tokenizer.json", options.max_length
    try:
        tokenizer = import_optional("tokenizers").Tokenizer.from_file(str(path))
    except Exception as error:
        raise TourError(f"{path} cannot be read as a tokenizer ({first_line(error)}); download it again.") from error
    padding = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    fill = {"input_ids": next((token_id for token_id in padding if token_id is not None), 0)}
    return LocalReranker(
        name,
        fingerprint("onnx", [*files, path], max_length=length, template=POLICY, **settings),
        FastPairTokens(tokenizer, max_length=length),
        OnnxRunner(graph, options, fill),
        options,
    )


def _key(files: list[Path], **settings: str) -> str:
    """The key of a graph in the cache folder."""
    return fingerprint("graph", files, **settings).removeprefix("graph:")


ONNX_FOLDER = Kind(_find_graph, _load_onnx_folder, BACKENDS=("onnx",), DTYPES=("auto", "float32"))
