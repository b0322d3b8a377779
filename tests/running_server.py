"""Start `python -m tour_pyserini.serve` as a process of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx


class RunningServer:
    """The service at `url`; `client` asks it."""

    def __init__(self, *words, cache, descriptors=None, **environment):
        command = [sys.executable, "-m", "tour_pyserini.serve", "--port", "0", *map(str, words)]
        limit = ["bash", "-c", f'ulimit -n {descriptors} && exec "$@"', "bash"] if descriptors else []
        self.process = subprocess.Popen(
            [*limit, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TOUR_PYSERINI_CACHE": str(cache), "OMP_NUM_THREADS": "1", **environment},
            cwd=Path(__file__).resolve().parents[1],
        )
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(self.process.stderr.read())
        self._errors = []
        self._reader = threading.Thread(target=lambda: self._errors.append(self.process.stderr.read()), daemon=True)
        self._reader.start()
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def search(self, query, **body):
        return self.client.post("/search", json={"query": query, **body})

    def metric(self, name):
        """The sum of the figures of that name."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split()[0] == name)

    def stop(self, number=signal.SIGTERM):
        """End it by a signal; its exit code, and what it wrote to stderr."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self._reader.join()
        return code, self._errors[0]

    def close(self):
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()


@contextlib.contextmanager
def running_server(*words, cache, **environment):
    server = RunningServer(*words, cache=cache, **environment)
    try:
        yield server
    finally:
        server.close()
