"""Run files are the same bytes as those of Pyserini's writers."""

from dataclasses import dataclass

import pytest

from tour_pyserini.data.runs import RUN_FORMATS, write_run
from tour_pyserini.errors import TourError
from tour_pyserini.support.java import ensure_java


@dataclass
class Hit:
    docid: str
    score: float


TOPICS = {
    7: [Hit("d1", 12.3456789), Hit(" d2 ", -1.5), Hit("döç", -1.5000004), Hit("d4", -1e-9)],
    "q2": [],
    "q 3": [Hit("d1", 1e9)],
}


@pytest.mark.parametrize("output_format", ["trec", "msmarco"])
@pytest.mark.parametrize("hits", [1, 3, 1000])
def test_bytes_are_those_of_pyserini(tmp_path, output_format, hits):
    ensure_java()
    from pyserini.output_writer import OutputFormat, get_output_writer

    theirs = get_output_writer(
        str(tmp_path / "theirs"), OutputFormat(output_format), "w", max_hits=hits, tag="Tour", topics={}
    )
    ours = RUN_FORMATS[output_format](tmp_path / "ours", hits=hits, tag="Tour", topics={})
    for writer in (ours, theirs):
        with writer:
            for topic, found in TOPICS.items():
                writer.write(topic, found)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert (tmp_path / "ours").stat().st_size > 0


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(TourError, match="'xml' is unknown: choose one of trec, msmarco, kilt"):
        write_run([], tmp_path / "run", output_format="xml")
