"""The source archive and the wheel: built without a network, complete, and working where nothing else is.

The wheel is built from the unpacked source archive, so that it shows that the archive is complete.
"""

import configparser
import email
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_COPIED = (".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__", "build", "dist", "indexes")
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg")
VERSION = CONFIG.get("metadata", "version")


def build(kind, source, output):
    done = subprocess.run([sys.executable, "-c", BUILD, kind, str(output)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The unpacked source archive."""
    folder = tmp_path_factory.mktemp("sdist")
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*NOT_COPIED, "*.egg-info"))
    build("build_sdist", folder / "source", folder)
    (path,) = folder.glob("*.tar.gz")
    assert path.stat().st_size < 3_000_000
    with tarfile.open(path) as file:
        # Python 3.11.0 to 3.11.3 have no filters.
        file.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder / f"tour_pyserini-{VERSION}"


@pytest.fixture(scope="module")
def wheel(archive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build("build_wheel", archive, folder)
    (path,) = folder.glob("*.whl")
    return path


def files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def sources(*folders):
    """The files of folders of the project, without what running it left there."""
    found = {path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()}
    return {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts}


def test_source_archive_has_all_that_a_developer_needs_and_no_runs(archive):
    names = "CHANGELOG.md CONTRIBUTING.md LICENSE MANIFEST.in Makefile README.md constraints.txt pyproject.toml"
    expected = {*names.split(), *("qrels/README.md", "runs/README.md", "setup.cfg", "setup.py")}
    found = files(archive)
    assert (expected | sources("tour_pyserini", "tests", "docs", "benchmarks")) - found == set()
    assert {path for path in found if path.startswith(("runs/", "qrels/"))} == {"runs/README.md", "qrels/README.md"}
    assert not [path for path in found if path.endswith((".pyc", ".xz", ".trec"))]


def test_wheel_has_the_package_and_nothing_else_and_says_what_it_is(wheel):
    with zipfile.ZipFile(wheel) as file:
        assert {name for name in file.namelist() if ".dist-info/" not in name} == sources("tour_pyserini")
        names = {Path(name).name: name for name in file.namelist() if ".dist-info/" in name}
        metadata = email.message_from_bytes(file.read(names["METADATA"]))
        assert "tour = tour_pyserini.__main__:tour" in file.read(names["entry_points.txt"]).decode()
    assert (metadata["Name"], metadata["Version"]) == ("tour_pyserini", VERSION)
    assert "Programming Language :: Python :: 3.13" in metadata.get_all("Classifier")
    assert "completion" in metadata.get_all("Provides-Extra")
    text = metadata.get_payload()
    assert text.startswith("# tour_pyserini") and "](docs/" not in text and "docs/method.md" in text


def test_an_installed_wheel_runs_in_an_empty_folder(wheel, tmp_path):
    folder, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder), str(wheel)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(folder)}

    def run(*command):
        done = subprocess.run([*map(str, command)], cwd=empty, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(sys.executable, "-m", "tour_pyserini.search", "--version") == f"tour_pyserini {VERSION}\n"
    assert run(sys.executable, folder / "bin" / "tour", "--version") == f"tour_pyserini {VERSION}\n"
    used = run(sys.executable, "-c", "import tour_pyserini; print(tour_pyserini.__file__)")
    assert Path(used.strip()).is_relative_to(folder)
    assert list(empty.iterdir()) == []
