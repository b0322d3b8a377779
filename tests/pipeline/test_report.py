"""The report of a comparison: text, and tables for notebooks."""

import copy
import pickle

import pytest

from tour_pyserini.compare import CompareRequest, compare_runs
from tour_pyserini.evaluation.tables import Table


@pytest.fixture
def files(tmp_path):
    """Two runs of two queries; the second finds the judged document first."""
    (tmp_path / "qrels").write_text("1 0 a 1\n2 0 b 1\n")
    (tmp_path / "<one>").write_text("1 Q0 b 1 2 t\n1 Q0 a 2 1 t\n2 Q0 b 1 2 t\n")
    (tmp_path / "two").write_text("1 Q0 a 1 2 t\n2 Q0 b 1 2 t\n")
    (tmp_path / "topics.tsv").write_text("1\tfirst <i>query</i>\n2\tsecond\n")
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "a", "title": "", "text": "<b>bold</b>"}\n{"_id": "b", "title": "", "text": "plain"}\n'
    )
    return tmp_path


def request(files, **changes):
    runs = [str(files / "<one>"), str(files / "two")]
    return CompareRequest(qrels=str(files / "qrels"), runs=runs, measures=["RR"], baseline=runs[0], **changes)


def test_a_report_is_its_text_and_shows_its_tables(files):
    report = compare_runs(request(files))
    assert isinstance(report, str) and report.startswith("run ")
    means, against = report.parts
    assert [line[:2] for line in means.cells] == [["run", "RR"], ["<one>", "0.7500"], ["two", "1.0000"]]
    assert against.cells[1][2] == "+0.2500"
    html = report._repr_html_()
    assert html.count("<table>") == 2 and "&lt;one&gt;" in html and "<one>" not in html
    assert "<caption>Against &lt;one&gt;" in html
    assert report.figure and html.endswith(report.figure) and "<svg" not in report
    assert "1 won, 1 tied, 0 lost, mean +0.2500" in report.figure and "Gain over &lt;one&gt;" in report.figure
    for same in (copy.copy(report), pickle.loads(pickle.dumps(report))):
        assert same == report and same._repr_html_() == html


def test_the_format_changes_the_text_and_not_the_tables(files):
    text, markdown = compare_runs(request(files)), compare_runs(request(files, format="markdown"))
    assert markdown.startswith("| run |") and markdown._repr_html_() == text._repr_html_()


def test_examples_are_shown_as_they_are(files):
    report = compare_runs(request(files, show=1, topics=str(files / "topics.tsv"), corpus=str(files / "corpus.jsonl")))
    assert "<i>query</i>" in report and "&lt;i&gt;query" in report._repr_html_()
    assert "<i>" not in report._repr_html_() and "<b>" not in report._repr_html_()


def test_without_a_baseline_there_is_no_figure(files):
    runs = [str(files / "two")]
    report = compare_runs(CompareRequest(qrels=str(files / "qrels"), runs=runs, measures=["RR"]))
    assert report.figure == "" and "<svg" not in report._repr_html_()


def test_numbers_are_aligned_right():
    html = Table([["run", "RR"], ["a", "0.5"]])._repr_html_()
    assert '<td style="text-align: left">a</td><td style="text-align: right">0.5</td>' in html
