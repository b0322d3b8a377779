"""Graphs in the cache folder: made once, again when they are damaged, and by one of several processes."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.support import onnx_graphs
from tour_pyserini.support.onnx_graphs import GraphError, cached_graph

pytestmark = pytest.mark.usefixtures("own_cache")


def make(path):
    path.write_bytes(b"a graph")


@pytest.mark.parametrize("damage", [b"", b"a grap", b"a graqh"])
def test_a_graph_is_made_once_and_again_if_it_is_damaged(damage, caplog):
    calls = []

    def counted(path):
        calls.append(make(path))

    for name in ("key", "key", "other"):
        assert cached_graph(name, counted).read_bytes() == b"a graph"
    cached_graph("key", counted).write_bytes(damage)
    assert cached_graph("key", counted).read_bytes() == b"a graph"
    assert len(calls) == 3 and "damaged" in caplog.text


def test_a_failed_graph_leaves_no_file_and_a_memo(own_cache, monkeypatch):
    def fail(path):
        path.write_bytes(b"half")
        raise GraphError("no")

    with pytest.raises(GraphError):
        cached_graph("key", fail)
    assert [path.suffix for path in (own_cache / "graphs").iterdir()] in ([], [".lock"])
    # It is not tried again until a library that takes part is another one.
    with pytest.raises(GraphError, match="no"):
        cached_graph("key", make)
    monkeypatch.setattr(onnx_graphs, "version_of", lambda _: "another")
    assert cached_graph("key", make).read_bytes() == b"a graph"


CODE = """
import sys, time
from pathlib import Path
from tour_pyserini.support.onnx_graphs import cached_graph
def make(path):
    with open(sys.argv[1], "a") as log: log.write("made\\n")
    path.write_bytes(b"a gr"); time.sleep(0.3); path.write_bytes(b"a graph")
assert cached_graph("key", make).read_bytes() == b"a graph"
"""


def test_only_one_of_several_processes_makes_a_graph(tmp_path):
    log = tmp_path / "log"
    start = [sys.executable, "-c", CODE, str(log)]
    processes = [subprocess.Popen(start, cwd=Path(__file__).parents[2]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert log.read_text() == "made\n"


def test_a_full_disk_is_reported_and_no_failed_export():
    def full(path):
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise GraphError("the model cannot be exported to ONNX") from error

    with pytest.raises(TourError, match=r"cannot write .*key\.onnx: No space left") as found:
        cached_graph("key", full)
    assert not isinstance(found.value, GraphError)  # which would have another back end run the model
    cached_graph("key", lambda path: path.write_bytes(b"graph"))
