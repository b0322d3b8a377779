"""Settings chosen by judged queries, from the command and from Python."""

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig
from tour_pyserini.search import SearchRequest, search
from tour_pyserini.tune import TuneRequest, look, main, tune

QUERIES = 16


@pytest.fixture
def files(tmp_path, own_cache):
    """A collection in which a signal knows the relevant document of each query, and the re-ranker knows nothing."""
    toy = ToyCollection(tmp_path, documents=200, queries=QUERIES)
    (tmp_path / "qrels").write_text("".join(f"{q_id} 0 d{7 * at} 1\n" for at, q_id in enumerate(toy.q_ids)))
    return {name: str(path) for name, path in toy.save().items()}


def knowing(queries, k):
    """The relevant document of each query first, then the others."""
    orders = [[7 * int(text.split()[-1]), *range(150)] for text in queries]
    docids = [[f"d{at}" for at in dict.fromkeys(order)] for order in orders]
    return docids, [[float(-rank) for rank in range(len(one))] for one in docids]


def test_settings_are_written_that_searches_read(files, tmp_path):
    given = {**files, "reranker": HashReranker(), "no_cache": True, "sparse": (knowing,)}
    written = {"output": str(tmp_path / "tuned.toml"), "picture": str(tmp_path / "tuned.png")}
    report = tune(TuneRequest(**given, qrels=str(tmp_path / "qrels"), **written))
    loaded = TourConfig.load(tmp_path / "tuned.toml")
    assert loaded == report.config and loaded.signal_weight == 1.0 and report.choice.gain[0] > report.choice.gain[1]
    text = str(report)
    assert "Search with the tuned settings (signal weight 1" in text and "the default" in text
    lines = {line[:24].strip(): line[24:].split() for line in text.splitlines()}
    assert float(lines["tuned (cross-validated)"][0]) > float(lines["the default, up to 30"][0])
    assert [float(lines[f"the default, up to {budget}"][4]) <= budget for budget in (10, 20, 30)] == [True] * 3

    assert (tmp_path / "tuned.png").read_bytes().startswith(b"\x89PNG")

    # The settings make probabilities, and a list may end early or be empty.
    assert loaded.calibration is not None
    sizes = []
    for least in (None, 0.05, 1.0):
        run_file = tmp_path / "run"
        search(SearchRequest(**given, config=loaded, min_relevance=least, hits=20, output=str(run_file)))
        sizes.append(len(run_file.read_text().splitlines()))
    assert sizes[0] == 20 * QUERIES > sizes[1] > sizes[2] == 0


def test_the_default_is_kept_and_said_where_nothing_gains(files, tmp_path):
    random = np.random.default_rng(2)
    lines = [f"q{at} 0 d{document} 1\n" for at in range(QUERIES) for document in random.choice(200, 8, replace=False)]
    (tmp_path / "qrels").write_text("".join(lines))
    request = {**files, "qrels": str(tmp_path / "qrels"), "output": str(tmp_path / "tuned.toml")}
    report = tune(TuneRequest(**request, reranker=HashReranker(), no_cache=True))
    assert report.config.replace(calibration=None) == TourConfig()
    assert report.advice.startswith("Keep the default") and "clear difference" in report.advice


def test_what_can_be_said_without_judgements(files):
    said = look(TuneRequest(**files, dry=True, reranker=HashReranker(), no_cache=True, sparse=(knowing,)))
    assert said.startswith(f"{QUERIES} queries, at most 30 labels each") and "A label takes" in said
    assert "Vectors and the first signal share" in said and "the first hit for" in said and "cannot be said" in said


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--output tuned.toml", "--qrels"),
        ("--qrels few --output tuned.toml", "at least 10"),
        ("--qrels few --output few", "overwrite"),
        ("--qrels few --output tuned.toml --picture a.bmp", "a.bmp"),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_written(files, tmp_path, monkeypatch, refused, more, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few").write_text("q1 0 d1 1\nq2 0 d2 0\n")
    flags = [word for name, value in files.items() for word in (f"--{name.replace('_', '-')}", value)]
    refused(main, [*flags, *more.split()], says)
