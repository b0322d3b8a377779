"""Real models on real collections, through the commands."""

import itertools
import json
import subprocess
import sys

import pytest

from tour_pyserini.data import demo_collection
from tour_pyserini.evaluation.measures import compare
from tour_pyserini.index import demo_index
from tour_pyserini.index import main as index
from tour_pyserini.search import main as search

pytestmark = pytest.mark.long


def scifact(shared, folder, *, every):
    """SciFact with the default encoder: its folder, and a folder with its test topics and an index.

    The index has the judged documents and every so many of the others.
    """
    collection = shared / "collections" / "scifact"
    relevant = {line.split("\t")[1] for line in (collection / "qrels/test.tsv").read_text().splitlines()[1:]}
    lines = (collection / "corpus.jsonl").read_text().splitlines(keepends=True)
    kept = [line for i, line in enumerate(lines) if i % every == 0 or json.loads(line)["_id"] in relevant]
    (folder / "corpus.jsonl").write_text("".join(kept))
    index(["--corpus", str(folder / "corpus.jsonl"), "--encoder", "default", "--index", str(folder / "index")])
    judged = {line.split("\t")[0] for line in (collection / "qrels/test.tsv").read_text().splitlines()[1:]}
    queries = map(json.loads, (collection / "queries.jsonl").read_text().splitlines())
    topics = "".join(f"{query['_id']}\t{query['text']}\n" for query in queries if query["_id"] in judged)
    (folder / "topics.tsv").write_text(topics)
    return collection, folder


def test_scifact_dense_is_the_published_figure(shared, tmp_path):
    collection, folder = scifact(shared, tmp_path, every=1)
    run = tmp_path / "run.trec"
    search([*flags(folder), "--method", "dense", "--output", str(run)])
    row = compare(collection / "qrels/test.tsv", [run], ["nDCG@10"])[0]
    assert row.means["nDCG@10"] == pytest.approx(0.645, abs=0.001)


def test_a_dense_run_is_pyserinis_own_run(shared, tmp_path):
    from tour_pyserini.encoders.model_folder import verify_default_encoder

    _, folder = scifact(shared, tmp_path, every=20)
    ours, theirs = tmp_path / "ours.trec", tmp_path / "theirs.trec"
    search([*flags(folder), "--method", "dense", "--encoder-backend", "torch", "--tag", "Faiss", "--output", str(ours)])
    code = (
        "import runpy, sys; from tour_pyserini.support.pyserini import ensure_java; ensure_java();"
        "sys.argv[0] = 'faiss'; runpy.run_module('pyserini.search.faiss', run_name='__main__')"
    )
    encoder = ["--encoder", str(verify_default_encoder()), "--encoder-class", "auto", "--pooling", "mean", "--l2-norm"]
    subprocess.run([sys.executable, "-c", code, *flags(folder), *encoder, "--output", str(theirs)], check=True)
    _assert_same_run(ours, theirs)


def flags(folder):
    return ["--topics", str(folder / "topics.tsv"), "--index", str(folder / "index"), "--hits", "100"]


def _assert_same_run(ours, theirs):
    """Line by line the same, but that equal scores in theirs are told apart in the last decimals of ours."""
    mine, other = ([line.split() for line in path.read_text().splitlines()] for path in (ours, theirs))
    assert [row[:4] + row[5:] for row in mine] == [row[:4] + row[5:] for row in other]
    for (_, before), (row, expected) in itertools.pairwise(zip(mine, other, strict=True)):
        tied = before[0] == expected[0] and before[4] == expected[4]
        assert row[4] == expected[4] or tied or abs(float(row[4]) - float(expected[4])) < 5e-6


def test_demo_questions_gain_from_tour(tmp_path, monkeypatch):
    """Sixteen questions of the embedded collection, with the default models."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    topics = tmp_path / "topics.jsonl"
    topics.write_text("".join(demo_collection.QUERIES.read_text().splitlines(keepends=True)[:16]))
    runs = {}
    for method in ("dense", "rerank", "hard", "soft"):
        runs[method] = tmp_path / f"{method}.trec"
        flags = ["--topics", topics, "--index", demo_index(), "--corpus", demo_collection.CORPUS, "--hits", "20"]
        search([*map(str, flags), "--method", method, "--output", str(runs[method])])
    qrels = tmp_path / "qrels.tsv"
    lines = demo_collection.QRELS.read_text().splitlines(keepends=True)
    kept = {json.loads(line)["_id"] for line in topics.read_text().splitlines()}
    qrels.write_text("".join(line for line in lines if line.split("\t")[0] in kept | {"query-id"}))
    rows = compare(qrels, list(runs.values()), ["nDCG@10"])
    means = dict(zip(runs, (row.means["nDCG@10"] for row in rows), strict=True))
    assert means["hard"] > means["dense"] + 0.02
    assert means["soft"] > means["dense"] + 0.02
    before = runs["hard"].read_bytes()
    flags = ["--topics", topics, "--index", demo_index(), "--corpus", demo_collection.CORPUS, "--hits", "20"]
    search([*map(str, flags), "--method", "hard", "--no-cache", "--output", str(runs["hard"])])
    assert runs["hard"].read_bytes() == before
