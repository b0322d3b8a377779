"""How commands end: by signals, and when nobody can read what they write."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tour_pyserini.rerankers.score_cache import SqliteScores

ROOT = Path(__file__).resolve().parents[2]
WAITS = """
import os, sys, time
from tour_pyserini.command import run
from tour_pyserini.support.files import atomic_write

def main(_):
    with atomic_write(sys.argv[1]) as file:
        file.write("half")
        child = 0 if sys.argv[2] == "alone" else os.fork()
        if not child:  # a signal that arrives during the fork itself is lost, so the new process tells when it runs
            print(os.getpid(), flush=True)
        time.sleep(60)

run(main)
"""


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def waiting(output, sent, how="alone", handler=signal.SIG_DFL):
    """A command that has written half of its output, and the process that it has forked, if any."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, str(output), how],
        **{"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT},
        # A shell may have started the tests with some signals ignored, as nohup does.
        preexec_fn=lambda: signal.signal(sent, handler),
    )
    return process, int(process.stdout.readline())


@pytest.mark.parametrize(
    ("sent", "code", "message"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "the terminal was closed")]
)
def test_a_signal_is_one_sentence_and_removes_temporaries(tmp_path, sent, code, message):
    (tmp_path / "out").write_text("before")
    process, _ = waiting(tmp_path / "out", sent)
    process.send_signal(sent)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert stderr == f"{message}; run the same command again to continue from what was kept.\n"
    assert os.listdir(tmp_path) == ["out"] and (tmp_path / "out").read_text() == "before"


@pytest.mark.parametrize(
    ("sent", "how", "handler"), [(signal.SIGHUP, "alone", signal.SIG_IGN), (signal.SIGTERM, "forks", signal.SIG_DFL)]
)
def test_nohup_is_respected_and_a_forked_process_ends_by_the_signal_itself(tmp_path, sent, how, handler):
    process, child = waiting(tmp_path / "out", sent, how, handler)
    os.kill(child, sent)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)  # the command itself goes on
    assert len(os.listdir(tmp_path)) == 1  # and the child has not removed its temporary
    process.terminate()
    assert process.communicate(timeout=60)[1].count("\n") == 1
    assert process.returncode == 143


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(("output", "code", "message"), [(">/dev/full", 2, "No space left on device"), (">&-", 0, "")])
def test_output_that_cannot_be_written_is_one_sentence_and_a_closed_one_no_reason_to_fail(
    tmp_path, output, code, message
):
    SqliteScores(tmp_path / "scores.sqlite").close()
    command = f"exec {sys.executable} -m tour_pyserini.cache stats --cache {tmp_path / 'scores.sqlite'} {output}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert done.returncode == code and message in done.stderr and done.stderr.count("\n") == bool(message)


PANIC = """
from tour_pyserini.command import run
class PanicException(BaseException): "What pyo3 raises."
def main(_): raise PanicException("no entry found")
run(main)
"""


@pytest.mark.parametrize(
    ("raises", "name"),
    [("from tour_pyserini.command import run\nrun(lambda _: [][0])", "IndexError"), (PANIC, "PanicException")],
)
@pytest.mark.parametrize("debug", [[], ["--debug"]])
def test_an_unexpected_error_is_one_sentence_unless_its_traceback_is_asked_for(raises, name, debug):
    command = [sys.executable, "-c", raises, *debug]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 1
    assert ("Traceback" in done.stderr) == bool(debug) and name in done.stderr
    assert debug or done.stderr.count("\n") == 1
