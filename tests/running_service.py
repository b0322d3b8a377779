"""Start the re-ranking service of the tests as a process of its own."""

import contextlib
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

SCRIPT = Path(__file__).with_name("reranker_service.py")


class RunningService:
    """The service at `url`; `url("nan/tei")` is the address of a dialect of it, with a fault."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *map(str, words)], stdout=subprocess.PIPE, text=True
        )
        self.port = int(self.process.stdout.readline())

    def url(self, path):
        return f"http://127.0.0.1:{self.port}/{path}"

    def get(self, path):
        with urllib.request.urlopen(self.url(path)) as answer:
            return json.load(answer)

    def counts(self):
        """Number of requests by path, without those of pages."""
        return {path: count for path, count in self.get("counts")["requests"].items() if path != "/counts"}

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextlib.contextmanager
def running_service(*words):
    service = RunningService(*words)
    try:
        yield service
    finally:
        service.kill()
