"""Plugins: installed packages and files that register methods, re-ranker kinds or vector sources of their own."""

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

from tour_pyserini.errors import TourError, first_line

GROUP = "tour_pyserini.plugins"
"""The group of entry points that name a module, or a function without arguments, that registers things."""


def load_plugins() -> list[str]:
    """Import the plugins of the installed packages, call those that are functions, and return their names.

    Example, in the `pyproject.toml` of a plugin:
        [project.entry-points."tour_pyserini.plugins"]
        mine = "my_package.tour_methods"
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
    return names


def load_plugin_file(path: str | os.PathLike[str]) -> None:
    """Run a Python file that registers things, once in a process."""
    path = Path(path).resolve()
    name = f"tour_pyserini_plugin_{path.stem}_{abs(hash(path))}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise TourError(f"the plugin {path} is not a Python file; give the path of a .py file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as dataclasses need it
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a plugin is foreign code: name it, whatever it raises
        del sys.modules[name]
        raise TourError(f"the plugin {path} failed: {first_line(error)}.") from error
