"""Read Hugging Face checkpoints: configuration, tokenizer and model, with weights of the right type."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.model_files import brief, check_code, weight_files
from tour_pyserini.support.optional import import_optional

log = logging.getLogger(__name__)

LARGE = 4_000_000_000
"""Bytes of weights in half precision above which they are not converted to float32 on a CPU (2 billion weights)."""
_STORED = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
POSITIONS_AFTER_PADDING = {
    *("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert", "xmod"),
    *("mpnet", "longformer", "data2vec-text", "ibert"),
}
"""Model types whose first position is the padding id + 1: they take fewer tokens than they have positions."""


def read_config(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """Read the model's configuration."""
    check_code(folder, trusted=trust_remote_code)
    with quiet_reading(folder, "the configuration"):
        return import_optional("transformers").AutoConfig.from_pretrained(
            str(folder), trust_remote_code=trust_remote_code
        )


def read_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """Read the model's tokenizer."""
    check_code(folder, trusted=trust_remote_code)
    with quiet_reading(folder, "the tokenizer"):
        return import_optional("transformers").AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=trust_remote_code
        )


def read_model(
    folder: Path,
    auto_class: str,
    config: Any,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    trust_remote_code: bool = False,
) -> Any:
    """Read the model with weights of that type, and move it to its device.

    Raises:
        TourError: if it cannot be read, or if weights are missing (transformers would set them to random values).
    """
    check_code(folder, trusted=trust_remote_code)
    with quiet_reading(folder, "the model"):
        number_type = getattr(import_optional("torch"), dtype)
        model, report = getattr(import_optional("transformers"), auto_class).from_pretrained(
            str(folder),
            config=config,
            dtype=number_type,
            output_loading_info=True,
            weights_only=True,
            trust_remote_code=trust_remote_code,
        )
    if missing := sorted(report["missing_keys"]):
        raise TourError(
            f"{folder} is not a re-ranker: its checkpoint lacks {len(missing)} of the weights needed to score a pair, "
            f"such as {missing[0]}; choose a cross-encoder (this may be a bi-encoder)."
        )
    # In half precision, transformers keeps the weights in float32 that a model's authors say need it.
    return on_device((model.float() if dtype == "float32" else model).eval(), device, name=folder)


def chosen_dtype(folder: Path, wanted: str, device: str) -> str:
    """The type of numbers that a model computes with: "float32", "bfloat16" or "float16".

    Args:
        folder: the folder of the checkpoint.
        wanted: one of these, or "auto": float32 on a CPU, except for weights in half precision of more than 4 GB;
            these, and all weights on other devices, are used as they are stored.
        device: where the model runs.
    """
    if wanted != "auto":
        return wanted
    weights = weight_files(folder)
    if device == "cpu" and sum(path.stat().st_size for path in weights) <= LARGE:
        return "float32"
    stored = {dtype for path in weights for dtype in _stored_dtypes(path)}
    return stored.pop() if len(stored) == 1 else "float32"


def usable_length(folder: Path, config: Any, tokenizer: Any, wanted: int, *, warn: bool = True) -> int:
    """The maximum length in tokens: `wanted`, or less if the model has fewer positions."""
    positions = getattr(config, "max_position_embeddings", None) or wanted
    if config.model_type in POSITIONS_AFTER_PADDING:
        positions -= (config.pad_token_id or 0) + 1
    length = min(wanted, positions, tokenizer.model_max_length)
    if length < wanted and warn:
        log.warning("%s takes at most %d tokens, not %d: longer pairs are truncated", folder, length, wanted)
    return length


@contextlib.contextmanager
def quiet_reading(folder: Path, what: str) -> Iterator[None]:
    """Turn any error of a damaged checkpoint into one sentence, and silence the library's own output."""
    output = import_optional("transformers").utils.logging
    verbosity, bars = output.get_verbosity(), output.is_progress_bar_enabled()
    output.set_verbosity(logging.CRITICAL)
    output.disable_progress_bar()
    try:
        yield
    except TourError:
        raise
    except Exception as error:
        raise TourError(f"{what} in {folder} cannot be read ({brief(error)}); download the folder again.") from error
    finally:
        output.set_verbosity(verbosity)
        if bars:
            output.enable_progress_bar()


def _stored_dtypes(path: Path) -> set[str]:
    """The types of the floating-point weights in a file; float32 for a pickle, whose types are not known."""
    if path.suffix != ".safetensors":
        return {"float32"}
    try:
        with import_optional("safetensors").safe_open(path, framework="np") as file:
            stored = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except Exception:  # a damaged file: loading it gives the error message
        return set()
    return {_STORED[dtype] for dtype in stored if dtype in _STORED}
