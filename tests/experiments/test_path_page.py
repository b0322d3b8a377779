"""One query's path as a page."""

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.path_page import HEIGHT, WIDTH, Projection, as_page, as_svg, projected
from tour_pyserini.evaluation.query_path import FinalHit, PathRound, read_paths
from tour_pyserini.page import main

PATH = [
    PathRound(["a", "b"], [0.0, 5.0], [0.0, 1.0], 1.0, None),
    PathRound(["b", "c<"], [5.0, float("nan")], [1.0, 0.0], 0.9, "agreement"),
]
TEXTS = {"a": "A", "b": "B & b", "c<": "<script>alert(1)</script>" + "word " * 60}
VOID = {"meta", "circle", "line", "path"}


class Checked(HTMLParser):
    """Balanced tags, and every attribute."""

    def __init__(self, page):
        super().__init__()
        self.open, self.attributes, self.items = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag == "li":
            self.items.append(dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag


def test_the_page_needs_no_other_file_and_marks_passages():
    svg = as_svg(Projection(np.zeros((2, 2)), np.eye(3)[:, :2]), PATH, ["a", "b", "c<"], {"c<"}, TEXTS)
    final = [FinalHit("c<", 3.0, float("nan")), FinalHit("b", 2.0, 5.0)]
    page = as_page(PATH, 'why "x" < y', TEXTS, {"c<"}, final=final, svg=svg)
    checked = Checked(page)
    assert not {name for name, _ in checked.attributes} & {"src", "href"}
    assert "url(http" not in page and "@import" not in page and "<script>alert" not in page
    assert "prefers-color-scheme: dark" in page
    assert [item["data-doc"] for item in checked.items] == ["a", "b", "b", "c<", "c<", "b"]
    assert [item["class"] for item in checked.items] == ["", "", "", "relevant", "relevant", ""]
    assert "why &quot;x&quot; &lt; y" in page
    last = page.split('<section class="round">')[2]
    assert "↑1" in last and '<span class="mark new">new</span>' in last and "–" in last
    assert "stopped: agreement" in last and "cosine to the first vector 0.900" in last and "1 new passages" in last
    returned = page.split('<section class="round">')[3]
    assert "<h2>Final list</h2>" in returned and "↑1" in returned and "↓1" in returned and "5.00" in returned
    assert "<title>B &amp; b (5.00)</title>" in page
    assert "Final list" not in as_page(PATH, "q", TEXTS, set())
    assert "The query's movement" not in as_page(PATH, "q", TEXTS, set())


def test_the_first_axis_is_where_the_query_went():
    queries = np.array([[2.0, 0, 0], [0, 3.0, 0]])  # lengths do not matter
    found = projected(queries, np.array([[0, 1.0, 0], [1.0, 0, 0], [0, 0, 1.0]]))
    root = np.sqrt(2)
    assert found.queries == pytest.approx(np.array([[0, 0], [root, 0]]))
    assert found.candidates[0] == pytest.approx([root, 0])  # where the query is now
    assert found.candidates[1] == pytest.approx([0, 0])  # where it was
    assert found.candidates[2][0] == pytest.approx(1 / root)  # as far from the one as from the other


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 4), count=st.integers(1, 6), still=st.booleans())
def test_projections_shrink_distances_and_fit_the_paper(seed, steps, count, still):
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
    docids = [f"d{i}" for i in range(count)]
    svg = as_svg(
        found, [PathRound(docids, [0.0] * count, [0.0] * count, 1.0, None)], docids, set(), dict.fromkeys(docids, "")
    )
    places = [float(part.split('"')[1]) for part in svg.split(" c") if part.startswith(("x=", "y="))]
    assert places and all(0 <= place <= max(WIDTH, HEIGHT) for place in places)


def test_the_command_picks_the_most_improved_query_and_refuses_wrong_input(tmp_path, capsys):
    lines = [
        {"qid": "q1", "docids": ["a", "b"], "labels": [0.0, 5.0], "target": [0, 1], "cosine": 1.0, "stop": None},
        {"qid": "q1", "docids": ["b", "a"], "labels": [5, None], "target": [1], "cosine": 0.9, "stop": "agreement"},
        {"qid": "q2", "docids": ["a"], "labels": None, "target": [0], "cosine": 1.0, "stop": "agreement"},
    ]  # fmt: skip
    trace, topics, corpus, qrels = (tmp_path / name for name in ("trace.jsonl", "topics.tsv", "corpus.jsonl", "qrels"))
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    topics.write_text("q1\twhy\nq2\twho\n")
    corpus.write_text('{"_id": "a", "text": "A"}\n{"_id": "b", "text": "B"}\n')
    qrels.write_text("q1 0 b 1\nq2 0 b 0\n")
    assert np.isnan(read_paths(trace)["q1"][1].labels[1])
    flags = [
        "--trace",
        trace,
        "--topics",
        topics,
        "--corpus",
        corpus,
        "--qrels",
        qrels,
        "--output",
        tmp_path / "a.html",
    ]
    flags = list(map(str, flags))
    main(flags)
    assert "query q1, 2 retrievals, no map" in capsys.readouterr().err
    assert "<h1>why</h1>" in (tmp_path / "a.html").read_text()
    (tmp_path / "run").write_text("q1 Q0 a 1 2 t\nq1 Q0 b 2 1 t\n")
    main([*flags, "--run", str(tmp_path / "run")])
    assert "<h2>Final list</h2>" in (tmp_path / "a.html").read_text()
    main([*flags, "--topic", "q2"])
    assert "<h1>who</h1>" in (tmp_path / "a.html").read_text()
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
    Checked((small.folder / "a.html").read_text())
    assert "The query's movement" in (small.folder / "a.html").read_text()
