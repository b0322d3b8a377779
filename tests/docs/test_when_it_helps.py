"""The figures of docs/when-it-helps.md are those of the expected scores."""

import importlib.util
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "when-it-helps.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def drawing():
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("drawing", ROOT / "docs" / "draw_when_it_helps.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def experiment(drawing):
    return yaml.safe_load(drawing.SCORES.read_text(encoding="utf-8"))


def mean_gain(experiment, measure, index, baseline):
    """The default's mean gain over a baseline, of all collections and encoders."""
    setups = [scores for name, scores in experiment["expected"].items() if name.endswith(f".{index}")]
    return sum(scores["default"][measure] - scores[baseline][measure] for scores in setups) / len(setups)


@pytest.mark.parametrize(
    ("measure", "index", "baseline", "figure"),
    [
        ("nDCG@10", "pq16", "mix-own-30", "0.084"),
        ("R@100", "pq16", "mix-own-30", "0.092"),
        ("nDCG@10", "pq16", "mix-own-60", "0.059"),
        ("nDCG@10", "flat", "rerank-30", "0.021"),
        ("R@100", "flat", "mix-30", "0.009"),
        ("nDCG@10", "flat", "mix-30", "0.0033"),
    ],
)
def test_a_gain_of_the_page_is_the_mean_of_the_expected_scores(experiment, measure, index, baseline, figure):
    assert f"{figure} {measure}" in " ".join(PAGE.split())
    # The page's figures are means of more exact scores: half a unit of the last digit, and half of the scores' own.
    assert mean_gain(experiment, measure, index, baseline) == pytest.approx(
        float(figure), abs=0.5 * 10 ** -len(figure.split(".")[1]) + 0.0001
    )


def test_the_figures_with_bm25_are_those_of_the_results():
    lines = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()
    head, means = (
        next(line for line in lines if line.startswith(start)).split("|") for start in ("| | queries", "| **mean** |")
    )
    mean = {name.strip(): figure.strip(" *") for name, figure in zip(head, means, strict=True)}
    page = " ".join(PAGE.split())
    assert (
        f"mixing the hybrid list with the re-ranker is the strongest rival: mean nDCG@10 {mean['hybrid mixed']},"
        in page
    )
    assert f"{mean['mixed']} of mixed re-ranking and {mean['default']} of the default with BM25" in page


def test_the_picture_shows_every_setup_of_both_kinds_of_index(drawing, experiment, tmp_path):
    gains = drawing.gains(experiment, "nDCG@10")
    assert len(gains) == 16 and min(gains.values()) == pytest.approx(-0.0026)
    drawing.draw(experiment, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
