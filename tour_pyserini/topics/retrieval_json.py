"""Questions in Pyserini's retrieval results for question answering: one JSON object with the ids as its names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tour_pyserini.topics.json_record import topic_with_id
from tour_pyserini.topics.place import Entry, Place
from tour_pyserini.topics.topic import Topic


def retrieval_json_topics(path: Path, records: dict[str, dict[str, Any]]) -> Iterator[tuple[Place, Topic]]:
    """The topics of `{id: {"question": ..., "answers": [...], "contexts": [...]}, ...}`; contexts are passed over."""
    for qid, record in records.items():
        place = Entry(path, f"query {qid!r}")
        yield place, topic_with_id(place, qid, record)
