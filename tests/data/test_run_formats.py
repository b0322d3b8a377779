"""Formats of run files: Pyserini's, and formats of users."""

from types import SimpleNamespace

import pytest

from tour_pyserini.cli.search_flags import search_request
from tour_pyserini.data import runs as run_formats
from tour_pyserini.data.runs import RUN_FORMATS, register_run_format, write_run
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.search_request import SearchRequest
from tour_pyserini.support.java import ensure_java

SCORES = {"q1": [("a", 2.0), ("b", 2.0), ("c", 0.5)], "q2": [("b", 0.25)]}
TOPICS = {"q1": {"id": "q1", "input": "one"}, "q2": {"id": "q2", "input": "two"}}


def batches():
    for qid, hits in SCORES.items():
        yield SimpleNamespace(ids=[qid], hits={qid: [SimpleNamespace(docid=d, score=s) for d, s in hits]})


class CsvWriter:
    def __init__(self, path, *, hits, tag, topics):
        self.path, self.hits, self.tag = path, hits, tag

    def __enter__(self):
        self.file = open(self.path, "w")
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, topic, hits):
        for rank, hit in enumerate(hits[: self.hits], start=1):
            self.file.write(f"{topic},{hit.docid},{rank},{hit.score:.3f},{self.tag}\n")


@pytest.fixture
def my_csv():
    register_run_format("my-csv", CsvWriter)
    yield
    del run_formats._formats["my-csv"]


@pytest.mark.parametrize("name", ["trec", "msmarco", "kilt"])
def test_built_in_formats_have_the_bytes_of_pyserinis_writers(tmp_path, name):
    ensure_java()
    from pyserini.output_writer import OutputFormat, get_output_writer

    write_run(batches(), tmp_path / "ours", output_format=name, hits=2, tag="mine", topics=TOPICS)
    with get_output_writer(
        str(tmp_path / "theirs"), OutputFormat(name), "w", max_hits=2, tag="mine", topics=TOPICS
    ) as writer:
        for batch in batches():
            for qid, hits in batch.hits.items():
                if qid == "q1":
                    hits[1].score = 2.0 - 1e-6  # runs have strictly decreasing scores
                writer.write(qid, hits)
    assert (tmp_path / "ours").read_text().count("q1") == (1 if name == "kilt" else 2)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_every_format_of_pyserini_is_built_in():
    ensure_java()
    from pyserini.output_writer import OutputFormat

    assert {item.value for item in OutputFormat} <= set(RUN_FORMATS)


def test_a_registered_format_is_known_to_requests_and_flags(tmp_path, my_csv, capsys):
    write_run(batches(), tmp_path / "a.csv", output_format="my-csv", hits=2, tag="mine")
    assert (tmp_path / "a.csv").read_text() == "q1,a,1,2.000,mine\nq1,b,2,2.000,mine\nq2,b,1,0.250,mine\n"
    assert SearchRequest(topics="t", output_format="my-csv").output_format == "my-csv"
    assert search_request(["--topics", "t", "--output-format", "my-csv"]).output_format == "my-csv"
    with pytest.raises(SystemExit):
        search_request(["--help"])
    assert f"{{{','.join(RUN_FORMATS)}}}" in "".join(capsys.readouterr().out.split())


def test_an_unknown_format_is_refused_and_writes_nothing(tmp_path):
    with pytest.raises(TourError, match="the run format 'my-csv' is unknown: choose one of trec, msmarco, kilt"):
        write_run(batches(), tmp_path / "a.csv", output_format="my-csv")
    assert not list(tmp_path.iterdir())
    with pytest.raises(TourError, match=r"--output-format must be one of trec, msmarco, kilt.*, not 'my-csv'"):
        SearchRequest(topics="t", output_format="my-csv")


@pytest.mark.parametrize(
    ("name", "open_writer", "message"),
    [
        ("two words", CsvWriter, "'two words' cannot name a run format; use one word"),
        (3, CsvWriter, "3 cannot name a run format"),
        ("trec", CsvWriter, "the run format 'trec' is already registered"),
        ("new", "writer", "the run format 'new' needs a function that opens a writer, not 'writer'"),
    ],
)
def test_wrong_formats_are_not_registered(name, open_writer, message):
    before = dict(RUN_FORMATS)
    with pytest.raises(TourError, match=message):
        register_run_format(name, open_writer)
    assert dict(RUN_FORMATS) == before
