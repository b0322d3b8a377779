"""Plugins: files and installed packages that register methods, re-ranker kinds or vector sources of their own."""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from tour_pyserini.errors import TourError, first_line

GROUP = "tour_pyserini.plugins"
"""The group of entry points that name a module, or a function without arguments, that registers things."""


def load_plugins(files: Sequence[str] = ()) -> list[str]:
    """Import the plugins of the installed packages, call those that are functions, and import the given files.

    Example, in the `pyproject.toml` of a plugin:
        [project.entry-points."tour_pyserini.plugins"]
        mine = "my_package.tour_methods"

    Args:
        files: Python files, each imported once; their code is run.

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
    return [*names, *(load_plugin(file) for file in files)]


def load_plugin(file: str) -> str:
    """Import a Python file, unless it was imported before, and return its name."""
    path = Path(file).resolve()
    name = f"tour_plugin_{path.stem}_{abs(hash(path))}"
    if name in sys.modules:
        return file
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise TourError(f"the plugin {file} is not a Python file.")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # foreign code
        del sys.modules[name]
        raise TourError(f"the plugin {file} failed: {first_line(error)}.") from error
    return file


def plugin_files(argv: Sequence[str]) -> list[str]:
    """The files after `--plugin` among the arguments of a command: what they register may add flags."""
    files: list[str] = []
    taking = False
    for word in argv:
        if word.startswith("-"):
            taking = word == "--plugin"
            if word.startswith("--plugin="):
                files.append(word.partition("=")[2])
        elif taking:
            files.append(word)
    return files
