"""ONNX graphs that were made here, kept whole or not at all."""

import logging
from collections.abc import Callable
from pathlib import Path

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import cache_home, replaced_whole, sha256, written_whole
from tour_pyserini.support.optional import imported

logger = logging.getLogger(__name__)


class NoGraph(TourError):
    """A graph cannot be made or kept, though the model itself may be in order."""


def kept_graph(key: str, make: Callable[[Path], None]) -> Path:
    """The graph of that key in the cache folder, made unless it is there.

    Its checksum stands beside it: a file that was cut short or altered is made again. Of several processes one makes
    it while the others wait.

    Args:
        key: a digest of everything the graph depends on.
        make: writes the graph to the path it is given.

    Raises:
        NoGraph: when the cache folder cannot be written; `make` may raise more.
    """
    path = cache_home() / "graphs" / f"{key}.onnx"
    seal = path.with_suffix(".sha256")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = imported("filelock").FileLock(path.with_suffix(".lock")).acquire()
    except OSError as error:
        raise NoGraph(
            f"{path.parent} cannot be written ({error.strerror or error}): set TOUR_PYSERINI_CACHE"
        ) from error
    with lock:
        if not _whole(path, seal):
            if path.exists():
                logger.warning("%s is damaged and made again", path)
            with replaced_whole(path) as partial:
                make(partial)
            with written_whole(seal) as file:
                file.write(sha256(path))
    return path


def _whole(path: Path, seal: Path) -> bool:
    return path.is_file() and seal.is_file() and seal.read_text(encoding="utf-8", errors="replace") == sha256(path)
