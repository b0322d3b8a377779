"""Load a re-ranker from a folder of sentence-transformers that only the library itself runs as its files say."""

from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.cross_encoder import CrossEncoderReranker
from tour_pyserini.rerankers.options import SHORTEST_INPUT, Options
from tour_pyserini.support.checkpoints import (
    chosen_dtype,
    quiet_reading,
    read_config,
    read_model,
    read_tokenizer,
    usable_length,
)
from tour_pyserini.support.model_files import (
    check_code,
    checkpoint_files,
    fingerprint,
    module_files,
    read_json,
    read_modules,
)
from tour_pyserini.support.optional import import_optional, version_of
from tour_pyserini.support.remembered import content_hash, recall, remember

BACKENDS: tuple[str, ...] = ("torch",)

_SETTINGS = "config_sentence_transformers.json"
_COMPLETE = "complete weights"
_AUTO_CLASSES = {
    "sequence-classification": "AutoModelForSequenceClassification",
    "text-generation": "AutoModelForCausalLM",
}
"""Classes of transformers whose heads the library would create if the checkpoint lacks them."""
_TEXT_CLASSIFIER = {
    "transformer_task": "sequence-classification",
    "module_output_name": "scores",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "do_lower_case": False,
}
"""Settings of a model that needs nothing of the library: a classifier of pairs of texts."""


class Declared(NamedTuple):
    """What the files of sentence-transformers say about a classifier of pairs of texts.

    Attributes:
        prompt: text before each query.
        max_length: most tokens of a pair.
    """

    prompt: str
    max_length: int


def accepts(folder: Path) -> bool:
    """Whether `modules.json` says more than "a classifier of pairs of texts", which needs nothing of the library."""
    modules = read_modules(folder)
    if not modules:
        return False
    settings = read_json(folder / "sentence_bert_config.json")
    known = {*_TEXT_CLASSIFIER, "max_seq_length"}
    return (
        len(modules) > 1
        or not modules[0]["type"].endswith(".Transformer")
        or modules[0]["path"] != ""
        or any(name not in known for name in settings)
        or any(settings.get(name, value) != value for name, value in _TEXT_CLASSIFIER.items())
        or bool(_model_settings(folder).get("keep_in_fp32_modules"))
    )


def declared_settings(folder: Path) -> Declared:
    """The settings of a classifier of pairs of texts; no prompt and any length if the folder does not say."""
    settings = _model_settings(folder)
    prompts, name = settings.get("prompts") or {}, settings.get("default_prompt_name")
    if name is not None and name not in prompts:
        raise TourError(f"{folder / _SETTINGS} has no prompt named {name!r}, its default prompt; correct it.")
    length = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    return Declared(prompts[name] if name is not None else "", length or 10**9)


def load(folder: Path, options: Options, *, name: str) -> CrossEncoderReranker:
    """Load the re-ranker in a folder with `modules.json` or a chat template for pairs."""
    from sentence_transformers import CrossEncoder

    options.check_backends(BACKENDS, name)
    trusted = options.trust_remote_code
    check_code(folder, trusted=trusted)
    _refuse_bi_encoder(folder, name)
    weights = folder / next((module["path"] for module in read_modules(folder)), "")
    config = read_config(weights, trust_remote_code=trusted)
    tokenizer = read_tokenizer(weights, trust_remote_code=trusted)
    length = min(usable_length(folder, config, tokenizer, options.max_length), declared_settings(folder).max_length)
    dtype = chosen_dtype(weights, options.wanted_dtype, options.device)
    files = [*checkpoint_files(folder, code=trusted), *module_files(folder)]
    contents = {path.relative_to(folder).as_posix(): content_hash(path) for path in files}
    settings = {"contents": contents, "max_length": length, **({} if dtype == "float32" else {"dtype": dtype})}
    identity = fingerprint("cross-encoder", [], **settings)
    _check_weights(weights, config, options, identity)
    with quiet_reading(folder, "the model"):
        model = CrossEncoder(
            str(folder),
            device=options.device,
            max_length=length,
            trust_remote_code=trusted,
            local_files_only=True,
            model_kwargs={"dtype": getattr(import_optional("torch"), dtype), "weights_only": True},
        )
    reranker = CrossEncoderReranker(
        model.float() if dtype == "float32" else model,
        name=name,
        fingerprint=identity,
        batch_size=options.batch_size,
        threads=options.threads,
    )
    if reranker.fixed_tokens + SHORTEST_INPUT > length:
        raise TourError(
            f"the prompt of {name} takes {reranker.fixed_tokens} tokens, which leaves no room for a pair in {length}; "
            "give a greater maximum length (--reranker-max-length)."
        )
    return reranker


def _check_weights(folder: Path, config: Any, options: Options, identity: str) -> None:
    """Refuse a checkpoint that lacks weights, which the library would replace by random ones without an error.

    The weights are read for this, the first time; the result is remembered.
    """
    task = read_json(folder / "sentence_bert_config.json").get("transformer_task")
    heads = config.architectures or ()
    if task is None and any(head.endswith("ForCausalLM") for head in heads):
        task = "text-generation"
    auto_class = _AUTO_CLASSES.get(task or "sequence-classification")
    state = [version_of("transformers")]
    if auto_class is None or recall(_COMPLETE, identity, state):
        return
    read_model(folder, auto_class, config, trust_remote_code=options.trust_remote_code, dtype="bfloat16")
    remember(_COMPLETE, identity, state, "yes")


def _refuse_bi_encoder(folder: Path, name: str) -> None:
    modules = read_modules(folder)
    if _model_settings(folder).get("model_type", "CrossEncoder") != "CrossEncoder" or (
        any(module["type"].endswith(".Pooling") for module in modules)
        and not any(_gives_scores(folder / module["path"]) for module in modules)
    ):
        raise TourError(
            f"{name} is not a re-ranker: its modules.json describes a bi-encoder, which gives vectors and no scores; "
            "choose a cross-encoder."
        )


def _gives_scores(module: Path) -> bool:
    return read_json(module / "config.json").get("module_output_name") == "scores"


def _model_settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = read_json(folder / _SETTINGS)
    return settings
