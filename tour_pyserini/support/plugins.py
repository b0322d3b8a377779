"""Plugins: installed packages that register methods, re-ranker kinds or vector sources of their own."""

import importlib.metadata

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
