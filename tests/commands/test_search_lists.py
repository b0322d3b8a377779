"""Searching an inverted file that `index --factory` built, and a compressed one with exact vectors beside it."""

import gzip

from index_commands import flags, write_corpus

from tour_pyserini import index, search


def run(name, *more):
    words = ("--topics", "q.tsv", "--no-cache", "--hits", 20, "--tag", "t", "--output", name, *more)
    search.main([str(word) for word in words])
    with open(name) as file:
        return file.read()


def test_what_lists_and_compressed_vectors_find(tiny, tmp_path, cache_folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = write_corpus(tmp_path / "corpus.jsonl", 120)
    (tmp_path / "copy.jsonl.gz").write_bytes(gzip.compress(corpus.read_bytes()))
    (tmp_path / "q.tsv").write_text("1\ta b c\n2\td e f\n3\tg h\n")
    index.main(flags(tiny, corpus, "flat"))
    index.main(flags(tiny, corpus, "lists", "--vectors", "flat", "--factory", "IVF8,Flat", "--nprobe", 1))
    index.main(flags(tiny, "copy.jsonl.gz", "small", "--vectors", "flat", "--factory", "IVF4,SQ8"))
    searches = [("flat",), ("lists", "--nprobe", 8), ("lists",)]
    runs = [run("a.trec", "--method", "dense", "--index", *each).splitlines() for each in searches]
    exact, every, one = ([line.split()[:4] for line in lines] for lines in runs)
    assert exact == every != one
    more = ("--index", "small", "--vectors", "flat", "--method", "average", "--depth", 3)
    assert run("plain", *more, "--corpus", "corpus.jsonl") == run("gz", *more, "--corpus", "copy.jsonl.gz")
