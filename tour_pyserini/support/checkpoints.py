"""Read Hugging Face checkpoints, and identify a model by its content (fingerprint)."""

import contextlib
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.optional import import_optional
from tour_pyserini.support.remembered import content_hash

log = logging.getLogger(__name__)

SMALL_FILES = ("*.json", "*.txt", "*.model")
SAFE_WEIGHTS = ("*.safetensors",)
OLD_WEIGHTS = ("pytorch_model*.bin",)
POSITIONS_AFTER_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer"}
"""Model types whose first position is the padding id + 1: they take fewer tokens than they have positions."""


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder contains a configuration and weights."""
    return (folder / "config.json").is_file() and bool(_weights(folder))


def checkpoint_files(folder: Path) -> list[Path]:
    """List the files that scores depend on: weights, tokenizer and configuration."""
    return sorted({*_matching(folder, SMALL_FILES), *_weights(folder)})


def download_checkpoint(name: str) -> Path:
    """Download a model from the Hugging Face hub, unless that was done before, and give its local folder."""
    download = import_optional("huggingface_hub").snapshot_download
    try:
        folder = Path(download(name, allow_patterns=[*SMALL_FILES, *SAFE_WEIGHTS], ignore_patterns=["*/*"]))
        if not _weights(folder):
            folder = Path(download(name, allow_patterns=[*SMALL_FILES, *OLD_WEIGHTS], ignore_patterns=["*/*"]))
    except Exception as error:
        raise TourError(
            f"the re-ranker {name!r} is not a local folder, and its download failed ({_brief(error)}); "
            'check the name and the connection, or use "default".'
        ) from error
    return folder


def read_config(folder: Path) -> Any:
    """Read the model's configuration."""
    with _reading(folder, "the configuration"):
        return import_optional("transformers").AutoConfig.from_pretrained(str(folder), trust_remote_code=False)


def read_tokenizer(folder: Path) -> Any:
    """Read the model's tokenizer."""
    with _reading(folder, "the tokenizer"):
        return import_optional("transformers").AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)


def read_model(folder: Path, auto_class: str, config: Any, *, device: str = "cpu") -> Any:
    """Read the model, in single precision, and move it to its device.

    Raises:
        TourError: if it cannot be read, or if weights are missing (transformers would set them to random values).
    """
    with _reading(folder, "the model"):
        model, report = getattr(import_optional("transformers"), auto_class).from_pretrained(
            str(folder), config=config, output_loading_info=True, weights_only=True, trust_remote_code=False
        )
    if missing := sorted(report["missing_keys"]):
        raise TourError(
            f"{folder} is not a re-ranker: its checkpoint lacks {len(missing)} of the weights needed to score a pair, "
            f"such as {missing[0]}; choose a cross-encoder (this may be a bi-encoder)."
        )
    return on_device(model.float().eval(), device, name=folder)


def usable_length(folder: Path, config: Any, tokenizer: Any, wanted: int) -> int:
    """The maximum length in tokens: `wanted`, or less if the model has fewer positions."""
    positions = getattr(config, "max_position_embeddings", None) or wanted
    if config.model_type in POSITIONS_AFTER_PADDING:
        positions -= (config.pad_token_id or 0) + 1
    length = min(wanted, positions, tokenizer.model_max_length)
    if length < wanted:
        log.warning("%s takes at most %d tokens, not %d: longer pairs are truncated", folder, length, wanted)
    return length


def fingerprint(kind: str, files: Iterable[Path], **settings: object) -> str:
    """Hash everything that a score depends on, except the pair itself.

    Args:
        kind: how the model is run, such as "onnx".
        files: weights, tokenizer and configuration; their names and contents are hashed, not their folders.
        settings: maximum length, input template and everything else that changes scores.

    Example:
        >>> fingerprint("onnx", [], max_length=256) == fingerprint("onnx", [], max_length=512)
        False
    """
    contents = sorted((path.name, content_hash(path)) for path in files)
    identity = json.dumps([kind, contents, settings], sort_keys=True, default=str)
    return f"{kind}:{hashlib.sha256(identity.encode()).hexdigest()}"


@contextlib.contextmanager
def _reading(folder: Path, what: str) -> Iterator[None]:
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
        raise TourError(f"{what} in {folder} cannot be read ({_brief(error)}); download the folder again.") from error
    finally:
        output.set_verbosity(verbosity)
        if bars:
            output.enable_progress_bar()


def _weights(folder: Path) -> list[Path]:
    return _matching(folder, SAFE_WEIGHTS) or _matching(folder, OLD_WEIGHTS)


def _matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return [path for pattern in patterns for path in folder.glob(pattern) if path.is_file()]


def _brief(error: Exception) -> str:
    """The first line of an error message, at most 200 characters."""
    line = first_line(error)
    return line if len(line) <= 200 else line[:197] + "..."
