"""Cross-encoders: classifiers of pairs, ONNX folders, and what sentence-transformers runs.

A checkpoint, or a `CrossEncoder` object, that is a plain classifier of pairs runs on ONNX Runtime or torch; everything
else (modules of its own, chat templates) is run by the library.
"""

import contextlib
import copy
import hashlib
import json
import logging
import sys
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.language_models import FAMILIES, PAIR, PromptTokens, choose_prompt, prompt_too_long
from tour_pyserini.rerankers.local_reranker import (
    INPUTS,
    POLICY,
    PROBES,
    SHORTEST_INPUT,
    Checkpoint,
    FilePairTokens,
    Kind,
    LocalReranker,
    Options,
    PairTokens,
    relevance_logits,
)
from tour_pyserini.rerankers.onnx_runner import GRAPH, OnnxRunner, exported_graph, quantised_graph, runs_on_onnx
from tour_pyserini.rerankers.reranker import Pair, Part, PartsReranker, Reranker
from tour_pyserini.support.devices import torch_threads
from tour_pyserini.support.files import content_hash
from tour_pyserini.support.model_files import (
    CallLock,
    Row,
    check_code,
    check_weights,
    checkpoint_files,
    encodable,
    fingerprint,
    is_checkpoint,
    module_files,
    quiet_reading,
    read_json,
    read_modules,
    usable_length,
)
from tour_pyserini.support.onnx_graphs import GraphError, is_dynamically_quantised, quantisation_recipe
from tour_pyserini.support.packages import import_optional

log = logging.getLogger(__name__)

PROVED = 512
"""Tokens of the longest pair on which a graph is compared with its model, if the model takes so many."""
BATCH_TOLERANCE = 1e-4
"""Allowed difference of logits of a pair alone and in a batch: rounding errors in single precision are far smaller."""

_SETTINGS = "config_sentence_transformers.json"
_TEXT_CLASSIFIER = {
    "transformer_task": "sequence-classification",
    "module_output_name": "scores",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "do_lower_case": False,
}
"""Settings of a model that needs nothing of the library: a classifier of pairs of texts."""


def _load_classifier(folder: Path, options: Options, *, name: str) -> Reranker:
    """Load the most common kind: a checkpoint with a classification head.

    A model whose chat template shows pairs is loaded by sentence-transformers.
    """
    checkpoint = Checkpoint(folder, options, longest=_declared_length(folder))
    tokenizer, prefix = checkpoint.tokenizer, _default_prefix(folder)
    prompt = choose_prompt(folder, options.prompt, name=name)
    if options.prompt is None and getattr(tokenizer, "chat_template", None):
        if _shows_pairs(tokenizer):
            return _load_by_library(folder, options, name=name)
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
    settings = read_json(folder / _SETTINGS)
    name = settings.get("default_prompt_name")
    return "" if name is None else settings["prompts"][name]


def _declared_length(folder: Path) -> int:
    """Most tokens of a pair that files of sentence-transformers name; any length if they name none."""
    return read_json(folder / "sentence_bert_config.json").get("max_seq_length") or 10**9


def _make_runner(checkpoint: Checkpoint, probes: Sequence[Row]) -> tuple[Any, dict[str, str]]:
    """What runs a checkpoint, and the settings of it that change scores, for the fingerprint."""
    options, tokenizer, files = checkpoint.options, checkpoint.tokenizer, checkpoint.files
    # Without a padding token, pairs of different lengths cannot share a batch.
    fill = {} if tokenizer.pad_token_id is None else {"input_ids": tokenizer.pad_token_id}
    fill["token_type_ids"] = tokenizer.pad_token_type_id
    read = partial(checkpoint.read, "AutoModelForSequenceClassification")

    if checkpoint.dtype == "float32" and runs_on_onnx(options):
        # Graphs are proved for `PROVED` tokens, or for more on request.
        longest = max(len(row["input_ids"]) for row in probes)
        proved = {} if longest <= PROVED else {"proved": str(longest)}
        settings = {"backend": "onnx"}
        try:
            graph = exported_graph(partial(read, device="cpu"), probes, fill, files, **proved)
            if options.precision == "int8":
                settings["precision"] = quantisation_recipe()
                graph = quantised_graph(graph, files, graph=GRAPH, **proved)
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
        graph = quantised_graph(graph, files)
    try:
        tokenizer = import_optional("tokenizers").Tokenizer.from_file(str(path))
    except Exception as error:
        raise TourError(f"{path} cannot be read as a tokenizer ({first_line(error)}); download it again.") from error
    tokens = FilePairTokens(tokenizer, max_length=options.max_length)
    identity = fingerprint("onnx", [*files, path], **settings)
    return LocalReranker(name, identity, tokens, OnnxRunner(graph, options), options)


def wrap_cross_encoder(model: Any, options: Options) -> Reranker | None:
    """Make a re-ranker that returns raw logits from a CrossEncoder; None of any other object.

    Its maximum length, device, prompts and truncation are not changed. The fingerprint is computed from the weights
    when the object is wrapped: wrap it again after training.
    """
    library = sys.modules.get("sentence_transformers")  # not imported: without it, there is no such object
    if library is None or not isinstance(model, library.CrossEncoder):
        return None
    identity = _fingerprint(model)
    name = str(getattr(getattr(model, "config", None), "name_or_path", "") or "CrossEncoder")
    if identity is not None and _is_plain_classifier(model) and runs_on_onnx(options):
        tokens, fill = _Tokens(model), {"input_ids": model.tokenizer.pad_token_id or 0}
        try:
            graph = exported_graph(lambda: _copied_network(model), tokens.rows(PROBES), fill, [], model=identity)
            own = fingerprint("cross-encoder", [], model=identity, backend="onnx")
            return LocalReranker(name, own, tokens, OnnxRunner(graph, options), options)
        except GraphError as error:
            log.info("the re-ranker %s is run by sentence-transformers: %s", name, error)
    return _LibraryCrossEncoder(model, name=name, fingerprint=identity, options=options)


def _copied_network(model: Any) -> Any:
    return copy.deepcopy(model[0].auto_model).eval()


def _is_plain_classifier(model: Any) -> bool:
    """Whether a CrossEncoder needs nothing of the library but its tokens."""
    network = getattr(model[0], "auto_model", None)
    return (
        len(model) == 1
        and type(model[0]).__module__.startswith("sentence_transformers.")
        and type(network).__name__.endswith("ForSequenceClassification")
        and not getattr(model.tokenizer, "chat_template", None)
        and (str(model.device), str(getattr(network, "dtype", ""))) == ("cpu", "torch.float32")
    )


class _Tokens:
    """The tokens that a CrossEncoder makes of pairs, with its prompt and its truncation."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._prompt = _default_prompt(model)
        self._lock = CallLock()  # the library switches the truncation of its tokenizer during a call

    def rows(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        """Tokenise pairs, each cut to the maximum length of the model."""
        with self._lock:
            features = self._model.preprocess([list(pair) for pair in pairs], prompt=self._prompt)
        arrays = {name: features[name].numpy() for name in INPUTS if name in features}
        chosen = arrays["attention_mask"].astype(bool)
        return [{name: array[row][chosen[row]] for name, array in arrays.items()} for row in range(len(pairs))]


class _LibraryCrossEncoder(PartsReranker):
    """A CrossEncoder with its modules, prompts and chat template, and without its activation function.

    With two logits, the score is their difference.

    Args:
        model: the CrossEncoder.
        name: the name of the model, for messages.
        fingerprint: what identifies it, if that is known.
        options: `batch_size`, 32 by default, and `threads`, by default those of torch. A model gets one pair at a time
            if a pair has another score in a batch than alone, as in half precision.
    """

    engine = "sentence-transformers"

    def __init__(self, model: Any, *, name: str, fingerprint: str | None, options: Options) -> None:
        self.name, self.fingerprint = name, fingerprint
        self._model, self._threads = model, options.threads
        self._batch_size = 2
        self._batch_size = (options.batch_size or 32) if self._batches_rightly() else 1

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Compute raw logits batch by batch, those of the longest texts first."""
        import torch

        order = np.argsort([-len(query) - len(passage) for query, passage in pairs], kind="stable")
        for start in range(0, len(order), self._batch_size):
            positions = order[start : start + self._batch_size]
            batch = [[encodable(text) for text in pairs[position]] for position in positions]
            with torch_threads(self._threads):
                logits = self._model.predict(
                    batch,
                    batch_size=self._batch_size,
                    activation_fn=torch.nn.Identity(),
                    show_progress_bar=False,
                    convert_to_numpy=True,
                )
            yield positions, relevance_logits(logits, self.name)

    def _batches_rightly(self) -> bool:
        """Whether the logits of a padded batch are those of its pairs alone; some models refuse batches."""
        alone = [self.predict([pair])[0] for pair in PROBES[:2]]
        try:
            together = self.predict(PROBES[:2])
        except Exception:
            return False
        return np.allclose(together, alone, rtol=BATCH_TOLERANCE, atol=BATCH_TOLERANCE)


def _needs_library(folder: Path) -> bool:
    """Whether `modules.json` says more than "a classifier of pairs of texts", which needs no library."""
    modules, settings = read_modules(folder), read_json(folder / "sentence_bert_config.json")
    plain = (
        [module["path"] for module in modules] == [""]
        and modules[0]["type"].endswith(".Transformer")
        and settings.keys() <= {*_TEXT_CLASSIFIER, "max_seq_length"}
        and all(settings.get(name, value) == value for name, value in _TEXT_CLASSIFIER.items())
        and not read_json(folder / _SETTINGS).get("keep_in_fp32_modules")
    )
    return bool(modules) and not plain


def _load_by_library(folder: Path, options: Options, *, name: str) -> _LibraryCrossEncoder:
    """Load the re-ranker in a folder with `modules.json` or a chat template for pairs."""
    import torch
    from sentence_transformers import CrossEncoder

    options.check_backend(("torch",), name)
    trusted = options.trust_remote_code
    check_code(folder, trusted=trusted)
    modules = read_modules(folder)
    _refuse_bi_encoder(folder, modules, name)
    weights = folder / next((module["path"] for module in modules), "")
    checkpoint = Checkpoint(weights, options, longest=_declared_length(folder))
    files = [*checkpoint_files(folder, code=trusted), *module_files(folder)]
    contents = {path.relative_to(folder).as_posix(): content_hash(path) for path in files}
    identity = checkpoint.identify("cross-encoder", [], contents=contents)
    with quiet_reading(folder, "the model"):
        model = CrossEncoder(
            str(folder),
            device=options.device,
            max_length=checkpoint.length,
            trust_remote_code=trusted,
            local_files_only=True,
            model_kwargs={"dtype": getattr(torch, checkpoint.dtype), "weights_only": True},
        )
        check_weights(folder, model, identity)
    if checkpoint.dtype == "float32":
        model = model.float()
    reranker = _LibraryCrossEncoder(model, name=name, fingerprint=identity, options=options)
    empty = model.preprocess([["", ""]], prompt=_default_prompt(model))
    fixed = int(empty["input_ids"].shape[1])  # prompt, template and special tokens
    if fixed + SHORTEST_INPUT > checkpoint.length:
        raise prompt_too_long(name, fixed, checkpoint.length)
    return reranker


def _refuse_bi_encoder(folder: Path, modules: Sequence[dict[str, str]], name: str) -> None:
    scores = [read_json(folder / module["path"] / "config.json").get("module_output_name") for module in modules]
    pools = any(module["type"].endswith(".Pooling") for module in modules)
    declared = read_json(folder / _SETTINGS).get("model_type", "CrossEncoder")
    if declared != "CrossEncoder" or (pools and "scores" not in scores):
        raise TourError(f"{name} is not a re-ranker: its modules.json describes a bi-encoder; choose a cross-encoder.")


def _default_prompt(model: Any) -> str | None:
    """The prompt that the library uses by default."""
    name = getattr(model, "default_prompt_name", None)
    return (getattr(model, "prompts", None) or {}).get(name) if name is not None else None


def _fingerprint(model: Any) -> str | None:
    """Hash weights, tokenizer, modules and settings; None if they are not accessible (back ends other than torch)."""
    import torch

    # The first use of the tokenizer switches its padding and truncation on: both are part of what is hashed.
    with contextlib.suppress(Exception):  # a template without a place for a pair is refused when it is scored
        model.preprocess([list(pair) for pair in PROBES[:2]], prompt=_default_prompt(model))
    weights = model.state_dict()
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if not weights or backend is None:
        return None
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        content = tensor.detach().cpu().contiguous()
        digest.update(json.dumps([name, str(content.dtype), list(content.shape)]).encode())
        digest.update(content.flatten().view(torch.uint8).numpy().data)
    prompts = [getattr(model, "prompts", None), getattr(model, "default_prompt_name", None)]
    template = getattr(model.tokenizer, "chat_template", None)
    modules = [str(module) for module in model]
    settings = [backend.to_str(), model.tokenizer.model_max_length, str(model.config), prompts, template, modules]
    digest.update(json.dumps(settings, default=str).encode())
    return f"cross-encoder:{digest.hexdigest()}"


CROSS_ENCODER = Kind(_needs_library, _load_by_library)
CLASSIFIER = Kind(
    is_checkpoint,
    _load_classifier,
    BACKENDS=("onnx", "torch"),
    TAKES_PROMPT=True,
)
ONNX_FOLDER = Kind(_find_graph, _load_onnx_folder, BACKENDS=("onnx",), DTYPES=("auto", "float32"))
