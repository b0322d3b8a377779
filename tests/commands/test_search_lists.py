"""Searching an inverted file that `index --factory` built, with exact vectors beside it."""

import gzip

import pytest
from index_commands import flags, write_corpus

from tour_pyserini import index, search


@pytest.fixture
def built(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    corpus = write_corpus(tmp_path / "corpus.jsonl", 120)
    (tmp_path / "q.tsv").write_text("1\ta b c\n2\td e f\n3\tg h\n")
    index.main(flags(tiny, corpus, "flat"))
    index.main(flags(tiny, corpus, "lists", "--vectors", "flat", "--factory", "IVF8,Flat", "--nprobe", 1))
    return tmp_path


def run(name, *more):
    words = ("--topics", "q.tsv", "--method", "dense", "--no-cache", "--hits", 20, "--tag", "t", "--output", name)
    search.main([str(word) for word in (*words, *more)])
    with open(name) as file:
        return file.read()


def test_all_lists_find_what_the_flat_index_finds(built):
    exact = run("exact.trec", "--index", "flat")
    docids = [line.split()[:4] for line in exact.splitlines()]
    every = run("every.trec", "--index", "lists", "--nprobe", 8)
    assert [line.split()[:4] for line in every.splitlines()] == docids
    assert [line.split()[:4] for line in run("one.trec", "--index", "lists").splitlines()] != docids


def test_vectors_beside_a_compressed_index_and_a_compressed_corpus(tiny, built):
    (built / "copy.jsonl.gz").write_bytes(gzip.compress((built / "corpus.jsonl").read_bytes()))
    index.main(flags(tiny, "copy.jsonl.gz", "small", "--vectors", "flat", "--factory", "IVF4,SQ8"))
    more = ("--index", "small", "--vectors", "flat", "--method", "average", "--depth", 3)
    assert run("plain.trec", *more, "--corpus", "corpus.jsonl") == run("gz.trec", *more, "--corpus", "copy.jsonl.gz")
