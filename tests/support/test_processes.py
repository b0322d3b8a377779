"""Workers end with their parent."""

import signal
import subprocess
import sys
import time

import pytest

PARENT = """
import os, sys, time
from multiprocessing import get_context
from tour_pyserini.support.processes import end_with_parent

def work(number):
    end_with_parent()
    print(os.getpid(), flush=True)
    time.sleep(60)

if __name__ == "__main__":
    workers = [get_context("spawn").Process(target=work, args=(n,)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
"""


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, how):
    (tmp_path / "parent.py").write_text(PARENT)
    with subprocess.Popen([sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(parent.stdout.readline()) for _ in range(2)]
        assert all(map(lives, workers))
        parent.send_signal(how)
        parent.wait(timeout=10)
    deadline = time.monotonic() + 10
    while any(map(lives, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(lives, workers))
