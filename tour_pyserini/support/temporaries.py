"""Temporary files and folders beside the output that they become; those of killed processes are removed.

A temporary is locked as long as its process lives, and the system releases the lock when the process ends, however it
ends. So an unlocked temporary was left behind, and the next command that writes in the same folder removes it.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NAME = re.compile(r"\..*\.(?P<machine>[0-9a-f]{8})-[0-9a-f]{8}\.unfinished")
_LONGEST = 100  # bytes of the output's name that the name of its temporary repeats; a file name has 255 at most
# Some network file systems do not show the locks of other machines: their temporaries must also be this old.
_ABANDONED = 7 * 86_400  # seconds


@contextmanager
def temporary_file(path: Path, *, mode: int) -> Iterator[Path]:
    """Create an empty file beside `path`, locked during the block and removed after it unless it was renamed.

    Args:
        path: the output.
        mode: permissions of the file; the user's umask takes some of them away.
    """
    remove_abandoned(path.parent)
    while True:
        partial = path.with_name(_new_name(path))
        lock = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        if _keep_locked(lock, partial):
            break
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)
        os.close(lock)


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Create a folder beside `path`, locked during the block and removed after it unless it was renamed."""
    remove_abandoned(path.parent)
    while True:
        partial = path.with_name(_new_name(path))
        partial.mkdir()
        lock = os.open(partial, os.O_RDONLY)
        if _keep_locked(lock, partial):
            break
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(lock)


def remove_folder(folder: Path) -> None:
    """Delete a folder. It loses its name at once: if this is interrupted, what is left is a temporary."""
    doomed = folder.with_name(_new_name(folder))
    folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_abandoned(folder: Path) -> None:
    """Remove the temporaries of processes that no longer live from a folder."""
    with contextlib.suppress(OSError):
        for path in list(folder.iterdir()):
            if match := _NAME.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    _remove_unlocked(path, elsewhere=match["machine"] != _machine())


def _remove_unlocked(path: Path, *, elsewhere: bool) -> None:
    is_folder = path.is_dir()
    handle = os.open(path, os.O_NOFOLLOW | (os.O_RDONLY if is_folder else os.O_RDWR))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if elsewhere and os.fstat(handle).st_mtime > time.time() - _ABANDONED:
            return
        if is_folder:
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    finally:
        os.close(handle)


def _keep_locked(handle: int, path: Path) -> bool:
    """Lock an open temporary; False, and the handle is closed, if another process has just removed it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another process looks whether it was abandoned, and removes it
        os.close(handle)
        return False
    except OSError:
        return True  # a file system without locks: nobody removes temporaries there
    try:
        if os.path.samestat(os.fstat(handle), path.stat()):
            return True
    except FileNotFoundError:
        pass
    os.close(handle)
    return False


def _new_name(path: Path) -> str:
    start = os.fsdecode(os.fsencode(path.name)[:_LONGEST])
    return f".{start}.{_machine()}-{secrets.token_hex(4)}.unfinished"


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]
