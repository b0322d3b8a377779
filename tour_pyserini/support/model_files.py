"""The files of a model folder: which there are, what they declare, a download of them, and a hash of their content."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.memo import content_hash
from tour_pyserini.support.optional import import_optional

SMALL_FILES = ("*.json", "*.txt", "*.model", "*.jinja")
CARD = "README.md"
"""The model card of the hub, which can say which model a model was made from."""
CODE_FILES = ("*.py",)
SAFE_WEIGHTS = ("*.safetensors",)
OLD_WEIGHTS = ("pytorch_model*.bin",)


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder contains a configuration and weights."""
    return (folder / "config.json").is_file() and bool(weight_files(folder))


def checkpoint_files(folder: Path, *, code: bool = False) -> list[Path]:
    """List the files that scores depend on: weights, tokenizer, configuration, and code if the model runs its own."""
    return sorted({*_matching(folder, SMALL_FILES + CODE_FILES * code), *weight_files(folder)})


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
        raise TourError(f"{path} cannot be read ({brief(error)}); download the folder again.") from error
    if not isinstance(content, kind):
        raise TourError(f"{path} does not hold a JSON {kind.__name__}; download the folder again.")
    return content


def download_checkpoint(name: str, *, code: bool = False) -> Path:
    """Download a model from the Hugging Face hub, unless that was done before, and give its local folder.

    Args:
        name: the name on the hub.
        code: whether Python files are wanted too.
    """
    download = import_optional("huggingface_hub").snapshot_download
    small = [*SMALL_FILES, CARD, *CODE_FILES * code]
    try:
        folder = Path(download(name, allow_patterns=[*small, *SAFE_WEIGHTS], ignore_patterns=["*/*"]))
        if not weight_files(folder):
            folder = Path(download(name, allow_patterns=[*small, *OLD_WEIGHTS], ignore_patterns=["*/*"]))
        if modules := [f"{module['path']}/*" for module in read_modules(folder) if module["path"]]:
            folder = Path(download(name, allow_patterns=modules))
    except TourError:
        raise
    except Exception as error:
        raise TourError(
            f"the re-ranker {name!r} is not a local folder, and its download failed ({brief(error)}); "
            'check the name and the connection, or use "default".'
        ) from error
    return folder


class CodeReference(NamedTuple):
    """The file of a model folder, and the entry in it, that asks for Python code."""

    file: Path
    entry: str


def code_reference(folder: Path) -> CodeReference | None:
    """What in a model folder asks for Python code from outside of the installed libraries; None if nothing does."""
    for name in ("config.json", "tokenizer_config.json", "processor_config.json"):
        for path in (folder / name, *sorted(folder.glob(f"*/{name}"))):
            if read_json(path).get("auto_map"):
                return CodeReference(path, "auto_map")
    for module in read_modules(folder):
        if not module["type"].startswith("sentence_transformers."):
            return CodeReference(folder / "modules.json", module["type"])
    return None


def check_code(folder: Path, *, trusted: bool) -> None:
    """Refuse a model that brings Python code of its own, unless the user trusts it.

    The code is never replaced by similar code of transformers, which may compute something else.
    """
    if not trusted and (found := code_reference(folder)):
        raise TourError(
            f"{folder} brings Python code of its own ({found.entry} in {found.file.relative_to(folder)}), which is run "
            "only on request: read that code, then add --trust-remote-code (in Python: trust_remote_code=True)."
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


def weight_files(folder: Path) -> list[Path]:
    """List the files with weights: as safetensors, else in the old format."""
    return _matching(folder, SAFE_WEIGHTS) or _matching(folder, OLD_WEIGHTS)


def _matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return [path for pattern in patterns for path in folder.glob(pattern) if path.is_file()]


def brief(error: Exception) -> str:
    """The first line of an error message, at most 200 characters."""
    line = first_line(error)
    return line if len(line) <= 200 else line[:197] + "..."
