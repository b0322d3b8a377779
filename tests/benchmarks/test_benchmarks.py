"""Every measurement runs at a tiny size and fills the document."""

import re

import pytest

from benchmarks.__main__ import MEASUREMENTS, SERVED, main
from benchmarks.benchmark_report import Report, check_document, fill_document
from benchmarks.flops import flops
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.tables import Table


@pytest.fixture
def fill(small, tmp_path, monkeypatch):
    """Run measurements at a tiny size; gives the document that they fill."""
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))

    def fill(*names):
        page = tmp_path / "page.md"
        page.write_text("".join(f"<!-- {name} -->\nbefore\n<!-- end of {name} -->\n" for name in names))
        flags = ("--collections", small / "collections", "--model", small / "reranker", "--encoder", small / "encoder")
        only = ("--quick", "--only", *names, *flags, "--work", tmp_path / "work", "--output", page)
        main([str(flag) for flag in only])
        text = page.read_text()
        for name in names:
            assert text.split(f"<!-- {name} -->\n")[1].startswith("| ")
        return text

    return fill


def test_every_measurement_runs_and_fills_the_document(fill):
    text = fill(*MEASUREMENTS)
    assert "before" not in text
    assert "both runs are the same byte for byte" in text
    (pairs,) = re.findall(r"(\d+) distinct pairs", text)
    assert f"{pairs} pairs scored, then 0" in text  # of the same search


@pytest.mark.long
@pytest.mark.parametrize("names", [SERVED, ("stores", "large"), ("cluster",)])
def test_measurements_of_services_stores_sizes_and_ray_fill_the_document(fill, names):
    for package in ("milvus_lite", "qdrant_client", "ray"):
        pytest.importorskip(package)
    rows = [line.strip("| ").split(" | ") for line in fill(*names).splitlines() if line.startswith("| ")]
    if "stores" in names:
        exact = [row for row in rows if row[0] in ("FAISS, flat", "Milvus Lite, FLAT", "Qdrant, local mode")]
        assert [row[-3:] for row in exact] == [["all", "all", "4"]] * 3
        assert [row[0] for row in rows if row[1] == "IVFPQ"] == ["300", "600"]
    if "cluster" in names:  # the bytes of one process, also if workers are killed
        assert [row[-1] for row in rows if row[0].startswith(("one", "Ray"))] == ["yes"] * 4


@pytest.mark.slow
def test_lucene_finds_what_faiss_finds(fill):
    rows = [line.strip("| ").split(" | ") for line in fill("lucene").splitlines() if "flat |" in line]
    assert [row[4] for row in rows] == ["1.000"] * 2  # passages repeat each other, so orders differ


def test_flops_agree_with_the_published_formula(tmp_path):
    """MiniLM-L6: 6 (3.54e6 L + 1536 L^2)."""
    (tmp_path / "config.json").write_text('{"num_hidden_layers": 6, "hidden_size": 384, "intermediate_size": 1536}')
    expected = sum(6 * (3_538_944 * length + 1536 * length**2) for length in (128, 40))
    assert flops(tmp_path, [128, 40]) == expected


def test_a_document_without_marks_is_refused_and_text_outside_marks_is_kept(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold | \\1 text\n<!-- end of a -->\nafter\n")
    with pytest.raises(TourError, match=r"no marks for the table \(b\)"):
        check_document(page, ["a", "b"])
    fill_document(page, [Report("a", "title", Table([["x", "y"], ["1", "2\\1"]]), "Note.")], machine="Here.")
    assert page.read_text() == (
        "before\n<!-- a -->\n| x | y |\n| --- | ---: |\n| 1 | 2\\1 |\n\nNote. Here.\n<!-- end of a -->\nafter\n"
    )
