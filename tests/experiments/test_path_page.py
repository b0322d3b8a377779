"""One query's path as a page."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.path_page import FINAL_NOTE, ROUND_NOTE, as_events, as_page, projected
from tour_pyserini.evaluation.query_path import FinalHit, PathRound, read_paths
from tour_pyserini.page import main
from tour_pyserini.service.messages import Candidate, Round

NAN = float("nan")
PATH = [
    PathRound(["a", "b"], [0.0, 5.0], [0.0, 1.0], 1.0, None, [1.0, 0.0], [3.0, 2.0]),
    PathRound(["b", "c<"], [5.0, NAN], [1.0, 0.0], 0.9, "agreement", [0.0, 1.0], [4.0, 1.0]),
]
TEXTS = {"a": "A", "b": Passage("B & b", "of the\nnorth"), "c<": "</script><script>alert(1)</script>" + "word " * 60}


class Elements(HTMLParser):
    """The elements of a page: tags with attributes, and the text of each script and style."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_data(self, data):
        if self.cdata_elem:  # inside a script or a style
            self.texts[-1] += data

    def script(self, **wanted):
        """The text of the script or style with these attributes."""
        return next(
            text
            for (tag, attributes), text in zip(self.tags, self.texts, strict=True)
            if tag in ("script", "style") and attributes == wanted
        )


def recorded_in(path):
    """What a page shows."""
    return json.loads(Elements(path.read_text(encoding="utf-8")).script(type="application/json", id="recorded"))


def test_a_path_is_told_in_the_events_of_the_service():
    vectors = {"a": np.array([1.0, 0.0]), "b": np.array([0.0, 1.0]), "c<": np.array([0.6, 0.8])}
    final = [FinalHit("c<", 3.0, NAN), FinalHit("b", 2.0, 5.0), FinalHit("a", 1.0, 0.0)]
    events = list(as_events(PATH, TEXTS, final=final, shown=2, vectors=vectors))
    assert [event["event"] for event in events] == ["round"] * 3
    first, second, last = (event["data"] for event in events)
    assert (first["name"], second["name"], last["name"]) == ("First retrieval", "After 1 update", "Final list")
    assert (first["note"], second["note"], last["note"]) == (ROUND_NOTE, ROUND_NOTE, FINAL_NOTE)
    assert first["candidates"] == [
        {"docid": "a", "title": "", "words": "A", "label": 0.0, "similarity": 1.0, "rank": 1, "bought": True,
         "rank_before": None, "similarity_before": None},
        {"docid": "b", "title": "B & b", "words": "of the north", "label": 5.0, "similarity": 0.0, "rank": 2,
         "bought": True, "rank_before": None, "similarity_before": None},
    ]  # fmt: skip
    again = second["candidates"][0]
    assert (again["docid"], again["bought"], again["rank_before"], again["similarity_before"]) == ("b", False, 2, 0.0)
    assert second["candidates"][1]["label"] is None and second["candidates"][1]["words"].endswith(" ...")
    assert (second["new"], second["gone"], second["cosine"], second["stop"]) == (["c<"], ["a"], 0.9, "agreement")
    assert [(hit["docid"], hit["rank_before"], hit["similarity"]) for hit in last["candidates"]] == [
        ("c<", 2, 0.8),  # inner products, as the service tells them; a trace may hold the sum of several signals
        ("b", 1, 1.0),
    ]
    assert last["new"] == ["a"] and last["number"] == 2 and last["t"] == 1
    assert [one["costs"] for one in (first, last)] == [{"labels": 2, "updates": 0}, {"labels": 2, "updates": 1}]
    assert list(first["map"]["candidates"]) == ["a", "b"] and list(last["map"]["candidates"]) == ["a", "b", "c<"]
    assert last["map"]["queries"] == [[0.0, 0.0], [1.414214, 0.0]]
    for one in (first, second, last):  # the page reads both: fields of the same names
        assert one.keys() - {"name", "note"} == Round.model_fields.keys()
        assert all(hit.keys() <= Candidate.model_fields.keys() for hit in one["candidates"])
    assert all(event["data"]["map"] is None for event in as_events(PATH, TEXTS))


def test_a_page_needs_no_other_file_and_runs_nothing_but_its_own_script():
    recorded = {"query": "<b>why</b>", "events": list(as_events(PATH, TEXTS)), "relevant": ["c<"], "texts": TEXTS}
    page = as_page(recorded)
    elements = Elements(page)
    used = {value for _, attributes in elements.tags for name, value in attributes.items() if name in ("src", "href")}
    assert used == {"data:,", "#results"}
    assert "url(http" not in page and "@import" not in page and "<script>alert" not in page and "<b>" not in page
    assert json.loads(elements.script(type="application/json", id="recorded")) == recorded
    script, style = elements.script(type="module"), elements.script()
    assert re.search(r"^(import|export)\b", script, re.MULTILINE) is None and "prefers-color-scheme: dark" in style
    policy = next(each["content"] for tag, each in elements.tags if "http-equiv" in each)
    for source, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{source} 'sha256-{digest}';" in policy


def test_the_first_axis_is_where_the_query_went():
    queries = np.array([[2.0, 0, 0], [0, 3.0, 0]])  # lengths do not matter
    found = projected(queries, np.array([[0, 1.0, 0], [1.0, 0, 0], [0, 0, 1.0]]))
    root = np.sqrt(2)
    assert found.queries == pytest.approx(np.array([[0, 0], [root, 0]]))
    assert found.candidates[0] == pytest.approx([root, 0])  # where the query is now
    assert found.candidates[1] == pytest.approx([0, 0])  # where it was
    assert found.candidates[2][0] == pytest.approx(1 / root)  # as far from the one as from the other


def test_the_second_axis_is_where_candidates_differ_and_not_where_they_all_are():
    queries = np.array([[1.0, 0, 0, 0], [0.8, 0.6, 0, 0]])
    candidates = np.array([[0.1, 0, 1.0, 0.2], [0.1, 0, 1.0, -0.2], [0.1, 0, 1.0, 0.0]])  # all far along the third
    heights = projected(queries, candidates).candidates[:, 1]
    assert heights.max() - heights.min() > 0.35


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 4), count=st.integers(0, 6), still=st.booleans())
def test_projections_shrink_distances(seed, steps, count, still):
    random = np.random.default_rng(seed)
    queries, candidates = random.normal(size=(steps, 5)), random.normal(size=(count, 5))
    if still:
        queries[:] = queries[0]
    found = projected(queries, candidates)
    assert found.queries.shape == (steps, 2) and found.candidates.shape == (count, 2)
    assert found.queries[0] == pytest.approx([0, 0])
    units = [vector / np.linalg.norm(vector) for vector in (queries[0], *candidates)]
    for place, unit in zip(found.candidates, units[1:], strict=True):
        assert np.linalg.norm(place) <= np.linalg.norm(unit - units[0]) + 1e-9


def test_the_command_picks_the_most_improved_query_and_refuses_wrong_input(tmp_path, capsys):
    lines = [
        {"qid": "q1", "docids": ["a", "b"], "similarities": [2, 1], "labels": [0.0, 5.0], "labelled": ["a", "b"],
         "cosine": 1.0, "stop": None},
        {"qid": "q1", "docids": ["b", "a"], "similarities": [2, 1], "labels": [5, None], "labelled": [], "cosine": 0.9,
         "stop": "agreement"},
        {"qid": "q2", "docids": ["a"], "similarities": [1], "labels": [None], "labelled": [], "cosine": 1.0,
         "stop": "agreement"},
    ]  # fmt: skip
    trace, topics, corpus, qrels = (tmp_path / name for name in ("trace.jsonl", "topics.tsv", "corpus.jsonl", "qrels"))
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    topics.write_text("q1\twhy\nq2\twho\n")
    corpus.write_text('{"_id": "a", "text": "A"}\n{"_id": "b", "text": "B"}\n')
    qrels.write_text("q1 0 b 1\nq2 0 b 0\n")
    assert np.isnan(read_paths(trace)["q1"][1].labels[1])
    paths = {"trace": trace, "topics": topics, "corpus": corpus, "qrels": qrels, "output": tmp_path / "a.html"}
    flags = [str(word) for name, path in paths.items() for word in (f"--{name}", path)]
    main(flags)
    assert "query q1, 2 retrievals, no map" in capsys.readouterr().err
    shown = recorded_in(tmp_path / "a.html")
    assert shown["query"] == "why" and shown["relevant"] == ["b"] and shown["texts"] == {"a": "A", "b": "B"}
    assert [event["data"]["name"] for event in shown["events"]] == ["First retrieval", "After 1 update"]
    (tmp_path / "run").write_text("q1 Q0 a 1 2 t\nq1 Q0 b 2 1 t\n")
    main([*flags, "--run", str(tmp_path / "run")])
    assert recorded_in(tmp_path / "a.html")["events"][-1]["data"]["name"] == "Final list"
    main([*flags, "--topic", "q2"])
    assert recorded_in(tmp_path / "a.html")["query"] == "who"
    for more, message in (
        (["--topic", "q3"], "no query 'q3'"),
        (["--output", str(trace)], "would overwrite the input"),
    ):
        with pytest.raises(TourError, match=message):
            main([*flags, *more])
    topics.write_text("q2\twho\n")
    with pytest.raises(TourError, match="has no query 'q1', which the trace has"):
        main(flags)


def test_a_trace_with_vectors_gives_a_map(small, models, capsys):
    from tour_pyserini import search

    small.command("--condition", "dense", "--index", "flat")
    index = small.folder / "indexes" / "letters.tiny.flat"
    shared = ["--topics", small.folder / "topics.tsv", "--corpus", small.folder / "corpus.jsonl", "--index", index]
    trace = ["--trace", small.folder / "trace", "--trace-vectors"]
    more = ["--reranker", models / "reranker", "--method", "soft", "--output", small.folder / "a.trec"]
    with pytest.raises(TourError, match="--trace-vectors adds to the trace"):
        search.main(list(map(str, [*shared, "--trace-vectors", *more])))
    search.main(list(map(str, [*shared, *trace, *more])))
    first = json.loads((small.folder / "trace").read_text().splitlines()[0])
    assert np.linalg.norm(first["query"]) == pytest.approx(first["norm"], abs=1e-4)
    assert len(first["query"]) == 16
    main(list(map(str, [*shared, "--trace", small.folder / "trace", "--output", small.folder / "a.html"])))
    shown = recorded_in(small.folder / "a.html")
    for event in shown["events"]:
        assert len(event["data"]["map"]["queries"]) == event["data"]["t"] + 1
        assert event["data"]["map"]["candidates"].keys() >= {hit["docid"] for hit in event["data"]["candidates"]}
    assert shown["events"][0]["data"]["candidates"][0]["similarity"] is not None
