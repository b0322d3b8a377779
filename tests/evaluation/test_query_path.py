"""Query paths: read from traces, told in the events of the service, and shown as a page."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig
from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.query_path import PathLists, PathRound, QueryPath, write_path_page
from tour_pyserini.page import PageRequest, main, write_page
from tour_pyserini.search import SearchRequest, search
from tour_pyserini.service.messages import Candidate, Round

LINES = [
    {"qid": "q1", "docids": ["a", "b"], "similarities": [0.9, 0.8], "labels": [0.0, 5.0], "cosine": 1.0, "stop": None},
    {"qid": "q1", "docids": ["b", "c"], "similarities": [0.9, None], "labels": [5.0, None], "cosine": 0.9,
     "stop": "agreement"},
    {"qid": "q2", "docids": ["c"], "similarities": [0.5], "labels": [None], "cosine": 1.0, "stop": "rounds"},
]  # fmt: skip


@pytest.fixture
def files(tmp_path):
    """The files that a path is read from, by argument."""
    corpus = "".join(f'{{"_id": "{id_}", "text": "{id_.upper()}"}}\n' for id_ in "abcd")
    contents = {
        "trace": ("trace.jsonl", "".join(json.dumps(line) + "\n" for line in LINES)),
        "topics": ("topics.tsv", "q1\twhy\nq2\twho\n"),
        "corpus": ("corpus.jsonl", corpus),
        "qrels": ("qrels", "q1 0 b 1\nq1 0 a 0\nq2 0 c 1\n"),
        "run": ("run", "q1 Q0 c 1 1.5 t\nq1 Q0 b 2 2.5 t\nq1 Q0 d 3 0.5 t\n"),
    }
    for name, text in contents.values():
        (tmp_path / name).write_text(text)
    return {argument: tmp_path / name for argument, (name, _) in contents.items()}


def test_a_path_by_hand(files):
    path = QueryPath.read(**files)
    assert (path.qid, path.query, path.relevant) == ("q1", "why", {"b"})  # c of q2 was always first
    first, second = path.rounds
    assert (first.docids, first.labels, first.cosine, first.stop, first.query) == (["a", "b"], [0, 5], 1, None, None)
    assert (second.labels, second.similarities, second.stop) == ([5, None], [0.9, None], "agreement")
    assert path.final == [("b", 2.5), ("c", 1.5), ("d", 0.5)]


@pytest.mark.parametrize(
    ("file", "content", "topic", "message"),
    [
        ("run", "q1 Q0 a 1 1.5 t\n", "q2", "no hits of the query 'q2'"),
        ("topics", "q2\twho\n", None, "no query 'q1', which the trace has"),
        ("topics", "q2\twho\n", "q3", "no query 'q3'; choose another"),
        ("trace", "", None, "is empty"),
        ("trace", '{"qid": 1}', None, "line 1 is not a line of a trace"),
    ],
)
def test_files_that_do_not_fit_are_refused(files, file, content, topic, message):
    files[file].write_text(content)
    with pytest.raises(TourError, match=message):
        QueryPath.read(**files, topic=topic)


ROUNDS = [
    PathRound(["a", "b"], [0.0, 5.0], 1.0, None, [1.0, 0.0], [3.0, 2.0]),
    PathRound(["b", "c<"], [5.0, None], 0.9, "agreement", [0.0, 1.0], [4.0, 1.0]),
]
TEXTS = {"a": "A", "b": Passage("B & b", "of the\nnorth"), "c<": "</script><script>alert(1)</script>" + "word " * 60}
FINAL = [("c<", 3.0), ("b", 2.0), ("a", 1.0)]


def elements(path):
    """The elements of a page."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def recorded_in(path):
    """What a page shows."""
    return json.loads(elements(path).find("script", id="recorded").string)


def test_a_path_is_told_in_the_events_of_the_service(tmp_path):
    vectors = {"a": np.array([1.0, 0.0]), "b": np.array([0.0, 1.0]), "c<": np.array([0.6, 0.8])}
    write_path_page(tmp_path / "page", QueryPath("q", "why", ROUNDS, TEXTS, (), FINAL, vectors), shown=2)
    first, second, last = (event["data"] for event in recorded_in(tmp_path / "page")["events"])
    assert (first["name"], second["name"], last["name"]) == ("First retrieval", "After 1 update", "Final list")
    shared = {"bought": True, "rank_before": None, "similarity_before": None}
    assert first["candidates"] == [
        {"docid": "a", "title": "", "words": "A", "label": 0.0, "similarity": 1.0, "rank": 1, **shared},
        {"docid": "b", "title": "B & b", "words": "of the north", "label": 5.0, "similarity": 0.0, "rank": 2, **shared},
    ]
    again = second["candidates"][0]
    assert (again["docid"], again["bought"], again["rank_before"], again["similarity_before"]) == ("b", False, 2, 0.0)
    assert second["candidates"][1]["label"] is None and second["candidates"][1]["words"].endswith(" ...")
    assert (second["new"], second["gone"], second["cosine"], second["stop"]) == (["c<"], ["a"], 0.9, "agreement")
    assert [(hit["docid"], hit["rank_before"], hit["similarity"]) for hit in last["candidates"]] == [
        ("c<", 2, 0.8),  # inner products, as the service tells them; a trace may hold the sum of several signals
        ("b", 1, 1.0),
    ]
    assert (first["new"], last["new"], last["number"], last["t"]) == ([], ["a"], 2, 1)
    assert [one["costs"] for one in (first, last)] == [{"labels": 2, "updates": 0}, {"labels": 2, "updates": 1}]
    assert [set(one["map"]["candidates"]) for one in (first, last)] == [{"a", "b"}, {"a", "b", "c<"}]
    assert last["map"]["queries"] == [[0.0, 0.0], [1.414214, 0.0]]
    for one in (first, second, last):  # the page reads both: fields of the same names
        assert one.keys() - {"name", "note"} == Round.model_fields.keys()
        assert all(hit.keys() <= Candidate.model_fields.keys() for hit in one["candidates"])


def test_a_page_needs_no_other_file_and_runs_nothing_but_its_own_script(tmp_path):
    write_path_page(tmp_path / "page", QueryPath("q", "<b>why</b>", ROUNDS, TEXTS, {"c<"}))
    shown = recorded_in(tmp_path / "page")
    assert (shown["query"], shown["relevant"], shown["texts"]) == ("<b>why</b>", ["c<"], TEXTS)
    assert [event["data"]["map"] for event in shown["events"]] == [None, None]
    assert shown["events"][1]["data"]["candidates"][0]["similarity"] == 4  # as the trace has it
    page, found = (tmp_path / "page").read_text(encoding="utf-8"), elements(tmp_path / "page")
    used = {one.get(name) for one in found.find_all(True) for name in ("src", "href") if one.has_attr(name)}
    assert used == {"data:,", "#results"}
    assert "url(http" not in page and "@import" not in page and "<script>alert" not in page and "<b>" not in page
    script, style = found.find("script", type="module").string, found.find("style").string
    assert re.search(r"^(import|export)\b", script, re.MULTILINE) is None and "prefers-color-scheme: dark" in style
    policy = found.find("meta", attrs={"http-equiv": True})["content"]
    for source, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{source} 'sha256-{digest}';" in policy


def places(queries, candidates):
    """Where the map has query vectors [t, d] and candidates [n, d]."""
    lists, vectors = PathLists(), {f"d{i}": vector for i, vector in enumerate(candidates)}
    for t, query in enumerate(queries):
        told = lists.add(list(vectors), {}, t=t, query=query, vectors=vectors)
    assert list(told["map"]["candidates"]) == list(vectors)
    return np.array(told["map"]["queries"]), np.array(list(told["map"]["candidates"].values()))


def test_the_first_axis_is_where_the_query_went():
    queries = np.array([[2.0, 0, 0], [0, 3.0, 0]])  # lengths do not matter
    steps, found = places(queries, np.array([[0, 1.0, 0], [1.0, 0, 0], [0, 0, 1.0]]))
    root = np.sqrt(2)
    assert steps == pytest.approx(np.array([[0, 0], [root, 0]]), abs=1e-6)
    assert found[:2] == pytest.approx(np.array([[root, 0], [0, 0]]), abs=1e-6)  # where the query is now, and was
    assert found[2][0] == pytest.approx(1 / root, abs=1e-6)  # as far from the one as from the other


def test_the_second_axis_is_where_candidates_differ_and_not_where_they_all_are():
    queries = np.array([[1.0, 0, 0, 0], [0.8, 0.6, 0, 0]])
    candidates = np.array([[0.1, 0, 1.0, 0.2], [0.1, 0, 1.0, -0.2], [0.1, 0, 1.0, 0.0]])  # all far along the third
    heights = places(queries, candidates)[1][:, 1]
    assert heights.max() - heights.min() > 0.35


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 4), count=st.integers(1, 6), still=st.booleans())
def test_projections_shrink_distances(seed, steps, count, still):
    random = np.random.default_rng(seed)
    queries, candidates = random.normal(size=(steps, 5)), random.normal(size=(count, 5))
    if still:
        queries[:] = queries[0]
    path, found = places(queries, candidates)
    assert path.shape == (steps, 2) and found.shape == (count, 2) and path[0] == pytest.approx([0, 0])
    units = [vector / np.linalg.norm(vector) for vector in (queries[0], *candidates)]
    for place, unit in zip(found, units[1:], strict=True):
        assert np.linalg.norm(place) <= np.linalg.norm(unit - units[0]) + 1e-5


def test_the_command_shows_the_most_improved_query_or_the_one_that_is_named(files, tmp_path, capsys):
    page = tmp_path / "a.html"
    flags = [str(word) for name, path in files.items() for word in (f"--{name}", path)]
    main([*flags, "--output", str(page)])
    assert "query q1, 2 retrievals, no map" in capsys.readouterr().err
    shown = recorded_in(page)
    assert (shown["query"], shown["relevant"], shown["texts"]) == ("why", ["b"], {id_: id_.upper() for id_ in "abcd"})
    assert [event["data"]["name"] for event in shown["events"]] == ["First retrieval", "After 1 update", "Final list"]
    files["run"].write_text("q2 Q0 c 1 1.5 t\n")
    main([*flags, "--topic", "q2", "--output", str(page)])
    assert recorded_in(page)["query"] == "who"
    with pytest.raises(TourError, match="would overwrite the input"):
        main([*flags, "--output", str(files["trace"])])


def test_a_trace_with_vectors_gives_a_map(tmp_path, own_cache):
    given = {name: str(path) for name, path in ToyCollection(tmp_path).save().items()}
    made = {"trace": str(tmp_path / "trace"), "output": str(tmp_path / "run")}
    config, reranker = TourConfig("soft"), HashReranker()
    search(SearchRequest(**given, **made, trace_vectors=True, config=config, reranker=reranker, no_cache=True))
    del given["encoded_queries"]
    assert write_page(PageRequest(**given, trace=made["trace"], output=str(tmp_path / "a.html"))).vectors
    for event in recorded_in(tmp_path / "a.html")["events"]:
        told = event["data"]
        assert len(told["map"]["queries"]) == told["t"] + 1
        assert told["map"]["candidates"].keys() >= {hit["docid"] for hit in told["candidates"]}
        assert told["candidates"][0]["similarity"] is not None
