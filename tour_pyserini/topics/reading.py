"""Topics from whatever names them."""

import os
import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tour_pyserini.errors import TourError
from tour_pyserini.plugs.java import ensure_java
from tour_pyserini.topics.dpr import dpr_topic, looks_like_dpr
from tour_pyserini.topics.jsonl import json_topic, lacks_id, numbered_json_topic
from tour_pyserini.topics.lines import Line, read_lines
from tour_pyserini.topics.topic import Topic
from tour_pyserini.topics.tsv import tsv_topic

if TYPE_CHECKING:
    from pyserini.query_iterator import QueryIterator

READ_HERE = {".tsv", ".txt", ".jsonl"}
CANONICAL_INTEGER = re.compile("0|[1-9][0-9]*")


def read_topics(spec: str | os.PathLike[str], topics_format: str = "default") -> "QueryIterator":
    """Read queries into one of Pyserini's query iterators, in Pyserini's order.

    Args:
        spec: a `.tsv` or `.txt` file (`id<TAB>text`, or DPR's `question<TAB>[answers]`), a `.jsonl` file (BEIR's
            queries, or questions with answers), each also as `.gz`; anything else is left to Pyserini: its other
            formats and its names for topics.
        topics_format: one of Pyserini's formats (`default`, `kilt`, `raw_jsonl`, ...); all but the default are left
            to Pyserini.

    Returns:
        An iterator over (id, text); `topics[id]["answers"]` is a list of strings where the file has answers.

    Example:
        for qid, text in read_topics("scifact/queries.jsonl"):
            ...
    """
    path = Path(spec)
    if topics_format != "default" or _kind(path) not in READ_HERE:
        return _from_pyserini(str(spec), topics_format)
    topics = _read(path)
    ensure_java()
    from pyserini.query_iterator import DefaultQueryIterator

    return DefaultQueryIterator(topics)


def _kind(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _read(path: Path) -> dict[int | str, dict[str, Any]]:
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise TourError(f"the topics file {path} is empty.")
    parse = _format(first)
    found: dict[str, Topic] = {}
    for position, line in enumerate(chain([first], lines)):
        topic = parse(line, position)
        if topic.qid in found:
            line.refuse(f"repeats the query id {topic.qid!r}")
        found[topic.qid] = topic
    # Pyserini has integers where ids are integers ("007" is not one); JSON says itself what is a string.
    integers = parse is not json_topic and all(map(CANONICAL_INTEGER.fullmatch, found))
    return {int(qid) if integers else qid: _fields(topic) for qid, topic in found.items()}


def _format(first: Line) -> Callable[[Line, int], Topic]:
    """The function (line, position) -> Topic for a file that begins with this line."""
    if first.text.lstrip().startswith("{") or _kind(first.path) == ".jsonl":
        return numbered_json_topic if lacks_id(first) else json_topic
    return dpr_topic if looks_like_dpr(first) else tsv_topic


def _fields(topic: Topic) -> dict[str, Any]:
    return {"title": topic.text} | ({} if topic.answers is None else {"answers": topic.answers})


def _from_pyserini(name: str, topics_format: str) -> "QueryIterator":
    ensure_java()
    from pyserini.query_iterator import TopicsFormat, get_query_iterator

    try:
        kind = TopicsFormat(topics_format)
    except ValueError:
        known = ", ".join(one.value for one in TopicsFormat)
        raise TourError(f"there is no topics format {topics_format!r}; choose one of {known}.") from None
    try:
        return get_query_iterator(name, kind)
    except Exception as error:  # whatever Pyserini or Java throws
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise TourError(f"Pyserini cannot read the topics {name!r} ({topics_format}): {reason}.") from error
