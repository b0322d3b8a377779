"""Run files: reading, the order of hits, Pyserini's formats, and formats of users."""

import io
from types import SimpleNamespace

import pytest
from ir_measures import ScoredDoc

from tour_pyserini.data import runs
from tour_pyserini.data.runs import RUN_FORMATS, open_run, read_rankings, read_run, register_run_format
from tour_pyserini.errors import TourError
from tour_pyserini.search import search_request
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.support.pyserini import ensure_java

RUN = "# made by hand\nq1 Q0 a 1 2.5 tag\n\nq1 Q0 b 2 2.5 tag and more\nq2 Q0 a 1 -1e3 t\n"


def test_runs_are_read_as_trec_eval_reads_them(tmp_path):
    (tmp_path / "run").write_text(RUN)
    hits = [ScoredDoc("q1", "a", 2.5), ScoredDoc("q1", "b", 2.5), ScoredDoc("q2", "a", -1000.0)]
    assert read_run(tmp_path / "run") == hits
    # Of equal scores the larger docid comes first.
    assert read_rankings(tmp_path / "run") == {"q1": [hits[1], hits[0]], "q2": hits[2:]}
    assert read_rankings(tmp_path / "run", ["q3", "q2", "q1"], hits=1) == {"q3": [], "q2": hits[2:], "q1": hits[1:2]}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (f"{RUN}q1 Q0 c 1 2.5\n", "line 6 .*not a hit"),
        (f"{RUN}q1 Q0 c 1 high t\n", "'high'"),
        (f"{RUN}q1 Q0 a 3 1 t\n", "second time"),
        ("\n# nothing\n", "no hits"),
        (RUN, "'q2'"),
    ],
)
def test_runs_that_are_refused(tmp_path, content, word):
    (tmp_path / "run").write_text(content)
    with pytest.raises(TourError, match=word):
        read_rankings(tmp_path / "run", ["q1"])


def hits(*found):
    return [SimpleNamespace(docid=docid, score=score) for docid, score in found]


HITS = {"q1": (("a", 2.0), ("b", 2.0), (" c ", 0.5)), "q2": (("döç", -1.5),), "q3": ()}
TOPICS = {qid: {"id": qid, "input": "one"} for qid in HITS}


def write(path, **options):
    with open_run(path, **options) as write_hits:
        for qid, found in HITS.items():
            write_hits(qid, hits(*found))


class CsvWriter(io.TextIOWrapper):
    def __init__(self, path, *, hits, tag, topics):
        super().__init__(open(path, "wb"))  # noqa: SIM115
        self.hits, self.tag = hits, tag

    def write(self, topic, hits):
        for rank, hit in enumerate(hits[: self.hits], start=1):
            super().write(f"{topic},{hit.docid},{rank},{hit.score:.3f},{self.tag}\n")


@pytest.mark.parametrize("most", [2, 1000])
@pytest.mark.parametrize("name", ["trec", "msmarco", "kilt"])
def test_built_in_formats_have_the_bytes_of_pyserinis_writers(tmp_path, name, most):
    ensure_java()
    from pyserini.output_writer import OutputFormat, get_output_writer

    assert {item.value for item in OutputFormat} <= set(RUN_FORMATS)
    write(tmp_path / "ours", output_format=name, hits=most, tag="mine", topics=TOPICS)
    theirs = str(tmp_path / "theirs")
    with get_output_writer(theirs, OutputFormat(name), "w", max_hits=most, tag="mine", topics=TOPICS) as writer:
        for qid, found in HITS.items():
            theirs_hits = hits(*found)
            if qid == "q1":
                theirs_hits[1].score = 2.0 - 1e-6  # runs have strictly decreasing scores
            writer.write(qid, theirs_hits)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes() != b""


def test_a_registered_format_is_known_to_requests_and_flags(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(runs._formats, "my-csv", CsvWriter)  # what is registered is gone after the test
    monkeypatch.delitem(runs._formats, "my-csv")
    register_run_format("my-csv", CsvWriter)
    with pytest.raises(TourError, match="already"):
        register_run_format("my-csv", CsvWriter)
    write(tmp_path / "a.csv", output_format="my-csv", hits=2, tag="mine")
    assert (tmp_path / "a.csv").read_text() == "q1,a,1,2.000,mine\nq1,b,2,2.000,mine\nq2,döç,1,-1.500,mine\n"
    assert SearchRequest(topics="t", output_format="my-csv").output_format == "my-csv"
    assert search_request(["--topics", "t", "--output-format", "my-csv"]).output_format == "my-csv"
    with pytest.raises(SystemExit):
        search_request(["--help-all"])
    assert f"{{{','.join(RUN_FORMATS)}}}" in "".join(capsys.readouterr().out.split())
