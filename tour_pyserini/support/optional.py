"""Import optional Python packages."""

import importlib
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
