"""A PostgreSQL server of the tests' own, in a temporary folder and on a free port."""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest


def binaries():
    """The folder of `initdb` and `postgres`, or a skip; Debian keeps them out of PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")


class PostgresServer:
    """A server with one database; `kill` is kill -9 of all its processes."""

    def __init__(self, folder):
        self._binaries, self._folder = binaries(), Path(folder)
        self._user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._user:  # PostgreSQL refuses to run as root
            try:
                shutil.chown(self._folder, "postgres", "postgres")
            except LookupError:
                pytest.skip("there is no user postgres, and PostgreSQL refuses to run as root")
            for parent in self._folder.parents:
                if not parent.stat().st_mode & 0o001 and parent.owner() == "root":
                    parent.chmod(parent.stat().st_mode | 0o011)  # pytest's folders are closed to other users
        self._data = self._folder / "data"
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "tour", "-E", "UTF8", "--locale=C", "--no-sync")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"postgresql://tour@127.0.0.1:{self.port}/postgres"
        self.process = None
        self.start()

    def start(self):
        """Start it, and wait until it answers."""
        import psycopg

        options = ["-p", str(self.port), "-k", str(self._folder), "-c", "listen_addresses=127.0.0.1"]
        command = [str(self._binaries / "postgres"), "-D", str(self._data), *options]
        with open(self._folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, start_new_session=True, **self._user
            )
        for _ in range(300):
            try:
                psycopg.connect(self.address, connect_timeout=1).close()
                return
            except psycopg.OperationalError:
                assert self.process.poll() is None, (self._folder / "log").read_text()
                time.sleep(0.05)
        raise AssertionError("PostgreSQL does not answer")

    def kill(self):
        """Kill -9."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """End it."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(timeout=30)

    def _run(self, program, *arguments):
        subprocess.run(
            [str(self._binaries / program), *arguments], check=True, cwd=self._folder, capture_output=True, **self._user
        )
