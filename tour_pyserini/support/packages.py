"""Other Python packages: optional ones, their versions, and plugins that register parts of their own."""

import argparse
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line


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


def package_folder(package: str) -> Path | None:
    """The folder of an installed package, which is not imported; None if there is none."""
    spec = find_spec(package)
    return next(map(Path, spec.submodule_search_locations or ()), None) if spec else None


GROUP = "tour_pyserini.plugins"
"""The group of entry points that name a module, or a function without arguments, that registers things."""


def load_plugins(files: Sequence[str] = ()) -> list[str]:
    """Import the plugins of the installed packages, call those that are functions, and import the given files.

    Example, in the `pyproject.toml` of a plugin:
        [project.entry-points."tour_pyserini.plugins"]
        mine = "my_package.tour_methods"

    Args:
        files: Python files, or folders of them; each is imported once, and its code is run.

    Returns:
        Their names.
    """
    names = []
    for entry in sorted(importlib.metadata.entry_points(group=GROUP)):
        try:
            plugin = entry.load()
            if callable(plugin):
                plugin()
        except Exception as error:  # a plugin is foreign code: name it, whatever it raises
            raise TourError(f"the plugin {entry.name} ({entry.value}) failed: {first_line(error)}.") from error
        names.append(entry.name)
    for file in files:
        path = Path(file)
        names += [_load_plugin(each) for each in sorted(path.glob("*.py"))] if path.is_dir() else [_load_plugin(path)]
    return names


def _load_plugin(file: str | os.PathLike[str]) -> str:
    """Import a Python file, unless it was imported before, and return its name; it may import its neighbours."""
    path = Path(file).resolve()
    if any(getattr(module, "__file__", None) == str(path) for module in list(sys.modules.values())):
        return str(file)
    if not path.is_file() or path.suffix != ".py":
        raise TourError(f"the plugin {file} is not a Python file.")
    sys.path.insert(0, str(path.parent))
    try:
        importlib.import_module(path.stem)
    except Exception as error:  # foreign code
        raise TourError(f"the plugin {file} failed: {first_line(error)}.") from error
    finally:
        sys.path.remove(str(path.parent))
    return str(file)


def plugin_arguments(argv: Sequence[str]) -> list[str]:
    """The files after `--plugin` among the arguments of a command: what they register may add flags."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--plugin", nargs="*", action="extend", default=[])
    files: list[str] = parser.parse_known_args(argv)[0].plugin
    return files
