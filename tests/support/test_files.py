"""Files that appear whole or not at all, their checksums, and memos of slow work."""

import errno
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.support import files
from tour_pyserini.support.files import atomic_folder, atomic_replace, atomic_write, check_output, sha256


def test_a_file_is_written_only_if_the_block_succeeds(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with atomic_write(path) as file:
        file.write("one")
        assert not path.exists()
    assert path.read_text() == "one"
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write("two")
        raise RuntimeError
    assert path.read_text() == "one"
    assert os.listdir(path.parent) == ["a.txt"]
    check_output(tmp_path / "other" / "b.txt")
    (path.parent / "link").symlink_to("a.txt")
    with atomic_write(path.parent / "link") as file:
        file.write("three")
    assert (path.parent / "link").is_symlink() and path.read_text() == "three"
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize("name", ["folder", "pipe", "file/x", "x" * 300])
def test_a_path_that_cannot_be_written_is_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    for attempt in (check_output, lambda path: atomic_replace(path).__enter__()):
        with pytest.raises(TourError, match="cannot write"):
            attempt(tmp_path / name)


def test_a_file_keeps_its_mode_and_a_new_file_obeys_the_umask(tmp_path):
    def mode_of(path):
        return stat.S_IMODE(path.stat().st_mode)

    before = os.umask(0o027)
    try:
        for name, mode in (("new", 0o640), ("secret", 0o600), ("shared", 0o664), ("fixed", 0o444)):
            if name != "new":
                (tmp_path / name).write_text("old")
                (tmp_path / name).chmod(mode)
            with atomic_write(tmp_path / name) as file:
                file.write("new")
            assert (tmp_path / name).read_text() == "new"
            assert mode_of(tmp_path / name) == mode, name
        with atomic_folder(tmp_path / "index", overwrite=False) as folder:
            (folder / "docid").touch()
            (folder / "index").touch()
        assert mode_of(tmp_path / "index") == 0o750
        (tmp_path / "index").chmod(0o700)
        with atomic_folder(tmp_path / "index", overwrite=True) as folder:
            (folder / "docid").touch()
        assert mode_of(tmp_path / "index") == 0o700
        assert os.listdir(tmp_path / "index") == ["docid"]
    finally:
        os.umask(before)


@pytest.fixture
def largest_file():
    """Files of this process have at most 1,000 bytes during the test, as on a disk that is almost full."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


def write_text(path):
    with atomic_write(path) as file:
        file.write("x" * 5000)


def write_weights(path):
    """A library that has errors of its own, and quotes the system's reason."""
    import torch
    from safetensors.torch import save_file

    with atomic_replace(path) as partial:
        save_file({"a": torch.zeros(1000)}, partial)


def write_folder(path):
    path.unlink()
    with atomic_folder(path, overwrite=False) as folder:
        (folder / "docid").write_text("x" * 5000)


def write_trace_inside_a_run(path):
    """The message names the trace, which failed, and not the run."""
    with atomic_replace(path.with_name("run")), atomic_write(path) as trace:
        trace.write("x" * 20_000)


@pytest.mark.parametrize("write", [write_text, write_weights, write_folder, write_trace_inside_a_run])
def test_a_full_disk_is_one_sentence_and_the_earlier_file_stays(tmp_path, largest_file, write):
    path = tmp_path / "out"
    path.write_text("before")
    with pytest.raises(TourError) as caught:
        write(path)
    assert f"cannot write {path}: {os.strerror(errno.EFBIG)}" in str(caught.value)
    assert os.listdir(tmp_path) == ([] if write is write_folder else ["out"])
    assert write is write_folder or path.read_text() == "before"


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from tour_pyserini.support.files import atomic_folder, atomic_write

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

folder, moment = Path(sys.argv[1]), sys.argv[2]
if moment == "placed":
    shutil.rmtree = die
with atomic_write(folder / "run.trec") as file:
    with atomic_folder(folder / "index", overwrite=True) as index:
        for name in ("docid", "index"):
            (index / name).write_text("half")
        file.write("half")
        file.flush()
        print("ready", flush=True)
        if moment == "writing":
            die()
        sys.stdin.read()
"""


@pytest.mark.parametrize(("moment", "placed"), [("writing", set()), ("placed", {"index"})])
def test_temporaries_of_killed_processes_are_removed(tmp_path, moment, placed):
    command = [sys.executable, "-c", KILLED, tmp_path]
    dead = subprocess.run([*command, moment], capture_output=True, stdin=subprocess.DEVNULL)
    assert dead.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".*.unfinished"))) == 2
    assert {path.name for path in tmp_path.iterdir() if not path.name.endswith(".unfinished")} == placed
    alive = subprocess.Popen([*command, "lives"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert alive.stdout.readline() == b"ready\n"
    assert len(list(tmp_path.glob(".*.unfinished"))) == 2  # its own
    with atomic_write(tmp_path / "other"):
        pass
    assert len(list(tmp_path.glob(".*.unfinished"))) == 2  # those of a live process stay
    alive.communicate()
    assert alive.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"other", "run.trec", "index"}
    assert (tmp_path / "run.trec").read_text() == (tmp_path / "index" / "docid").read_text() == "half"


def test_a_memo_is_read_for_the_same_state_only(own_cache):
    read_memo, write_memo = files.read_memo, files.write_memo
    write_memo("kind", "name", [1, "a"], "value")
    assert read_memo("kind", "name", [1, "a"]) == "value"
    for other in (("kind", "name", [2, "a"]), ("kind", "other", [1, "a"]), ("other", "name", [1, "a"])):
        assert read_memo(*other) is None
    write_memo("kind", "name", [2, "a"], "new")
    assert read_memo("kind", "name", [2, "a"]) == "new"
    (file,) = (own_cache / "memos").iterdir()
    for damaged in ("", "{", "[]", '{"state": [2, "a"]}', "\x00"):
        file.write_text(damaged)
        assert read_memo("kind", "name", [2, "a"]) is None
    shutil.rmtree(own_cache)
    own_cache.touch()  # it cannot be written, which does no harm
    write_memo("kind", "name", [], "value")
    assert read_memo("kind", "name", []) is None


def test_the_hash_of_a_file_is_kept_until_it_changes(tmp_path, own_cache, monkeypatch):
    path, read = tmp_path / "model", []
    monkeypatch.setattr(files, "sha256", lambda path: read.append(path) or sha256(path))
    monkeypatch.setattr(files, "_SMALL", 4)

    def hash_in_a_new_process():
        files._hash.cache_clear()
        before = len(read)
        assert files.content_hash(path) == sha256(path)
        return len(read) - before

    path.write_text("weights")
    assert [hash_in_a_new_process() for _ in range(2)] == [1, 1]  # just changed: the next change may have the same time
    monkeypatch.setattr(files, "_RECENT", -(10**18))
    assert [hash_in_a_new_process() for _ in range(3)] == [1, 0, 0]
    times = path.stat().st_mtime_ns
    path.write_text("WEIGHTS")
    os.utime(path, ns=(times, times))  # the same size and time of change; the time of the inode differs
    assert hash_in_a_new_process() == 1
    assert files.content_hash(path, read_again=True) == sha256(path) and len(read) == 5


def test_what_is_not_a_file_is_written_directly():
    code = (
        "from tour_pyserini.support.files import *; check_output('/dev/stdout')\n"
        "with atomic_write('/dev/stdout') as file: file.write('a run')"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout == b"a run"
