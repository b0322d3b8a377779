"""BM25 from the command line: index --bm25, then search --sparse."""

import json

import pytest
from index_commands import flags, write_corpus

from tour_pyserini import index
from tour_pyserini.data.records import record_path
from tour_pyserini.errors import TourError
from tour_pyserini.search import main
from tour_pyserini.search_request import SearchRequest


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sparse")
    corpus = write_corpus(folder / "corpus.jsonl", 40)
    with open(corpus, "a") as file:
        file.write(json.dumps({"_id": "rare", "title": "", "text": f"{' '.join('hgfedh' * 3)} zyzzyva"}) + "\n")
    (folder / "topics.tsv").write_text("q1\ta b zyzzyvas\nq2\tc d\n")
    index.main(flags(tiny, corpus, folder / "index", "--bm25"))
    index.main(flags(tiny, corpus, folder / "vectors-only"))
    return folder


def searched(folder, *more, name="index"):
    output = folder / "run.trec"
    arguments = ["--topics", folder / "topics.tsv", "--index", folder / name, "--output", output, "--hits", 10, *more]
    main([str(argument) for argument in arguments])
    rows = [line.split() for line in output.read_text().splitlines()]
    return {q_id: [row[2] for row in rows if row[0] == q_id] for q_id in ("q1", "q2")}


def test_dense_becomes_hybrid_search(folder):
    dense = searched(folder, "--method", "dense")
    hybrid = searched(folder, "--method", "dense", "--sparse", folder / "index")
    assert hybrid["q1"][0] == "rare" and dense["q1"][0] != "rare"
    assert hybrid["q2"] == dense["q2"]  # no word of this query counts: its two letters stand alone
    record = json.loads(record_path(folder / "run.trec").read_text())
    assert "tour-bm25.json" in record["files"]["sparse"]["files"]
    assert record["command"][record["command"].index("--sparse") + 1] == str(folder / "index")
    # The BM25 index of another folder, whose vectors are not used.
    assert searched(folder, "--method", "dense", "--sparse", folder / "index", name="vectors-only") == hybrid


def filled_in(folder, *, name="index", **given):
    flags = {"topics": "t.tsv", "index": folder / name, "corpus": folder / "corpus.jsonl", **given}
    return SearchRequest.from_flags({key: str(value) for key, value in flags.items()}).completed().sparse


def test_the_default_uses_the_bm25_index_beside_the_vectors(folder):
    own = str(folder / "index")
    assert filled_in(folder) == filled_in(folder, sparse="index") == (own,)
    assert (
        filled_in(folder, method="dense") == filled_in(folder, method="hard") == filled_in(folder, sparse="none") == ()
    )
    assert filled_in(folder, method="dense", sparse="index") == (own,)
    assert filled_in(folder, name="vectors-only") == ()
    for alone in ({"name": "vectors-only"}, {"method": "dense"}, {"sparse": "none"}):
        with pytest.raises(TourError, match="--signal-weight changes nothing without --sparse"):
            filled_in(folder, **alone, **{"signal-weight": 1})


def test_the_weight_of_the_signal_changes_the_list(folder):
    hybrid = searched(folder, "--method", "dense", "--sparse", folder / "index")
    without = searched(folder, "--method", "dense", "--sparse", folder / "index", "--signal-weight", 0)
    assert without == searched(folder, "--method", "dense") != hybrid


def test_phrases_have_no_bm25(folder, tiny):
    with pytest.raises(TourError, match="--bm25 is not for --phrases"):
        index.main(flags(tiny, folder / "corpus.jsonl", folder / "phrases", "--bm25", "--phrases"))


def test_a_filter_keeps_documents_out_of_every_signal(folder):
    lines = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines):
        line["metadata"] = {"even": number % 2 == 0, "number": number}
    (folder / "fields.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    more = ["--method", "dense", "--sparse", folder / "index", "--corpus", folder / "fields.jsonl", "--filter"]
    found = searched(folder, *more, '{"even": true, "number": {"gt": 9}}')
    assert set(found["q1"]) <= {f"d{i}" for i in range(10, 40, 2)} | {"rare"} and "rare" in found["q1"][:3]
    assert searched(folder, *more, '["d3", "d5"]')["q2"] in (["d3", "d5"], ["d5", "d3"])
    with pytest.raises(TourError, match="eq, in, gt"):
        searched(folder, *more, '{"even": null}')
