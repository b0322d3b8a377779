"""What the tests of commands share."""

import contextlib
import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
from tiny_encoder import WORDS

ROOT = Path(__file__).resolve().parents[2]


def write_corpus(path, count):
    letters = np.random.default_rng(3).choice(WORDS[5:], size=(count, 30))
    with open(path, "w") as file:
        for i, row in enumerate(letters):
            record = {"_id": f"d{i}", "title": row[0] if i % 3 else "", "text": " ".join(row[1 : 2 + i % 29])}
            file.write(json.dumps(record) + "\n")
    return path


def flags(tiny, corpus, folder, *more):
    return [str(flag) for flag in ("--corpus", corpus, "--encoder", tiny, "--index", folder, "--threads", 1, *more)]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# A process inherits that SIGINT is ignored, for example from a shell that started the tests in the background.
COMMAND = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("tour_pyserini.index", run_name="__main__", alter_sys=True)
"""


def started(arguments):
    command = [sys.executable, "-c", COMMAND, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@contextlib.contextmanager
def largest_file(size):
    """No file may grow beyond this many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
