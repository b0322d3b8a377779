"""Pictures of gains, in small files."""

import numpy as np
import pytest

from tour_pyserini.evaluation.pictures import draw_gains, gains_svg

BEGINS = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-", "svg": b"<?xml"}


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
