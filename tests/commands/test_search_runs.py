"""`search --run`: runs of others as signals, with an index, with vectors, and with texts alone."""

import json

import numpy as np
import pytest
from toy_collection import HashReranker

from tour_pyserini import QuerySignal, TourConfig, TourError, TourSearcher
from tour_pyserini.data.run_records import record_path
from tour_pyserini.encoders.query_vectors import load_encoded_queries
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest

FOUND = {"q0": {"d3": 9.0, "d1": 8.0, "d7": 2.5, "d5": 2.0}, "q1": {"d2": 5.0, "d0": 1.0}}


@pytest.fixture
def case(saved, tmp_path):
    """A collection, a run of two of its topics, and what searches with it."""
    collection, fields = saved
    (tmp_path / "bm25.trec").write_text(lines(FOUND))

    def run(*runs, **options):
        given = {**fields, "index": None, "encoded_queries": None, "run": [tmp_path / run for run in runs], **options}
        search(SearchRequest(**given, reranker=HashReranker(), no_cache=True, output=tmp_path / "out.trec"))
        found = {}
        for q_id, _, docid, _, score, _ in map(str.split, (tmp_path / "out.trec").read_text().splitlines()):
            found.setdefault(q_id, {})[docid] = float(score)
        return found

    return collection, run, tmp_path


def lines(found):
    return "".join(f"{q} Q0 {d} 1 {score} bm25\n" for q, scores in found.items() for d, score in scores.items())


def label(q_id, docid):
    return HashReranker().predict([(f"query {q_id[1:]}", f"passage {docid}")])[0]


def test_a_run_is_reranked_without_an_index(case):
    _, run, _ = case
    found = run("bm25.trec", config=TourConfig("rerank", depth=4))
    expected = {q: {d: label(q, d) for d in docids} for q, docids in FOUND.items()}
    assert found == {q: pytest.approx(labels) for q, labels in expected.items()}
    assert [*found["q0"]] == sorted(FOUND["q0"], key=lambda d: -label("q0", d))


def test_the_default_weighs_labels_and_first_stage_scores(case):
    _, run, _ = case
    found = run("bm25.trec", config=TourConfig(budget=3))
    x = np.array([9.0, 8.0, 2.5, 2.0])
    z = 0.5 * (x - x.mean()) / x.std()  # in units of the scores' deviation, by the weight of a signal
    labels = np.array([label("q0", d) for d in ("d3", "d1", "d7")])
    s = (labels - labels.mean()) / labels.std()
    expected = {**dict(zip(("d3", "d1", "d7"), z[:3] + 0.4 * np.exp(s), strict=True)), "d5": z[3]}
    assert found["q0"] == pytest.approx(expected, abs=1e-6)


def test_several_runs_are_joined(case):
    _, run, folder = case
    (folder / "splade.trec").write_text(lines({"q0": {"d9": 3.0, "d3": 1.0}}))
    found = run("bm25.trec", "splade.trec", config=TourConfig("dense"))
    first, second = np.array([9.0, 8.0, 2.5, 2.0, 2.0]), np.array([1.0, 1.0, 1.0, 1.0, 3.0])  # d9 is not in the first
    total = sum(0.5 * (x - x.mean()) / x.std() for x in (first, second))
    assert found["q0"] == pytest.approx(dict(zip(("d3", "d1", "d7", "d5", "d9"), total, strict=True)), abs=1e-6)
    record = json.loads(record_path(folder / "out.trec").read_text())
    assert {"run", "run 2"} <= set(record["files"])


def test_with_an_index_a_run_is_one_more_signal(case):
    collection, run, folder = case
    found = run("bm25.trec", index=collection.folder, encoded_queries=folder / "queries", hits=30)

    def signal(query, k):
        scores = FOUND.get(f"q{query.split()[1]}", {})
        return list(scores), list(scores.values())

    searcher = TourSearcher(collection.searcher(), HashReranker(), collection.texts, signals=[QuerySignal(signal)])
    expected = searcher.batch_search(collection.queries, collection.q_ids, k=30)
    assert {q: [*docs] for q, docs in found.items()} == {q: [hit.docid for hit in hits] for q, hits in expected.items()}


def test_a_run_of_other_topics_is_refused(case):
    _, run, folder = case
    (folder / "other.trec").write_text(lines({"z1": {"d9": 3.0}}))
    with pytest.raises(TourError, match="none of the topics"):
        run("bm25.trec", "other.trec", config=TourConfig("dense"))


def test_with_vectors_the_query_moves_and_nothing_else_is_found(case):
    collection, run, folder = case
    options = {"vectors": collection.folder, "encoded_queries": folder / "queries"}
    config = TourConfig("tour", early_stopping=False)
    found = run("bm25.trec", **options, config=config, output_queries=folder / "moved")
    assert {q: set(docs) for q, docs in found.items()} == {q: set(docs) for q, docs in FOUND.items()}
    moved = load_encoded_queries(folder / "moved").encode("query 0")
    assert not np.allclose(moved, collection.encoder.encode("query 0"))
    dense = run("bm25.trec", **options, config=TourConfig("dense", signal_weight=0.0))
    query = collection.encoder.encode("query 0")
    assert dense["q0"] == pytest.approx({d: collection.vectors[int(d[1:])] @ query for d in FOUND["q0"]}, abs=1e-5)
