"""The default encoder on SciFact, through the commands."""

import itertools
import json
import subprocess
import sys

import pytest

from tour_pyserini.encoders.sentence_model import DEFAULT_ENCODER
from tour_pyserini.evaluation.measures import compare
from tour_pyserini.index import main as index
from tour_pyserini.search import main as search

FAISS = (
    "import runpy, sys; from tour_pyserini.support.pyserini import ensure_java; ensure_java();"
    "sys.argv[0] = 'faiss'; runpy.run_module('pyserini.search.faiss', run_name='__main__')"
)


@pytest.mark.long
def test_a_dense_run_is_pyserinis_own_and_has_the_published_figure(shared, tmp_path):
    collection, folder = shared / "collections" / "scifact", tmp_path
    index(["--corpus", str(collection), "--encoder", "default", "--index", str(folder / "index")])
    judged = {line.split("\t")[0] for line in (collection / "qrels/test.tsv").read_text().splitlines()[1:]}
    queries = map(json.loads, (collection / "queries.jsonl").read_text().splitlines())
    topics = "".join(f"{query['_id']}\t{query['text']}\n" for query in queries if query["_id"] in judged)
    (folder / "topics.tsv").write_text(topics)
    ours, theirs = folder / "ours.trec", folder / "theirs.trec"
    flags = ["--topics", str(folder / "topics.tsv"), "--index", str(folder / "index"), "--hits", "100"]
    search([*flags, "--method", "dense", "--encoder-backend", "torch", "--tag", "Faiss", "--output", str(ours)])
    encoder = ["--encoder", str(DEFAULT_ENCODER.verify()), "--encoder-class", "auto", "--pooling", "mean", "--l2-norm"]
    subprocess.run([sys.executable, "-c", FAISS, *flags, *encoder, "--output", str(theirs)], check=True)
    # Line by line the same, but that equal scores in theirs are told apart in the last decimals of ours.
    mine, other = ([line.split() for line in path.read_text().splitlines()] for path in (ours, theirs))
    assert [row[:4] + row[5:] for row in mine] == [row[:4] + row[5:] for row in other]
    for (_, before), (row, expected) in itertools.pairwise(zip(mine, other, strict=True)):
        tied = before[0] == expected[0] and before[4] == expected[4]
        assert row[4] == expected[4] or tied or abs(float(row[4]) - float(expected[4])) < 5e-6
    means = compare(collection / "qrels/test.tsv", [ours], ["nDCG@10"])[0].means
    assert means["nDCG@10"] == pytest.approx(0.645, abs=0.001)
