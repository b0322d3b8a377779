"""Cross-encoders with a classification head: checkpoints and ONNX folders, run by ONNX Runtime or torch."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.language_models import FAMILIES, PAIR, PromptTokens, choose_prompt
from tour_pyserini.rerankers.local_reranker import (
    POLICY,
    PROBES,
    Checkpoint,
    FilePairTokens,
    Kind,
    LocalReranker,
    Options,
    PairTokens,
)
from tour_pyserini.rerankers.reranker import Reranker
from tour_pyserini.support.devices import cores, cpu_flags, does_not_fit
from tour_pyserini.support.model_files import Row, fingerprint, read_json, usable_length
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

log = logging.getLogger(__name__)

GRAPH = "one unpadded pair, first token, opset 17, longest probe traced"
"""Describes the exported graph. Part of its key in the cache folder: change it when the export changes."""
PROVED = 512
"""Tokens of the longest pair on which a graph is compared with its model, if the model takes so many."""
MAX_BYTES = 1_900_000_000
"""Largest size of the weights: a file with an ONNX graph cannot exceed 2 GB."""
TOLERANCE = 1e-3
"""Allowed difference between logits of the graph and of the model; rounding causes about 1e-5."""


class OnnxRunner:
    """A classifier as an ONNX graph, on the CPU.

    The graph gets one pair per call, without padding, and there is one worker with one thread per core. The logit of a
    pair then depends only on the pair: not on other pairs, the batch size or the number of threads. A dynamically
    quantised graph chooses its scale from the whole batch, so that other pairs would change a logit by up to 0.5.

    Args:
        graph: the file.
        options: the number of threads.
    """

    # One pair per call was also the fastest (MiniLM-L-12, pairs of 40-250 tokens, AVX-512). fp32, CPU seconds of one
    # thread for 30 pairs: 1.91 with one pair per call, 1.93 in batches of 256 tokens, 2.25 in batches of 1,024. Wall
    # seconds of two cores for 40 pairs, two workers against one session of two threads: fp32 5.3 and 9.5, int8 2.5
    # and 4.1; other processes used these cores too, which slows down threads that wait for each other.
    backend = "onnx"
    one_pair_per_call = True

    def __init__(self, graph: Path, options: Options) -> None:
        if options.device != "cpu":  # in a search, the device is the encoder's too
            log.warning("the graph %s runs on cpu, not on %s", graph, options.device)
        self.workers = options.threads or cores()
        self._graph, self._session = graph, open_graph(graph)
        self._types = {
            wanted.name: np.int32 if wanted.type == "tensor(int32)" else np.int64
            for wanted in self._session.get_inputs()
        }

    def __call__(self, rows: Sequence[Row]) -> np.ndarray:
        """Compute logits [1] or [1, labels] of a single pair."""
        (row,) = rows
        try:
            return self._session.run(None, {name: np.array([row[name]], dtype) for name, dtype in self._types.items()})[
                0
            ]
        except Exception as error:
            reason = f"it cannot score {len(row['input_ids'])} tokens: {first_line(error):.200}"
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

    The graph takes one pair at a time, so it needs no padding and no attention mask.

    Args:
        read: gives the model, in single precision on the CPU; it is changed.
        rows: tokenised pairs of different lengths; the last and longest one is traced, because models with a sliding
            window of attention leave the window out of the graph of a shorter pair.
        fill: the value that each input is padded with.
        path: the file to write.

    Raises:
        GraphError: when the model cannot be exported, or the graph gives other logits than the model.
    """
    import_optional("onnx", extra="onnx")
    from tour_pyserini.rerankers.torch_runner import PositionalModel, TorchRunner, shorten_last_layer

    model = read()
    if sum(weight.nbytes for weight in model.parameters()) > MAX_BYTES:
        raise GraphError("the model is too large for one ONNX file")
    try:
        runner = TorchRunner(model, Options(), fill=fill)
        expected = [runner([row]) for row in rows]
        shorten_last_layer(model, runner.tensors(rows[:2]))
        model.set_attn_implementation("eager")  # its graph is about 3 % faster in ONNX Runtime than that of "sdpa"
        inputs = {name: tensor.numpy() for name, tensor in runner.tensors(rows[-1:]).items()}
        inputs.pop("attention_mask", None)
        write_graph(PositionalModel(model, list(inputs)), inputs, path, output="logits")
        graph = OnnxRunner(path, Options())
        differences = [np.abs(graph([row]) - logits).max() for row, logits in zip(rows, expected, strict=True)]
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
    tokenizer, prefix = checkpoint.tokenizer, _default_prefix(folder)
    prompt = None if options.prompt == PAIR else choose_prompt(folder, options.prompt, name=name)
    if options.prompt is None and getattr(tokenizer, "chat_template", None):
        if _shows_pairs(tokenizer):
            return load_by_library(folder, options, name=name)
        if prompt is None:
            said = f"{PAIR} for the two texts alone, {', '.join(FAMILIES)}, or a file"
            raise TourError(f"the chat template of {name} shows no query and passage; give --reranker-prompt: {said}.")

    def make_tokens(max_length: int) -> PromptTokens | PairTokens:
        if prompt is not None:
            return PromptTokens(tokenizer, prompt, max_length=max_length, name=name)
        return PairTokens(tokenizer, max_length=max_length, prefix=prefix)

    tokens = make_tokens(checkpoint.length)
    longest = usable_length(folder, checkpoint.config, tokenizer, max(checkpoint.length, PROVED), warn=False)
    runner, settings = _make_runner(checkpoint, make_tokens(longest).rows(PROBES))
    template: Any = prompt or ([POLICY, prefix] if prefix else POLICY)
    identity = checkpoint.identify("sequence-classification", checkpoint.files, template=template, **settings)
    return LocalReranker(name, identity, tokens, runner, options)


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
    settings = read_json(folder / "config_sentence_transformers.json")
    name = settings.get("default_prompt_name")
    return "" if name is None else settings["prompts"][name]


def declared_length(folder: Path) -> int:
    """Most tokens of a pair that files of sentence-transformers name; any length if they name none."""
    return read_json(folder / "sentence_bert_config.json").get("max_seq_length") or 10**9


def _make_runner(checkpoint: Checkpoint, probes: Sequence[Row]) -> tuple[Any, dict[str, str]]:
    """What runs a checkpoint, and the settings of it that change scores, for the fingerprint."""
    options, tokenizer, files = checkpoint.options, checkpoint.tokenizer, checkpoint.files
    # Without a padding token, pairs of different lengths cannot share a batch.
    fill = {} if tokenizer.pad_token_id is None else {"input_ids": tokenizer.pad_token_id}
    fill["token_type_ids"] = tokenizer.pad_token_type_id
    read = partial(checkpoint.read, "AutoModelForSequenceClassification")

    if checkpoint.dtype == "float32" and choose_backend(options) == "onnx":
        # Graphs are proved for `PROVED` tokens, or for more on request.
        longest = max(len(row["input_ids"]) for row in probes)
        graph_settings = {"graph": GRAPH} if longest <= PROVED else {"graph": GRAPH, "proved": str(longest)}
        settings = {"backend": "onnx"}
        try:
            graph = cached_graph(_key(files, **graph_settings), partial(export_checked, read, probes, fill))
            if options.precision == "int8":
                settings["precision"] = quantisation_recipe()
                graph = _quantised(graph, files, **graph_settings)
            return OnnxRunner(graph, options), settings
        except GraphError as error:
            if options.backend == "onnx" or options.precision == "int8":
                raise TourError(f"{checkpoint.folder}: {error}; use the back end torch and fp32.") from error
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
    """Load the graph and the tokenizer in a folder; the graph is run as it is, unless int8 is asked for."""
    graph, path = _find_graph(folder), folder / "tokenizer.json"
    assert graph is not None  # as it was accepted
    # A graph that is larger than 2 GB has weight files, with the names that exporters give them.
    weights = {*graph.parent.glob(f"{graph.name}?*"), *graph.parent.glob("*.data")}
    files = [graph, *sorted(file for file in weights if file.is_file())]
    settings: dict[str, Any] = {"max_length": options.max_length, "template": POLICY}
    quantised = is_dynamically_quantised(graph)
    if quantised and options.precision == "fp32":
        raise TourError(f"the graph of {name} has 8-bit weights; choose another model, or the precision int8.")
    if options.precision == "int8" and not quantised:
        settings["precision"] = quantisation_recipe()
        graph = _quantised(graph, files)
    try:
        tokenizer = import_optional("tokenizers").Tokenizer.from_file(str(path))
    except Exception as error:
        raise TourError(f"{path} cannot be read as a tokenizer ({first_line(error)}); download it again.") from error
    tokens = FilePairTokens(tokenizer, max_length=options.max_length)
    identity = fingerprint("onnx", [*files, path], **settings)
    return LocalReranker(name, identity, tokens, OnnxRunner(graph, options), options)


def _quantised(graph: Path, files: list[Path], /, **settings: str) -> Path:
    return cached_graph(_key(files, **settings, precision=quantisation_recipe()), partial(quantise, graph))


def _key(files: list[Path], **settings: str) -> str:
    """The key of a graph in the cache folder."""
    return fingerprint("graph", files, **settings).removeprefix("graph:")


ONNX_FOLDER = Kind(_find_graph, _load_onnx_folder, BACKENDS=("onnx",), DTYPES=("auto", "float32"))
