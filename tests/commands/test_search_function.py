"""`search` from Python: a request gives a run with its record, and an opener opens each thing once."""

import contextlib
import json
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError, TourSearcher, opening
from tour_pyserini.data.records import record_path
from tour_pyserini.encoders import query_vectors
from tour_pyserini.opening import Opener
from tour_pyserini.search import search, search_request
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.support.files import sha256


@pytest.fixture
def request_(saved, tmp_path):
    return SearchRequest(
        **saved[1], reranker=HashReranker(), no_cache=True, hits=20, output=tmp_path / "runs" / "run.trec"
    )


def docids_of(path):
    """The documents of each topic, best first, with ranks and scores checked."""
    lists, scores = {}, {}
    for line in path.read_text().splitlines():
        q_id, _, docid, rank, score, _tag = line.split()
        lists.setdefault(q_id, []).append(docid)
        assert int(rank) == len(lists[q_id])
        assert float(score) < scores.get(q_id, float("inf"))
        scores[q_id] = float(score)
    return lists


@pytest.mark.parametrize("method", ["tour", "hard", "rerank", "rocchio", "dense"])
def test_a_search_writes_what_the_searcher_finds(saved, request_, method):
    collection, _ = saved
    config = TourConfig(method)
    summary = search(replace(request_, config=config))
    searcher = TourSearcher(collection.searcher(), HashReranker(), collection.texts, config)
    expected = searcher.batch_search(collection.queries, collection.q_ids, k=20)
    lists = docids_of(summary.output)
    assert lists == {q_id: [hit.docid for hit in hits] for q_id, hits in expected.items()}
    assert summary.config == config
    assert (summary.costs.queries, summary.costs.pairs) == (7, searcher.costs.pairs)


@contextlib.contextmanager
def largest_file(size):
    """No file may grow beyond this many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


def test_a_run_is_written_to_standard_output_without_a_record(request_, capfd):
    search(replace(request_, output="/dev/stdout"))
    assert capfd.readouterr().out.startswith("q0 Q0 d")


def test_an_output_whose_name_is_not_utf_8_has_a_record_too(request_, tmp_path):
    output = tmp_path / os.fsdecode(b"run\xff.trec")
    search(replace(request_, output=output))
    assert output.read_text().startswith("q0 Q0 d") and json.loads(record_path(output).read_text())


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


def test_an_opener_opens_each_thing_once(request_, monkeypatch):
    opened = []
    for module, name in ((query_vectors, "load_encoded_queries"), (opening, "open_texts")):
        original = getattr(module, name)

        def counted(*args, name=name, original=original, **options):
            opened.append(name)
            return original(*args, **options)

        monkeypatch.setattr(module, name, counted)
    opener = Opener()
    runs = []
    for method in ("hard", "rerank", "hard"):
        runs.append(search(replace(request_, config=TourConfig(method)), opener=opener).output.read_text())
    assert sorted(opened) == ["load_encoded_queries", "open_texts"]
    assert runs[0] == runs[2] != runs[1]
    search(request_)
    assert len(opened) == 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"corpus": None}, "--corpus is missing: the method tour reads the passages it labels"),
        ({"max_words": 3}, "--max-words cannot be used: .* is not a phrase index"),
        ({"vectors": "encode", "corpus": None, "config": TourConfig("rocchio")}, "--corpus is missing: --vectors"),
    ],
)
def test_a_search_that_cannot_work_is_refused_and_writes_nothing(request_, values, message):
    with pytest.raises(TourError, match=message):
        search(replace(request_, **values))
    assert not Path(request_.output).exists()
