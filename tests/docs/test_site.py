"""The docs site builds without a warning, and its pages load nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]*\ssrc="?(https?:)?//|<link[^>]*rel="?stylesheet"?[^>]*href="?(https?:)?//'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings_handlers.python")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 15
    assert [str(page) for page in pages if LOADED.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.slow
def test_the_api_reference_has_every_exported_name(site):
    import tour_pyserini

    text = (site / "api.html").read_text(encoding="utf-8")
    names = (*tour_pyserini.__all__, "SearchRequest", "IndexRequest", "PhraseEncoderRequest", "PhraseRerankerRequest")
    assert [name for name in names if name not in text] == []
    plain = re.sub("<[^>]+>", "", text)
    assert 'device: str = "cpu"' in plain and "option(" not in plain  # defaults, not the calls that make fields
