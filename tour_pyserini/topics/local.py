"""Topics in files on this machine, read without Java."""

import re
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import chain
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.topics.dpr import dpr_topic, looks_like_dpr
from tour_pyserini.topics.dpr_json import dpr_json_topics, has_ids
from tour_pyserini.topics.json_file import load_json
from tour_pyserini.topics.jsonl import json_topic, lacks_id, numbered_json_topic
from tour_pyserini.topics.lines import Line, read_lines
from tour_pyserini.topics.place import Place
from tour_pyserini.topics.retrieval_json import retrieval_json_topics
from tour_pyserini.topics.squad import looks_like_squad, squad_topics
from tour_pyserini.topics.topic import Topic, with_text
from tour_pyserini.topics.tsv import tsv_topic

LINES = {".tsv", ".txt", ".csv", ".jsonl"}  # DPR names its tab-separated questions .csv
CANONICAL_INTEGER = re.compile("0|[1-9][0-9]{0,17}")  # longer ones need not fit in 64 bits

Topics = dict[int | str, dict[str, Any]]


def local_topics(path: Path, only: Set[str] | None = None) -> Topics | None:
    """Topics by id, as Pyserini has them: `{id: {"title": text, "answers": [...]}}`.

    Args:
        path: the file.
        only: ids of the topics that are wanted, all if not given; of others not even a text is asked.

    Returns:
        None for what only Pyserini reads: its own `.json`, its names for topics, other endings.
    """
    kind = _kind(path)
    if kind == ".json":
        return _from_json(path, only)
    return _from_lines(path, only) if kind in LINES else None


def _kind(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _from_json(path: Path, only: Set[str] | None) -> Topics | None:
    value = load_json(path)
    if looks_like_squad(value):
        return _by_id(path, squad_topics(path, value), only, integers=False)
    if isinstance(value, list):
        return _by_id(path, dpr_json_topics(path, value), only, integers=not has_ids(value))
    if isinstance(value, dict) and value and all(isinstance(topic, dict) for topic in value.values()):
        if all(isinstance(topic.get("title"), str) for topic in value.values()):
            return None
        return _by_id(path, retrieval_json_topics(path, value), only, integers=False)
    raise TourError(f"{path} is neither a list of questions with answers, nor in SQuAD's layout, nor Pyserini's.")


def _from_lines(path: Path, only: Set[str] | None) -> Topics:
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise TourError(f"the topics file {path} is empty.")
    parse = _format(first)
    # Pyserini has integers where ids are integers ("007" is not one); JSON says itself what is a string.
    return _by_id(path, _parsed(parse, chain([first], lines)), only, integers=parse is not json_topic)


def _parsed(parse: Callable[[Line, int], Topic], lines: Iterable[Line]) -> Iterator[tuple[Place, Topic]]:
    return ((line, parse(line, position)) for position, line in enumerate(lines))


def _format(first: Line) -> Callable[[Line, int], Topic]:
    """The function (line, position) -> Topic for a file that begins with this line."""
    if first.text.lstrip().startswith("{") or _kind(first.path) == ".jsonl":
        return numbered_json_topic if lacks_id(first) else json_topic
    return dpr_topic if looks_like_dpr(first) else tsv_topic


def _by_id(path: Path, topics: Iterable[tuple[Place, Topic]], only: Set[str] | None, *, integers: bool) -> Topics:
    found: dict[str, Topic] = {}
    for place, topic in topics:
        if topic.qid in found:
            place.refuse(f"repeats the query id {topic.qid!r}")
        found[topic.qid] = topic if only is not None and topic.qid not in only else with_text(place, topic)
    if not found:
        raise TourError(f"the topics file {path} holds no topic.")
    integers = integers and all(map(CANONICAL_INTEGER.fullmatch, found))
    return {int(qid) if integers else qid: _fields(topic) for qid, topic in found.items()}


def _fields(topic: Topic) -> dict[str, Any]:
    return {"title": topic.text} | ({} if topic.answers is None else {"answers": topic.answers})
