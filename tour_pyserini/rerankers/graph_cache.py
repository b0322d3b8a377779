"""A folder of ONNX graphs that were exported or quantised on this machine."""

import logging
from collections.abc import Callable
from pathlib import Path

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_replace, atomic_write, cache_home, sha256
from tour_pyserini.support.optional import import_optional

log = logging.getLogger(__name__)


class GraphError(TourError):
    """A graph cannot be made or stored; the model itself may still be usable by another back end."""


def cached_graph(key: str, make: Callable[[Path], None]) -> Path:
    """Return the path of the graph with that key in the cache folder; a missing graph is made first.

    Its checksum is stored in a file next to it: a truncated or changed graph is made again. If several processes need
    the same graph, one makes it and the others wait.

    Args:
        key: a hash of everything the graph depends on.
        make: a function that writes the graph to the path it gets.

    Raises:
        GraphError: when the cache folder cannot be written; `make` may raise other errors.
    """
    path = cache_home() / "graphs" / f"{key}.onnx"
    checksum_path = path.with_suffix(".sha256")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = import_optional("filelock").FileLock(path.with_suffix(".lock")).acquire()
    except OSError as error:
        raise GraphError(
            f"{path.parent} cannot be written ({error.strerror or error}): set TOUR_PYSERINI_CACHE to another folder"
        ) from error
    with lock:
        if not _is_intact(path, checksum_path):
            if path.exists():
                log.warning("%s is damaged and is written again", path)
            with atomic_replace(path) as partial:
                make(partial)
            with atomic_write(checksum_path) as file:
                file.write(sha256(path))
    return path


def _is_intact(path: Path, checksum_path: Path) -> bool:
    if not path.is_file() or not checksum_path.is_file():
        return False
    return checksum_path.read_text(encoding="utf-8", errors="replace") == sha256(path)
