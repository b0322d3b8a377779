"""One query's path through its rounds, read from a trace, and as text."""

import math
import os
from collections.abc import Mapping, Sequence, Set
from json import loads
from typing import Any, NamedTuple

from tour_pyserini.data.input_files import read_lines
from tour_pyserini.data.runs import best_first, read_run
from tour_pyserini.errors import TourError

_NUMBER = int | float


class PathRound(NamedTuple):
    """One round on a query's path.

    Attributes:
        docids: the first hits of this round's retrieval, in order.
        labels: the re-ranker's score of each of them, from this round or an earlier one; NaN where it has none.
        labelled: those that got their label in this round.
        cosine: cosine of the query vector and the first query vector; None for a vector of length 0.
        stop_reason: why the query stopped after this round; None if it did not.
        query: the query vector, if the trace has it.
        similarities: similarity of each hit to the query vector; None where it is not known.
    """

    docids: list[str]
    labels: list[float]
    labelled: list[str]
    cosine: float | None
    stop_reason: str | None
    query: list[float] | None = None
    similarities: list[float | None] | None = None


class FinalHit(NamedTuple):
    """One line of the list that a search returned.

    Attributes:
        docid: the passage.
        score: its score in the list.
        label: the re-ranker's score of it; NaN where it has none.
    """

    docid: str
    score: float
    label: float


def read_final_list(run: str | os.PathLike[str], qid: str, path: Sequence[PathRound]) -> list[FinalHit]:
    """The list of a query in a TREC run, best first, with the labels that its path has.

    Raises:
        TourError: if the run has no hits of the query.
    """
    hits = best_first(hit for hit in read_run(run) if hit.query_id == qid)
    if not hits:
        raise TourError(f"{run} has no hits of the query {qid!r}; give the run of the same search as the trace.")
    labels = {docid: label for one in path for docid, label in zip(one.docids, one.labels, strict=False)}
    return [FinalHit(hit.doc_id, hit.score, labels.get(hit.doc_id, float("nan"))) for hit in hits]


def first_words(text: str, length: int) -> str:
    """The first words of a passage, in at most `length` characters; "..." stands for the others.

    Example:
        >>> first_words("Rack and rope lines of the Hollin range", 20)
        'Rack and rope ...'
    """
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 3].rsplit(" ", 1)[0] + " ..."


def read_paths(trace: str | os.PathLike[str]) -> dict[str, list[PathRound]]:
    """The path of every query in a trace, by query id."""
    paths: dict[str, list[PathRound]] = {}
    for line in read_lines(trace):
        try:
            qid, path_round = _round(loads(line.text))
            paths.setdefault(qid, []).append(path_round)
        except (ValueError, KeyError, TypeError, RecursionError):
            line.refuse("is not a line of a trace; make it with --trace")
    return paths


def _round(record: Mapping[str, Any]) -> tuple[str, PathRound]:
    """The query id and the round of a line.

    Raises:
        TypeError: if a value is not of its type.
    """
    return _of(str, record["qid"]), PathRound(
        docids=[_of(str, docid) for docid in _of(list, record["docids"])],
        labels=[float("nan") if label is None else float(_of(_NUMBER, label)) for label in record["labels"]],
        labelled=[_of(str, docid) for docid in _of(list, record["labelled"])],
        cosine=_of(_NUMBER | None, record["cosine"]),
        stop_reason=_of(str | None, record["stop"]),
        query=None if record.get("query") is None else [_of(_NUMBER, value) for value in _of(list, record["query"])],
        similarities=[_of(_NUMBER | None, value) for value in _of(list, record["similarities"])],
    )


def _of(kind: Any, value: Any) -> Any:
    """The value, if it is of that kind."""
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not of the type {kind}")
    return value


def most_improved_query(paths: Mapping[str, list[PathRound]], relevant: Mapping[str, Set[str]]) -> str:
    """The query whose best relevant passage climbed the most ranks; queries where it ended at rank 1 come first.

    Of equal ones, the one with the most rounds is taken.
    """

    def climb(qid: str) -> tuple[int, int, int]:
        path = paths[qid]
        first, last = (_best_rank(path_round, relevant.get(qid, set())) for path_round in (path[0], path[-1]))
        return (last == 1, first - last, len(path))

    return max(sorted(paths), key=climb)


def as_text(
    path: Sequence[PathRound],
    query: str,
    texts: Mapping[str, str],
    relevant: Set[str],
    *,
    final: Sequence[FinalHit] = (),
    shown: int = 5,
) -> str:
    """The first candidates of each round with the re-ranker's scores; `*` is judged relevant, `+` is new.

    Args:
        path: the query's rounds.
        query: its text.
        texts: docid to passage.
        relevant: docids judged relevant.
        final: the list that the search returned; its scores are shown.
        shown: candidates per round.
    """
    lines, seen = [f"query: {query}"], set()
    for t, path_round in enumerate(path):
        end = f", stopped: {path_round.stop_reason}" if path_round.stop_reason else ""
        cosine = "-" if path_round.cosine is None else f"{path_round.cosine:.3f}"
        lines.append(f"t = {t} (cosine to the first vector {cosine}{end})")
        for rank, (docid, label) in enumerate(zip(path_round.docids[:shown], path_round.labels, strict=False), start=1):
            marks = ("*" if docid in relevant else " ") + ("+" if t and docid not in seen else " ")
            lines.append(_text_line(rank, marks, docid, label, texts))
        seen.update(path_round.docids)
    lines += ["final list (similarities and the re-ranker's scores combined)"] if final else []
    for rank, hit in enumerate(final[:shown], start=1):
        marks = ("*" if hit.docid in relevant else " ") + ("+" if hit.docid not in seen else " ")
        lines.append(_text_line(rank, marks, hit.docid, hit.score, texts))
    return "\n".join(lines)


def _text_line(rank: int, marks: str, docid: str, score: float, texts: Mapping[str, str]) -> str:
    value = "-" if math.isnan(score) else f"{score:.2f}"
    return f"  {rank:2d}. {marks} {docid:8s} {value:>7s}  {first_words(texts[docid], 83)}"


def _best_rank(path_round: PathRound, relevant: Set[str]) -> int:
    """The rank of the first relevant candidate; one more than the last rank if there is none."""
    docids = path_round.docids
    return min((docids.index(docid) + 1 for docid in relevant if docid in docids), default=len(docids) + 1)
