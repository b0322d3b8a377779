"""A PostgreSQL server of the tests' own, in a temporary folder and on a free port."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest


def binaries():
    """The folder of `initdb` and `postgres`, or a skip; Debian keeps them out of PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in (Path(shutil.which("initdb") or "/").resolve().parent, *folders):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")


class PostgresServer:
    """A server with one database; `kill` is kill -9 of all its processes."""

    def __init__(self):
        self._binaries = binaries()
        # Not a folder of pytest's: they are closed to other users, and PostgreSQL refuses to run as root.
        self._folder = Path(tempfile.mkdtemp(prefix="tour-postgres-"))
        self._user = {}
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        self._data = self._folder / "data"
        options = ["-A", "trust", "-U", "tour", "-E", "UTF8", "--locale=C", "--no-sync"]
        command = [str(self._binaries / "initdb"), "-D", str(self._data), *options]
        subprocess.run(command, check=True, cwd=self._folder, capture_output=True, **self._user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"postgresql://tour@127.0.0.1:{self._port}/postgres"
        self._process = None
        self.start()

    def start(self):
        """Start it, and wait until it answers."""
        import psycopg

        # Without fsync, a crash of the machine loses data, but kill -9 of the server does not.
        settings = ["fsync=off", f"port={self._port}", "listen_addresses=127.0.0.1", "unix_socket_directories="]
        options = [word for setting in settings for word in ("-c", setting)]
        command = [str(self._binaries / "postgres"), "-D", str(self._data), *options]
        log = self._folder / "log"
        with open(log, "ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, cwd=self._folder, **self._user)
        for _ in range(600):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.address, connect_timeout=1).close()
                return
            assert self._process.poll() is None, log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"PostgreSQL does not answer: {log.read_text()}")

    def kill(self):
        """Kill -9."""
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children")
        others = children.read_text().split() if children.exists() else []
        for process in (main, *map(int, others)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()

    def stop(self):
        """End it, and delete its folder."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(timeout=30)
        shutil.rmtree(self._folder, ignore_errors=True)
