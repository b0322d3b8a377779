"""Workers end with their parent."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tour_pyserini.evaluation.answer_matching import CHUNK


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid):
    """The processes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


def processor_seconds(pid):
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def all_end(pids):
    deadline = time.monotonic() + 10
    while any(map(lives, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(lives, pids))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_workers_of_the_command_answers_end_with_it(tmp_path, how, code):
    """The workers match a pattern that takes five seconds, and the command ends long before that."""
    (tmp_path / "topics.tsv").write_text("who\t" + repr([r"(a+)+\b(?=c)$"]) + "\n")
    passages = [json.dumps({"_id": f"d{number}", "text": "a" * 3000 + "b"}) + "\n" for number in range(2 * CHUNK)]
    (tmp_path / "corpus.jsonl").write_text("".join(passages))
    names = {"topics": "topics.tsv", "corpus": "corpus.jsonl", "output": "out.qrels"}
    flags = [word for name, file in names.items() for word in (f"--{name}", tmp_path / file)]
    command = [sys.executable, "-m", "tour_pyserini.answers", *flags, "--regex", "on", "--processes", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as parent:
        deadline = time.monotonic() + 30
        while max(map(processor_seconds, children(parent.pid)), default=0) < 1.5 and time.monotonic() < deadline:
            time.sleep(0.05)  # until a worker has loaded its libraries and matches
        workers = children(parent.pid)
        assert len(workers) >= 2
        parent.send_signal(how)
        assert parent.wait(timeout=10) == code
        said = parent.stderr.read()
    assert all_end(workers)
    assert "Traceback" not in said
    assert how == signal.SIGKILL or said.count("\n") == 1
    left = ["corpus.jsonl", "topics.tsv"]
    assert how == signal.SIGKILL or sorted(path.name for path in tmp_path.iterdir()) == left
