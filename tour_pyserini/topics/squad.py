"""Questions and answers in the layout of SQuAD: articles, their paragraphs, and the questions about each of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tour_pyserini.topics.json_record import record_topic
from tour_pyserini.topics.place import Entry, Place
from tour_pyserini.topics.topic import Topic


def looks_like_squad(value: Any) -> bool:
    """Whether a JSON file is an object with a list `data`, as SQuAD 1.1, SQuAD 2.0 and XQuAD are."""
    return isinstance(value, dict) and isinstance(value.get("data"), list)


def squad_topics(path: Path, value: dict[str, Any]) -> Iterator[tuple[Place, Topic]]:
    """The questions in file order; equal answers of several annotators are kept once, in order."""
    for place, question in _below(path, "", value, ("data", "paragraphs", "qas")):
        answers = question.get("answers")
        if not isinstance(answers, list) or not all(
            isinstance(one, dict) and isinstance(one.get("text"), str) for one in answers
        ):
            place.refuse("does not have a list of answers, each with a text")
        texts = list(dict.fromkeys(one["text"] for one in answers))
        fields = {"id": question.get("id"), "question": question.get("question"), "answers": texts}
        yield place, record_topic(place, fields)


def _below(path: Path, where: str, value: dict[str, Any], names: tuple[str, ...]) -> Iterator[tuple[Entry, dict]]:
    """The objects at the end of nested lists, each with its place, such as `data[0].paragraphs[2].qas[1]`."""
    name, *deeper = names
    for position, one in enumerate(value[name]):
        place = Entry(path, f"{where}{name}[{position}]")
        if not isinstance(one, dict):
            place.refuse("is not a JSON object")
        if not deeper:
            yield place, one
        elif isinstance(one.get(deeper[0]), list):
            yield from _below(path, f"{place.where}.", one, tuple(deeper))
        else:
            place.refuse(f"has no list `{deeper[0]}`")
