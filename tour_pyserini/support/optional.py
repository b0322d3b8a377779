"""Importing what may not be installed."""

import importlib
from typing import Any

from tour_pyserini.errors import TourError


def imported(module: str, *, extra: str = "models") -> Any:
    """The module of that name, or a `TourError` that says which extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TourError(
            f'the Python package {module} is needed for this re-ranker ({error}); pip install "tour_pyserini[{extra}]".'
        ) from error
