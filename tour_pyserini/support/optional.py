"""Import optional Python packages."""

import importlib
import importlib.metadata
from importlib.util import find_spec
from typing import Any

from tour_pyserini.errors import TourError


def import_optional(module: str, *, extra: str = "models") -> Any:
    """Import a module; if it is missing, raise a `TourError` that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TourError(
            f'the Python package {module} is needed ({error}); run: pip install "tour_pyserini[{extra}]"'
        ) from error


def version_of(package: str) -> str | None:
    """The version of an installed package; "installed" if it has none; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "installed" if find_spec(package) else None
