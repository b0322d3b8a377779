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


def processes_of(group):
    """The processor seconds of each process of a group that lives."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            if int(words[2]) == group and words[0] != "Z":
                found[int(path.parent.name)] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return found


def wait_until(reached):
    deadline = time.monotonic() + 30
    while not reached() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert reached()


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
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as parent:

        def workers():
            return {pid: seconds for pid, seconds in processes_of(parent.pid).items() if pid != parent.pid}

        # A worker has loaded its libraries and matches.
        wait_until(lambda: len(workers()) >= 2 and max(workers().values()) >= 1.5)
        parent.send_signal(how)
        assert parent.wait(timeout=10) == code
        said = parent.stderr.read()
        wait_until(lambda: not workers())
    assert "Traceback" not in said
    assert how == signal.SIGKILL or said.count("\n") == 1
    left = ["corpus.jsonl", "topics.tsv"]
    assert how == signal.SIGKILL or sorted(path.name for path in tmp_path.iterdir()) == left
