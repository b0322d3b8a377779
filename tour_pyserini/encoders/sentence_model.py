"""Loads an encoder as its own files say, by sentence-transformers.

A folder with `modules.json` declares its modules, pooling, norm, prompts, maximum length and truncation of vectors. A
folder of transformers alone declares none of these: it is a transformer with Pyserini's pooling, the first token.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tour_pyserini.encoders.model_folder import fingerprint
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.checkpoints import POSITIONS_AFTER_PADDING
from tour_pyserini.support.devices import on_device, pyserini_device
from tour_pyserini.support.memo import read_memo, write_memo
from tour_pyserini.support.model_files import read_json, read_modules
from tour_pyserini.support.optional import version_of

POOLINGS = {"cls": "cls", "mean": "mean", "max": "max", "last": "lasttoken", "weighted": "weightedmean"}
"""Names of the poolings that can be asked for, and sentence-transformers' names of them."""
BARE_LENGTH = 256
"""Tokens of a document that are read of a folder without `modules.json`; Pyserini's default."""
_COMPLETE = "complete encoder"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What is asked of a model besides what its files say; `load_query_encoder` describes the fields."""

    pooling: str | None = None
    l2_norm: bool | None = None
    truncate_dim: int | None = None
    tokenizer: str | None = None
    device: str = "cpu"
    dtype: str = "auto"
    trust_remote_code: bool = False

    def __post_init__(self) -> None:
        if self.pooling not in (None, *POOLINGS):
            raise TourError(f"the pooling is one of {', '.join(POOLINGS)}, not {self.pooling!r}.")
        if self.truncate_dim is not None and self.truncate_dim < 1:
            raise TourError(f"vectors cannot be cut to {self.truncate_dim} dimensions; give 1 or more.")


def is_modular(folder: Path) -> bool:
    """Whether a folder says how its vectors are made."""
    return (folder / "modules.json").is_file()


def load_sentence_model(folder: Path, options: ModelOptions) -> Any:
    """The `SentenceTransformer` of a folder, on its device.

    Raises:
        TourError: if the folder cannot be read, or does not say how its vectors are made.
    """
    from sentence_transformers import SentenceTransformer

    options = replace(options, device=pyserini_device(options.device))
    with _quiet(folder):
        code: dict[str, Any] = {"trust_remote_code": options.trust_remote_code}
        loading: dict[str, Any] = {
            "model_kwargs": {**code, "dtype": _dtype(options)},
            "config_kwargs": code,
            "processor_kwargs": code,
        }
        if is_modular(folder):
            model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, **code, **loading)
        else:
            model = SentenceTransformer(modules=_bare_modules(folder, options, loading), device="cpu")
        if options.tokenizer:
            from transformers import AutoTokenizer

            model.tokenizer = AutoTokenizer.from_pretrained(options.tokenizer, **code)
        if options.dtype != "auto" or options.device == "cpu":
            import torch

            model.to(torch.float32 if options.dtype == "auto" else getattr(torch, options.dtype))
        _check_weights(folder, model)
    if hasattr(model[0], "auto_model") and model.tokenizer.pad_token is None:
        raise TourError(
            f"the tokenizer of the encoder {folder} has no padding token, which sentence-transformers needs; "
            "add pad_token to its tokenizer_config.json."
        )
    _override(model, options)
    _limit_length(model)
    return on_device(model.eval().requires_grad_(False), options.device, name=folder)


def declared(model: Any) -> dict[str, Any]:
    """What a model does after its transformer: `pooling`, `l2_norm` and `truncate_dim`, for records and checks."""
    kinds = {type(module).__name__: module for module in model}
    pooling = getattr(kinds.get("Pooling"), "pooling_mode", None)
    names = {theirs: ours for ours, theirs in POOLINGS.items()}
    return {
        "pooling": names.get(pooling, pooling) if isinstance(pooling, str) else pooling and list(pooling),
        "l2_norm": "Normalize" in kinds,
        "truncate_dim": model.truncate_dim,
    }


def prompt_of(model: Any, role: str) -> str:
    """The prompt that `encode_query` or `encode_document` of the model puts before a text; "" if there is none."""
    names = ("query",) if role == "query" else ("document", "passage", "corpus")
    name = next((name for name in names if name in model.prompts), model.default_prompt_name)
    return (model.prompts.get(name) or "") if name is not None else ""


def unused_prompt(folder: Path, role: str) -> str | None:
    """The name of a prompt in a model's files that seems to be meant for a role, but that its library does not use.

    `encode_query` and `encode_document` of sentence-transformers use the prompts named `query` and `document`. If there
    is no such prompt, it is empty: neither the default prompt nor one named `passage` takes its place.
    """
    settings = read_json(folder / "config_sentence_transformers.json")
    prompts, default = settings.get("prompts") or {}, settings.get("default_prompt_name")
    if prompts.get(role):
        return None
    meant = ("passage", "corpus") if role == "document" else ()
    return next((name for name in (*meant, default) if name != "query" and prompts.get(name)), None)


def _bare_modules(folder: Path, options: ModelOptions, loading: dict[str, Any]) -> list[Any]:
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    if options.pooling is None and _is_causal(folder):
        raise TourError(
            f"the encoder {folder} is a causal language model and has no modules.json that says how its vectors are "
            "pooled; use the complete folder of the model, or say --pooling last if this is how it was trained."
        )
    transformer = Transformer(str(folder), **loading)
    return [transformer, Pooling(transformer.get_embedding_dimension(), POOLINGS[options.pooling or "cls"])]


def _is_causal(folder: Path) -> bool:
    """Whether each token of the model sees only the tokens before it, so that the first token's vector is empty."""
    from transformers.models.auto import modeling_auto

    kind = read_json(folder / "config.json").get("model_type")
    return (
        kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and kind not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    )


def _check_weights(folder: Path, model: Any) -> None:
    """Refuse a checkpoint that lacks weights, which the library replaces by random ones without an error.

    The weights are read again for this, the first time; the result is remembered.
    """
    import torch

    identity, state = fingerprint(folder), [version_of("transformers")]
    if read_memo(_COMPLETE, identity, state):
        return
    pools = any(type(module).__name__ == "Pooling" for module in model)
    paths = [folder / module["path"] for module in read_modules(folder)] or [folder]
    for path, module in zip(paths, model, strict=False):  # a bare folder gets a pooling
        if not hasattr(module, "auto_model"):
            continue
        kind, config = type(module.auto_model), module.auto_model.config
        _, report = kind.from_pretrained(path, config=config, dtype=torch.bfloat16, output_loading_info=True)
        # The head of a transformer that pools by itself is not used if a module pools.
        if missing := sorted(name for name in report["missing_keys"] if not (pools and name.startswith("pooler."))):
            raise TourError(
                f"the encoder {folder} is incomplete: its checkpoint lacks {len(missing)} weights, such as "
                f"{missing[0]}; download it again, or choose another encoder."
            )
    write_memo(_COMPLETE, identity, state, "yes")


def _override(model: Any, options: ModelOptions) -> None:
    """Change what was asked for explicitly."""
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    kinds = {type(module).__name__: (name, module) for name, module in model.named_children()}
    if options.pooling is not None:
        if "Pooling" not in kinds:
            raise TourError("this encoder pools no tokens; leave --pooling out.")
        name, module = kinds["Pooling"]
        pooling = Pooling(module.embedding_dimension, POOLINGS[options.pooling], module.include_prompt)
        if pooling.pooling_output_dimension != module.pooling_output_dimension:
            raise TourError("the pooling of this encoder joins several vectors; leave --pooling out.")
        model._modules[name] = pooling
    if options.l2_norm is True and "Normalize" not in kinds:
        model.append(Normalize())
    elif options.l2_norm is False and "Normalize" in kinds:
        del model._modules[kinds["Normalize"][0]]
    if options.truncate_dim is not None:
        size = model.get_embedding_dimension()
        if size is not None and options.truncate_dim > size:
            raise TourError(f"the encoder gives {size} dimensions, which cannot be cut to {options.truncate_dim}.")
        model.truncate_dim = options.truncate_dim


def position_limit(model: Any) -> int | None:
    """The longest input of the model in tokens; None if its configuration does not say."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    limit = getattr(config, "max_position_embeddings", None)
    if limit and getattr(config, "model_type", None) in POSITIONS_AFTER_PADDING:
        limit -= (getattr(config, "pad_token_id", None) or 0) + 1
    return limit


def _limit_length(model: Any) -> None:
    """Let no text be longer than the model's positions, where its files do not say so."""
    limit, length = position_limit(model), model.max_seq_length
    if limit and (length is None or length > limit):
        model.max_seq_length = limit


def _dtype(options: ModelOptions) -> str:
    """CPUs compute in float32, because few of them are fast with other numbers; a GPU as the model's files say."""
    return "float32" if options.dtype == "auto" and options.device == "cpu" else options.dtype


@contextmanager
def _quiet(folder: Path) -> Iterator[None]:
    """Turn any error of damaged files into one sentence, and silence what the libraries write while loading."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity(logging.CRITICAL)
    library = logging.getLogger("sentence_transformers")
    level = library.level
    library.setLevel(logging.CRITICAL)
    try:
        yield
    except TourError:
        raise
    except Exception as error:  # damaged files of a model cause exceptions of many types
        raise TourError(f"cannot load the encoder {folder}: {first_line(error).rstrip('.:')[:300]}.") from error
    finally:
        transformers_logging.set_verbosity(verbosity)
        library.setLevel(level)
