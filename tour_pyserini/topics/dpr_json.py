"""Questions in one JSON list: DPR's training data and retrieval results, EntityQuestions, FiD's data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tour_pyserini.topics.json_record import ID_FIELDS, first_of, numbered_record_topic, record_topic
from tour_pyserini.topics.place import Entry, Place
from tour_pyserini.topics.topic import Topic


def has_ids(entries: list[Any]) -> bool:
    """Whether the entries have ids of their own; others are numbered 0, 1, 2, ..., as Pyserini numbers questions."""
    return bool(entries) and isinstance(entries[0], dict) and first_of(entries[0], ID_FIELDS) is not None


def dpr_json_topics(path: Path, entries: list[Any]) -> Iterator[tuple[Place, Topic]]:
    """The topics of `[{"question": ..., "answers": [...], ...}, ...]`; other fields are passed over."""
    own_ids = has_ids(entries)
    for position, record in enumerate(entries):
        place = Entry(path, f"entry [{position}]")
        if not isinstance(record, dict):
            place.refuse("is not a JSON object")
        topic = record_topic(place, record) if own_ids else numbered_record_topic(place, position, record)
        if topic.answers is None:
            place.refuse("has no answers")
        yield place, topic
