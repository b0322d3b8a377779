"""Results for people: pictures in small files, and tables."""

import io

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tour_pyserini.evaluation.pictures import COLOURS, save_picture
from tour_pyserini.evaluation.tables import html_table


@pytest.fixture
def figure():
    """Lines of several colours, with smooth edges and text: more colours than a small file has."""
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for number in range(8):
        axes.plot(np.sin(np.arange(30) / (2 + number)), marker="o", label=f"curve {number}")
    axes.legend()
    return figure


def test_a_png_is_small_and_looks_as_drawn(figure, tmp_path):
    save_picture(figure, tmp_path / "a.png")
    whole = io.BytesIO()
    figure.savefig(whole, dpi=150, format="png")
    assert (tmp_path / "a.png").stat().st_size < len(whole.getvalue()) / 2
    with Image.open(tmp_path / "a.png") as small, Image.open(whole) as drawn:
        assert len(drawn.convert("RGB").getcolors(1 << 20)) > COLOURS
        assert small.mode == "P" and small.size == (900, 600) and round(small.info["dpi"][0]) == 150
        difference = np.abs(np.asarray(small.convert("RGB"), float) - np.asarray(drawn.convert("RGB"), float))
    assert difference.mean() < 1 and np.quantile(difference, 0.999) < 40


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.pdf", b"%PDF"), ("a", b"\x89PNG")])
def test_the_name_says_the_format(figure, tmp_path, name, start):
    save_picture(figure, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_a_table_shows_its_cells_as_they_are():
    page = html_table([["name", "nDCG"], ["<b>", "0.5"]], title="a & b")
    assert "&lt;b&gt;" in page and "a &amp; b" in page and page.count("<tr>") == 2
