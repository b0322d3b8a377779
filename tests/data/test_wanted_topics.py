"""Topics that will not be used may have an empty text."""

import pytest

from tour_pyserini.data.topics import read_topics
from tour_pyserini.errors import TourError

LINES = {
    "queries.jsonl": '{"_id": "a", "text": "why"}\n{"_id": "0", "text": ""}\n',
    "topics.tsv": "a\twhy\n0\t \n",
}


@pytest.mark.parametrize("name", LINES)
def test_a_topic_without_text_is_refused_only_if_it_is_used(tmp_path, name):
    (tmp_path / name).write_text(LINES[name])
    assert dict(read_topics(tmp_path / name, only={"a"}))["a"] == "why"
    for wanted in (None, {"0"}):
        with pytest.raises(TourError, match="line 2 has no text for the query '0'"):
            read_topics(tmp_path / name, only=wanted)
