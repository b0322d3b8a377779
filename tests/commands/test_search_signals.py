"""Several signals from the command line: --sparse, --index2, --encoder2, and filters of all of them."""

import json

import pytest
from index_commands import flags, write_corpus
from tiny_encoder import save_encoder
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError, index
from tour_pyserini.data.run_records import record_path
from tour_pyserini.search import main, search
from tour_pyserini.search_request import SearchRequest


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """An index with BM25, one without, and another encoder's index of the same corpus and of a shuffled one."""
    folder = tmp_path_factory.mktemp("several")
    corpus = write_corpus(folder / "corpus.jsonl", 40)
    with open(corpus, "a") as file:
        file.write(json.dumps({"_id": "rare", "title": "", "text": f"{' '.join('hgfedh' * 3)} zyzzyva"}) + "\n")
    lines = corpus.read_text().splitlines(keepends=True)
    (folder / "shuffled.jsonl").write_text("".join(lines[::-1]))
    (folder / "topics.tsv").write_text("q1\ta b zyzzyvas\nq2\tc d\n")
    index.main(flags(tiny, corpus, folder / "index", "--bm25"))
    index.main(flags(tiny, corpus, folder / "vectors-only"))
    other = save_encoder(folder / "other", seed=8)
    for name in ("corpus", "shuffled"):
        index.main(flags(other, folder / f"{name}.jsonl", folder / f"second-{name}"))
    return folder


def searched(folder, *more, name="index"):
    fixed = ["--topics", folder / "topics.tsv", "--index", folder / name, "--method", "dense", "--hits", 10]
    main([str(argument) for argument in [*fixed, "--output", folder / "run.trec", *more]])
    return (folder / "run.trec").read_text()


def docids(run, q_id):
    return [row[2] for row in map(str.split, run.splitlines()) if row[0] == q_id]


def test_dense_becomes_hybrid_search(folder):
    dense, hybrid = searched(folder), searched(folder, "--sparse", folder / "index")
    assert docids(hybrid, "q1")[0] == "rare" != docids(dense, "q1")[0]
    assert docids(hybrid, "q2") == docids(dense, "q2")  # no word of this query counts: its two letters stand alone
    # The BM25 index of another folder, whose vectors are not used; and a weight of none.
    assert searched(folder, "--sparse", folder / "index", name="vectors-only") == hybrid
    weightless = searched(folder, "--sparse", folder / "index", "--signal-weight", 0)
    assert docids(weightless, "q1") == docids(dense, "q1")


def test_the_default_uses_the_bm25_index_beside_the_vectors(folder):
    def filled_in(*, name="index", **given):
        flags = {"topics": "t.tsv", "index": folder / name, "corpus": folder / "corpus.jsonl", **given}
        return SearchRequest.from_flags({key: str(value) for key, value in flags.items()}).completed().sparse

    own = (str(folder / "index"),)
    assert filled_in() == filled_in(sparse="index") == filled_in(method="dense", sparse="index") == own
    for alone in ({"name": "vectors-only"}, {"method": "dense"}, {"method": "hard"}, {"sparse": "none"}):
        assert filled_in(**alone) == ()
        with pytest.raises(TourError, match="--signal-weight changes nothing without --sparse"):
            filled_in(**alone, **{"signal-weight": 1})


def test_a_filter_keeps_documents_out_of_every_signal(folder):
    more = ["--sparse", folder / "index", "--corpus", folder / "corpus.jsonl", "--filter"]
    assert sorted(docids(searched(folder, *more, '["d3", "d5", "rare"]'), "q1")) == ["d3", "d5", "rare"]


def test_a_second_encoder_with_its_own_index(folder):
    both = searched(folder, "--index2", folder / "second-corpus", "--encoder2", folder / "other")
    assert both != searched(folder)
    assert searched(folder, "--index2", folder / "second-shuffled", "--encoder2", folder / "other") == both
    assert searched(folder, "--index2", folder / "second-corpus") == both  # the encoder that built it


def test_the_command_in_the_record_makes_the_run_of_several_signals_again(folder):
    second = ["--index2", folder / "second-corpus"]
    several = searched(folder, *second, folder / "index", "--sparse", folder / "index")
    assert several not in (searched(folder, *second), searched(folder, *second, "--index2", folder / "index"))
    assert searched(folder, "--sparse", folder / "index", *second, "--index2", folder / "index") == several
    record = json.loads(record_path(folder / "run.trec").read_text())
    assert {"sparse", "index2", "index2 2"} < set(record["files"])
    assert "tour-bm25.json" in record["files"]["sparse"]["files"]
    (folder / "run.trec").unlink()
    main(record["command"][1:])
    assert (folder / "run.trec").read_text() == several


@pytest.mark.parametrize("sparse", [False, True])
def test_a_run_is_the_same_byte_for_byte(folder, sparse):
    runs, names = set(), {name: folder / file for name, file in {"index": "index", "corpus": "corpus.jsonl"}.items()}
    more = {"sparse": folder / "index" if sparse else (), "no_cache": True, "config": TourConfig(depth=3, budget=8)}
    for batch_size, threads in ((64, 1), (1, 1), (2, 2)):
        ways = {"batch_size": batch_size, "threads": threads, "output": folder / "whole.trec"}
        request = SearchRequest(topics=folder / "topics.tsv", **names, reranker=HashReranker(), **more, **ways)
        costs = search(request).costs
        assert costs.pairs == costs.scored <= 16
        runs.add((folder / "whole.trec").read_bytes())
    assert len(runs) == 1
