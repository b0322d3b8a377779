"""One query's path through the rounds of the loop, read from a trace: as text, and as a picture."""

import json
import os
import textwrap
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.lines import read_lines
from tour_pyserini.support.files import atomic_replace


class PathRound(NamedTuple):
    """One round on a query's path.

    Attributes:
        docids: the candidates retrieved in this round, in order.
        labels: the re-ranker's score of each candidate; NaN where it has none.
        target: the target probability of each candidate.
        cosine: cosine of the query vector and the first query vector; None for a vector of length 0.
        stop_reason: why the query stopped after this round; None if it did not.
        query: the query vector, if the trace has it.
    """

    docids: list[str]
    labels: list[float]
    target: list[float]
    cosine: float | None
    stop_reason: str | None
    query: list[float] | None = None


def read_paths(trace: str | os.PathLike[str]) -> dict[str, list[PathRound]]:
    """The path of every query in a trace, by query id; traces of version 0.1 can be read too."""
    paths: dict[str, list[PathRound]] = {}
    for line in read_lines(trace):
        try:
            record = _new_layout(json.loads(line.text))
            labels = record["labels"] or [None] * len(record["docids"])
            path_round = PathRound(
                docids=record["docids"],
                labels=[float("nan") if label is None else float(label) for label in labels],
                target=record["target"],
                cosine=record["cosine"],
                stop_reason=record["stop"],
                query=record.get("query"),
            )
            paths.setdefault(record["qid"], []).append(path_round)
        except (ValueError, KeyError, TypeError):
            line.refuse("is not a line of a trace; make it with --trace")
    return paths


def _new_layout(record: dict[str, Any]) -> dict[str, Any]:
    """A line of a trace in the present layout; version 0.1 had `scores`, `labels` and `stopped` instead."""
    if "scores" not in record:
        return record
    return {**record, "labels": record["scores"], "target": record["labels"], "stop": record["stopped"]}


def most_improved_query(paths: Mapping[str, list[PathRound]], relevant: Mapping[str, Set[str]]) -> str:
    """The query whose best relevant passage climbed the most ranks; queries where it ended at rank 1 come first.

    Of equal ones, the one with the most rounds is taken.
    """

    def climb(qid: str) -> tuple[int, int, int]:
        path = paths[qid]
        first, last = (_best_rank(path_round, relevant.get(qid, set())) for path_round in (path[0], path[-1]))
        return (last == 1, first - last, len(path))

    return max(sorted(paths), key=climb)


def as_text(path: list[PathRound], query: str, texts: Mapping[str, str], relevant: Set[str], *, shown: int = 5) -> str:
    """The first candidates of each round with the re-ranker's scores; `*` is judged relevant, `+` is new.

    Args:
        path: the query's rounds.
        query: its text.
        texts: docid to passage.
        relevant: docids judged relevant.
        shown: candidates per round.
    """
    lines, seen = [f"query: {query}"], set()
    for t, path_round in enumerate(path):
        end = f", stopped: {path_round.stop_reason}" if path_round.stop_reason else ""
        cosine = "-" if path_round.cosine is None else f"{path_round.cosine:.3f}"
        lines.append(f"t = {t} (cosine to the first vector {cosine}{end})")
        for rank, (docid, label) in enumerate(zip(path_round.docids[:shown], path_round.labels, strict=False), start=1):
            marks = ("*" if docid in relevant else " ") + ("+" if t and docid not in seen else " ")
            lines.append(f"  {rank:2d}. {marks} {docid:8s} {label:7.2f}  {texts[docid][:80]}...")
        seen.update(path_round.docids)
    return "\n".join(lines)


def draw(path: list[PathRound], query: str, relevant: Set[str], output: str | os.PathLike[str]) -> None:
    """Draw each candidate's rank over the rounds, with the re-ranker's scores."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    depth = max(len(path_round.docids) for path_round in path)
    figure, axes = pyplot.subplots(figsize=(2.5 + 1.9 * len(path), 1.2 + 0.36 * depth), layout="constrained")
    for docid in dict.fromkeys(docid for path_round in path for docid in path_round.docids):
        _draw_candidate(axes, path, docid, docid in relevant)
    axes.set_title("\n".join(textwrap.wrap(query, 70)), fontsize=10)
    axes.set_xticks(range(len(path)), [f"t = {t}" for t in range(len(path))])
    axes.set_xlim(-0.45, len(path) - 0.55)
    axes.set_yticks(range(1, depth + 1))
    axes.set_ylim(depth + 0.8, 0.3)
    axes.set_ylabel("rank")
    axes.set_xlabel("numbers: re-ranker scores; red: judged relevant; filled: target probability above average")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    with atomic_replace(output) as partial:
        figure.savefig(partial, dpi=150, format=Path(output).suffix.lstrip(".") or "png")
    pyplot.close(figure)


def _draw_candidate(axes: Any, path: list[PathRound], docid: str, is_relevant: bool) -> None:
    color = "#c0392b" if is_relevant else "#7f8c8d"
    ranks = [path_round.docids.index(docid) + 1 if docid in path_round.docids else None for path_round in path]
    for t, rank in enumerate(ranks[:-1]):
        after = ranks[t + 1]
        if rank is not None and after is not None:
            axes.plot([t + 0.22, t + 0.78], [rank, after], color=color, lw=2 if is_relevant else 1, alpha=0.9)
    for t, rank in enumerate(ranks):
        if rank is None:
            continue
        label, target = path[t].labels[rank - 1], path[t].target[rank - 1]
        filled = target > 1 / len(path[t].docids)
        axes.annotate(
            f"{docid}  {label:.1f}",
            (t, rank),
            ha="center",
            va="center",
            fontsize=8,
            color="white" if filled else color,
            bbox={"boxstyle": "round,pad=0.25", "fc": color if filled else "white", "ec": color, "lw": 1},
        )


def _best_rank(path_round: PathRound, relevant: Set[str]) -> int:
    """The rank of the first relevant candidate; one more than the last rank if there is none."""
    docids = path_round.docids
    return min((docids.index(docid) + 1 for docid in relevant if docid in docids), default=len(docids) + 1)
