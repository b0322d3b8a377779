"""Model folders of encoders: where the weights are, how token vectors are pooled, and a fingerprint of the files."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.encoders.default_encoder import verify_default_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.support.remembered import content_hash

DEFAULT = "default"
"""The name of the default encoder."""

# The kinds of pooling that Pyserini's encoders have, by their names in sentence-transformers (new and old).
POOLING = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "cls": "cls", "mean": "mean"}
MODEL_FILES = {".safetensors", ".bin", ".onnx", ".json", ".txt", ".model"}
KNOWN_MODULES = {"Transformer", "Pooling", "Normalize"}


class ModelFolder(NamedTuple):
    """What a model folder declares: where its weights are, its pooling (`cls` or `mean`), and if vectors get norm 1."""

    weights: Path
    pooling: str
    l2_norm: bool


class EncoderChoice(NamedTuple):
    """The encoder to load.

    Attributes:
        name: a folder, or a name on the model hub.
        is_folder: whether to load a folder with the class `auto`; otherwise Pyserini loads `name`, with the given class
            or one that it chooses.
        pooling: `cls` or `mean`.
        l2_norm: whether vectors get norm 1.
    """

    name: str
    is_folder: bool
    pooling: str
    l2_norm: bool


def choose_encoder(
    spec: str | os.PathLike[str], encoder_class: str | None, pooling: str | None, l2_norm: bool | None
) -> EncoderChoice:
    """Decide where to load an encoder from, and with which pooling and norm.

    The arguments are those of `load_query_encoder`.

    Raises:
        TourError: if the folder does not exist, or its model needs something that Pyserini's encoders do not have.
    """
    folder = verify_default_encoder() if spec == DEFAULT else Path(spec)
    if not folder.is_dir() and (isinstance(spec, os.PathLike) or folder.is_absolute() or str(spec).startswith(".")):
        raise TourError(f"the encoder folder {folder} does not exist.")
    if not folder.is_dir() or encoder_class not in (None, "auto"):
        name = str(folder) if folder.is_dir() else str(spec)
        return EncoderChoice(name, False, pooling or "cls", bool(l2_norm))
    if pooling not in (None, "cls", "mean"):
        raise TourError(f"the pooling of the encoder class auto is cls or mean, not {pooling!r}.")
    if pooling is not None and l2_norm is not None:
        return EncoderChoice(str(_module_paths(folder).get("Transformer", folder)), True, pooling, l2_norm)
    declared = read_model_folder(folder)
    return EncoderChoice(
        str(declared.weights), True, pooling or declared.pooling, declared.l2_norm if l2_norm is None else l2_norm
    )


def read_model_folder(folder: Path) -> ModelFolder:
    """Read `modules.json` and the pooling configuration that it names; without this file, Pyserini's defaults.

    Example:
        >>> read_model_folder(Path("all-MiniLM-L6-v2"))  # doctest: +SKIP
        ModelFolder(weights=PosixPath('all-MiniLM-L6-v2'), pooling='mean', l2_norm=True)
    """
    paths = _module_paths(folder)
    if unknown := paths.keys() - KNOWN_MODULES:
        raise TourError(
            f"the encoder {folder} has a module that Pyserini's encoders do not have ({', '.join(sorted(unknown))}); "
            "choose another encoder, or give both pooling and l2_norm to ignore the module."
        )
    pooling = _pooling(paths["Pooling"] / "config.json") if "Pooling" in paths else "cls"
    return ModelFolder(paths.get("Transformer", folder), pooling, "Normalize" in paths)


def fingerprint(folder: Path) -> str:
    """The fingerprint of a model folder: a hash of the names and contents of all files that a model can consist of."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in MODEL_FILES and path.is_file()]
    lines = (f"{path.relative_to(folder).as_posix()} {content_hash(path)}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _module_paths(folder: Path) -> dict[str, Path]:
    """The folders of a model's modules, by the modules' types; none without the file `modules.json`."""
    if not (folder / "modules.json").is_file():
        return {}
    modules = _read(folder / "modules.json")
    try:
        return {module["type"].rsplit(".", 1)[-1]: folder / module["path"] for module in modules}
    except (TypeError, KeyError, AttributeError):
        raise TourError(f"{folder / 'modules.json'} is not a list of modules; download the model again.") from None


def _pooling(path: Path) -> str:
    config = _read(path)
    if not isinstance(config, dict):
        raise TourError(f"{path} is not a pooling configuration; download the model again.")
    # New versions of sentence-transformers write the name of the pooling, old ones a flag for each kind.
    modes = config.get("pooling_mode", [name for name, on in config.items() if "pooling_mode_" in name and on is True])
    modes = [modes] if isinstance(modes, str) else list(modes)
    if len(modes) != 1 or modes[0] not in POOLING:
        raise TourError(f"{path} asks for pooling {modes}, but Pyserini's encoders have only cls and mean.")
    return POOLING[modes[0]]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TourError(f"cannot read {path}: {error}.") from error
