"""The packaged experiment on the embedded collection, with the default models."""

import gzip
import json
import re
import shlex
from string import Template

import pytest

from tour_pyserini import search
from tour_pyserini.data import demo_collection
from tour_pyserini.experiment import main
from tour_pyserini.index import demo_index


@pytest.mark.slow
def test_the_demo_has_its_expected_scores(tmp_path, monkeypatch, capsys):
    (tmp_path / "indexes").mkdir()
    (tmp_path / "indexes" / "demo.minilm.flat").symlink_to(demo_index())  # built on first use and kept
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    flags = ["--runs", str(tmp_path / "runs"), "--indexes", str(tmp_path / "indexes")]
    chosen = ["--index", "flat", "--condition", "dense", "rerank-5", "rocchio", "default"]
    assert main(["demo", *flags, *chosen]) == 0
    # The default re-ranker computes in 8 bits, and processors round differently; the other scores are exact.
    last = capsys.readouterr().out.splitlines()[-1]
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (ok|okish|FAIL|new)\b", last)}
    assert (counts["FAIL"], counts["new"], counts["ok"] + counts["okish"]) == (0, 0, 12)
    assert counts["ok"] >= 6

    # The command in the record of the default makes the same run.
    runs = tmp_path / "runs" / "demo"
    record = json.loads((runs / "demo.minilm.flat.default.trec.gz.json").read_text())
    folders = {"DEMO": demo_collection.CORPUS.parent, "INDEXES": tmp_path / "indexes", "RUNS": runs}
    search.main(shlex.split(Template(record["command"]).substitute(folders))[3:])
    packed = gzip.decompress((runs / "demo.minilm.flat.default.trec.gz").read_bytes())
    assert packed == (runs / "demo.minilm.flat.default.trec").read_bytes()
