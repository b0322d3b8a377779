"""Hugging Face checkpoints: reading them, and naming a model by its content."""

import contextlib
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.files import sha256
from tour_pyserini.support.optional import imported

logger = logging.getLogger(__name__)

SMALL_FILES = ("*.json", "*.txt", "*.model")
SAFE_WEIGHTS = ("*.safetensors",)
OLD_WEIGHTS = ("pytorch_model*.bin",)
POSITIONS_AFTER_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer"}
"""Model types whose first position is the padding id + 1, so that two of their positions are never used."""


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder holds a configuration and weights."""
    return (folder / "config.json").is_file() and bool(_weights(folder))


def files_of(folder: Path) -> list[Path]:
    """The files that scores depend on: weights, tokenizer and configuration."""
    return sorted({*_matching(folder, SMALL_FILES), *_weights(folder)})


def downloaded(name: str) -> Path:
    """The local folder of a model of the Hugging Face hub, fetched unless it was before."""
    download = imported("huggingface_hub").snapshot_download
    try:
        folder = Path(download(name, allow_patterns=[*SMALL_FILES, *SAFE_WEIGHTS], ignore_patterns=["*/*"]))
        if not _weights(folder):
            folder = Path(download(name, allow_patterns=[*SMALL_FILES, *OLD_WEIGHTS], ignore_patterns=["*/*"]))
    except Exception as error:
        raise TourError(
            f"the re-ranker {name!r} is neither a folder here nor a model that can be downloaded ({_brief(error)}); "
            'check the name and the connection, or use "default".'
        ) from error
    return folder


def read_config(folder: Path) -> Any:
    """The model's configuration."""
    with _reading(folder, "the configuration"):
        return imported("transformers").AutoConfig.from_pretrained(str(folder), trust_remote_code=False)


def read_tokenizer(folder: Path) -> Any:
    """The model's tokenizer."""
    with _reading(folder, "the tokenizer"):
        return imported("transformers").AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)


def read_model(folder: Path, auto_class: str, config: Any, *, device: str = "cpu") -> Any:
    """The model in single precision on its device, with every weight from the checkpoint.

    Raises:
        TourError: when it cannot be read, or when weights are missing that would be made up at random.
    """
    with _reading(folder, "the model"):
        model, found = getattr(imported("transformers"), auto_class).from_pretrained(
            str(folder), config=config, output_loading_info=True, weights_only=True, trust_remote_code=False
        )
    if missing := sorted(found["missing_keys"]):
        raise TourError(
            f"{folder} is no re-ranker: its checkpoint lacks {len(missing)} of the weights needed to score a pair, "
            f"such as {missing[0]}; choose a cross-encoder (this may be a bi-encoder)."
        )
    return on_device(model.float().eval(), device, name=folder)


def usable_length(folder: Path, config: Any, tokenizer: Any, wanted: int) -> int:
    """The maximum length in tokens: what is wanted, or less when the model has fewer positions."""
    positions = getattr(config, "max_position_embeddings", None) or wanted
    if config.model_type in POSITIONS_AFTER_PADDING:
        positions -= (config.pad_token_id or 0) + 1
    length = min(wanted, positions, tokenizer.model_max_length)
    if length < wanted:
        logger.warning("%s takes %d tokens at most, not %d: longer pairs are cut there", folder, length, wanted)
    return length


@contextlib.contextmanager
def _reading(folder: Path, what: str) -> Iterator[None]:
    """Turn whatever a damaged checkpoint raises into one sentence, without the library's own reports."""
    report = imported("transformers").utils.logging
    verbosity, bars = report.get_verbosity(), report.is_progress_bar_enabled()
    report.set_verbosity(logging.CRITICAL)
    report.disable_progress_bar()
    try:
        yield
    except TourError:
        raise
    except Exception as error:
        raise TourError(f"{what} in {folder} cannot be read ({_brief(error)}); fetch the folder again.") from error
    finally:
        report.set_verbosity(verbosity)
        if bars:
            report.enable_progress_bar()


def _weights(folder: Path) -> list[Path]:
    return _matching(folder, SAFE_WEIGHTS) or _matching(folder, OLD_WEIGHTS)


def _matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return [path for pattern in patterns for path in folder.glob(pattern) if path.is_file()]


def _brief(error: Exception) -> str:
    line = first_line(error)
    return line if len(line) <= 200 else line[:197] + "..."


def fingerprint(kind: str, files: Iterable[Path], **settings: object) -> str:
    """A digest of everything that a score depends on besides the pair.

    Args:
        kind: how the model is run, such as "onnx".
        files: weights, tokenizer and configuration; their names and contents count, not where they are.
        settings: maximum length, input template and whatever else changes scores.

    Example:
        >>> fingerprint("onnx", [], max_length=256) == fingerprint("onnx", [], max_length=512)
        False
    """
    contents = sorted((path.name, content_hash(path)) for path in files)
    told = json.dumps([kind, contents, settings], sort_keys=True, default=str)
    return f"{kind}:{hashlib.sha256(told.encode()).hexdigest()}"


def content_hash(path: Path) -> str:
    """The SHA-256 of a file, computed once per process while size and time of change stay the same."""
    state = path.stat()
    return _hash(path.resolve(), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _hash(path: Path, size: int, mtime_ns: int) -> str:
    return sha256(path)
