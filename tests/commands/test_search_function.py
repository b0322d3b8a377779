"""`search` from Python: a request gives a run with its record, and an opener opens each thing once."""

import itertools
import json
import os
from dataclasses import replace
from pathlib import Path

import ir_measures
import pytest
from index_commands import largest_file
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError, TourSearcher
from tour_pyserini.core.method import METHODS
from tour_pyserini.data.run_records import record_path
from tour_pyserini.search import search, search_request
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.support.files import sha256


@pytest.fixture
def request_(saved, tmp_path):
    return SearchRequest(
        **saved[1], reranker=HashReranker(), no_cache=True, hits=20, output=tmp_path / "runs" / "run.trec"
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_search_writes_what_the_searcher_finds_in_an_order_that_every_evaluator_sees(saved, request_, method):
    collection, config = saved[0], TourConfig(method)
    summary = search(replace(request_, config=config))
    searcher = TourSearcher(collection.searcher(), HashReranker(), collection.texts, config)
    expected = searcher.batch_search(collection.queries, collection.q_ids, k=20)
    rows = [line.split() for line in summary.output.read_text().splitlines()]
    found = [(q_id, "Q0", hit.docid, str(rank)) for q_id, hits in expected.items() for rank, hit in enumerate(hits, 1)]
    assert [tuple(row[:4]) for row in rows] == found and {row[5] for row in rows} == {f"Tour-{method}"}
    run = list(ir_measures.read_trec_run(str(summary.output)))
    for q_id, hits in expected.items():
        scores = [hit.score for hit in run if hit.query_id == q_id]
        assert all(a > b for a, b in itertools.pairwise(scores)) and len(scores) == len(hits)
    assert summary.config == config
    assert (summary.costs.queries, summary.costs.pairs) == (7, searcher.costs.pairs)


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("run.trec", {}),
        ("run.trec.json", {"hits": 1}),
        ("trace.jsonl", {"hits": 1, "trace": "trace.jsonl"}),
        ("embedding.pkl", {"hits": 1, "output_queries": "queries"}),
    ],
)
def test_a_full_disk_leaves_no_run_without_its_record(request_, monkeypatch, tmp_path, name, changes, earlier):
    monkeypatch.chdir(tmp_path)
    request_ = replace(request_, config=TourConfig("rocchio"), output="run.trec", **changes)
    search(request_)
    (written,) = tmp_path.glob(f"**/{name}" if name != "embedding.pkl" else "queries/embedding.pkl")
    size, outputs = written.stat().st_size, [Path("run.trec"), Path("run.trec.json")]
    before = [path.read_bytes() for path in outputs]
    if not earlier:
        for path in outputs:
            path.unlink()
    with largest_file(size - 1), pytest.raises(TourError, match=f"cannot write .*{name}"):
        search(replace(request_, tag="Tour-another"))
    assert [path.read_bytes() for path in outputs if path.exists()] == (before if earlier else [])


def test_a_run_may_be_written_to_standard_output_or_have_a_name_that_is_not_utf_8(request_, tmp_path, capfd):
    search(replace(request_, output="/dev/stdout"))
    output = tmp_path / os.fsdecode(b"run\xff.trec")
    search(replace(request_, output=output))
    assert capfd.readouterr().out == output.read_text() and json.loads(record_path(output).read_text())


def test_the_record_describes_the_search(request_):
    request_ = replace(request_, config=TourConfig("soft", depth=4, tau=1.5), tag="mine")
    summary = search(request_)
    record = json.loads(record_path(summary.output).read_text())
    assert TourConfig.parse(record["config"]) == request_.config
    assert record["run"]["sha256"] == sha256(summary.output)
    assert record["files"]["corpus"]["sha256"] == sha256(request_.corpus) and record["versions"]["pyserini"]
    # The command of the record is the same search, but for the re-ranker, which is an object here.
    command, *flags = record["command"]
    assert command == "search"
    recorded = search_request(flags)
    assert replace(recorded, reranker=None) == replace(request_, reranker=None)
    assert all(line.endswith(" mine") for line in summary.output.read_text().splitlines())
