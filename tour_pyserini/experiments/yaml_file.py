"""Read a YAML file that may come from somebody else: bounded in size, depth and repetition."""

import os
from pathlib import Path
from typing import Any

import yaml

from tour_pyserini.errors import TourError, first_line

LARGEST = 4 << 20
"""Bytes of a file; the largest experiment of the package has 30,000."""
MOST_VALUES = 100_000
"""Values of a file, with every alias replaced by what it stands for: ten lines of aliases can stand for billions."""


def read_yaml(path: str | os.PathLike[str]) -> Any:
    """Read the value in a YAML file.

    Raises:
        TourError: if the file cannot be read, is not YAML, or stands for too much.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise TourError(f"the experiment {path} has more than {LARGEST >> 20} MB; give an experiment file.")
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            if _expanded_size(root) > MOST_VALUES:
                raise TourError(f"{path} stands for more than {MOST_VALUES:,} values; use fewer aliases.")
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except TourError:
        raise
    except OSError as error:
        raise TourError(f"cannot read the experiment {path}: {error.strerror}.") from error
    except RecursionError:
        raise TourError(f"{path} is not YAML that can be read: it is nested too deeply, or contains itself.") from None
    # YAML's constructors raise errors of many types for a value that does not fit its tag, such as `!!float x`.
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or first_line(error).partition(";")[0]
        raise TourError(f"{path}{line} is not YAML: {reason:.200}.") from error


def _expanded_size(root: yaml.Node) -> int:
    """The number of values under a node if every alias is counted as often as it is used."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            if isinstance(node, yaml.ScalarNode) and "\0" in node.value:
                raise yaml.MarkedYAMLError(problem="a value contains NUL", problem_mark=node.start_mark)
            parts = node.value if isinstance(node, yaml.CollectionNode) else []
            flat = [part for pair in parts for part in pair] if isinstance(node, yaml.MappingNode) else parts
            sizes[id(node)] = 1 + sum(size(part) for part in flat)
        return sizes[id(node)]

    return size(root)
