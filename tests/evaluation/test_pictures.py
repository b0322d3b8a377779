"""Pictures of gains, in small files and in notebooks."""

import numpy as np
import pytest

from tour_pyserini.evaluation.pictures import draw_gains, gains_svg


@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG\r\n\x1a\n"), ("pdf", b"%PDF-"), ("svg", b"<?xml")])
def test_the_suffix_decides_the_format(tmp_path, kind, begins):
    gained = {f"run_{number}$a$.trec": np.array([0.5, 0.0, -0.5]) for number in range(7)}
    draw_gains(gained, baseline="base.trec", measure="nDCG@10", output=tmp_path / f"gains.{kind}")
    assert (tmp_path / f"gains.{kind}").read_bytes().startswith(begins)


def test_counts_and_mean_are_in_the_picture_for_notebooks():
    gained = {"a<.trec": np.array([1, 0, 0, -0.5])}
    drawn = gains_svg(gained, baseline="b", measure="RR")
    for words in ("<svg", "1 won, 2 tied, 1 lost, mean +0.1250", "a&lt;.trec"):
        assert words in drawn
    assert gains_svg(gained, baseline="b", measure="RR") == drawn and gains_svg({}, baseline="b", measure="RR") == ""
