"""Pictures of gains, in small files."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tour_pyserini.evaluation.pictures import draw_gains, gains_svg, save_picture

BEGINS = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-", "svg": b"<?xml"}


def test_a_png_is_small_and_looks_as_drawn(tmp_path):
    figure = Figure(figsize=(6, 4))  # smooth edges have more colours than a small file
    figure.subplots().plot(np.sin(np.outer(np.arange(30), 1 / np.arange(2, 10))), marker="o")
    save_picture(figure, tmp_path / "a")  # without a suffix, too
    whole = io.BytesIO()
    figure.savefig(whole, dpi=150, format="png")
    assert (tmp_path / "a").stat().st_size < len(whole.getvalue()) / 2
    with Image.open(tmp_path / "a") as small, Image.open(whole) as drawn:
        assert small.mode == "P" and small.size == (900, 600) and round(small.info["dpi"][0]) == 150
        difference = np.abs(np.asarray(small.convert("RGB"), float) - np.asarray(drawn.convert("RGB"), float))
    assert difference.mean() < 1


@pytest.mark.parametrize(("kind", "runs", "queries"), [("png", 4, 1), ("pdf", 1, 5), ("svg", 7, 1000)])
def test_the_suffix_decides_the_format(tmp_path, kind, runs, queries):
    random = np.random.default_rng(0)
    gained = {f"run_{number}$a$.trec": random.integers(-1, 2, queries) / 2 for number in range(runs)}
    draw_gains(gained, baseline="base.trec", measure="nDCG@10", output=tmp_path / f"gains.{kind}")
    assert (tmp_path / f"gains.{kind}").read_bytes().startswith(BEGINS[kind])
    assert [path.name for path in tmp_path.iterdir()] == [f"gains.{kind}"]


def test_counts_and_mean_are_in_the_picture_for_notebooks():
    gained = {"a<.trec": np.array([1, 0, 0, -0.5])}
    drawn = gains_svg(gained, baseline="b", measure="RR")
    for words in ("<svg", "1 won, 2 tied, 1 lost, mean +0.1250", "a&lt;.trec", "gain in RR", "#009e73", "#d55e00"):
        assert words in drawn
    assert gains_svg(gained, baseline="b", measure="RR") == drawn
    assert gains_svg({}, baseline="b", measure="RR") == ""
