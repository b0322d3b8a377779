"""One query's path through the iterations, from a trace: as text, and as a picture."""

import json
import os
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.lines import read_lines
from tour_pyserini.support.files import replaced_whole


class PathRound(NamedTuple):
    """One retrieval on a query's path: its candidates in order, their scores, and why it ended there.

    A score is not a number where a candidate has none; `query` is the query's vector, where the trace has it.
    """

    docids: list[str]
    scores: list[float]
    labels: list[float]
    cosine: float
    stopped: str | None
    query: list[float] | None = None


def read_paths(trace: str | os.PathLike[str]) -> dict[str, list[PathRound]]:
    """The path of every query in a trace."""
    paths: dict[str, list[PathRound]] = {}
    for line in read_lines(trace):
        try:
            record = json.loads(line.text)
            scores = record["scores"] or [None] * len(record["docids"])
            scores = [float("nan") if score is None else float(score) for score in scores]
            ended = (record["cosine"], record["stopped"], record.get("query"))
            stop = PathRound(record["docids"], scores, record["labels"], *ended)
            paths.setdefault(record["qid"], []).append(stop)
        except (ValueError, KeyError, TypeError):
            line.refuse("is not a line of a trace; make it with --trace")
    return paths


def most_improved_query(paths: Mapping[str, list[PathRound]], relevant: Mapping[str, Set[str]]) -> str:
    """The query whose relevant passage climbed furthest to the first place, in the most iterations."""

    def climb(qid: str) -> tuple[int, int, int]:
        path = paths[qid]
        first, last = (_best_rank(stop, relevant.get(qid, set())) for stop in (path[0], path[-1]))
        return (last == 1, first - last, len(path))

    return max(sorted(paths), key=climb)


def as_text(path: list[PathRound], query: str, texts: Mapping[str, str], relevant: Set[str], *, shown: int = 5) -> str:
    """The first candidates of each retrieval, with the re-ranker's scores; `*` is judged relevant, `+` is new."""
    lines, met = [f"query: {query}"], set()
    for t, stop in enumerate(path):
        end = f", stopped: {stop.stopped}" if stop.stopped else ""
        lines.append(f"t = {t} (cosine to the first vector {stop.cosine:.3f}{end})")
        for rank, (docid, score) in enumerate(zip(stop.docids[:shown], stop.scores, strict=False), start=1):
            marks = ("*" if docid in relevant else " ") + ("+" if t and docid not in met else " ")
            lines.append(f"  {rank:2d}. {marks} {docid:8s} {score:7.2f}  {texts[docid][:80]}...")
        met.update(stop.docids)
    return "\n".join(lines)


def draw(path: list[PathRound], query: str, relevant: Set[str], output: str | os.PathLike[str]) -> None:
    """Draw each candidate's rank over the iterations; labels are the re-ranker's scores."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    depth = max(len(stop.docids) for stop in path)
    figure, axes = pyplot.subplots(figsize=(2.5 + 1.9 * len(path), 1.2 + 0.36 * depth), layout="constrained")
    for docid in dict.fromkeys(docid for stop in path for docid in stop.docids):
        _draw_line(axes, path, docid, docid in relevant)
    axes.set_title("\n".join(_wrapped(query)), fontsize=10)
    axes.set_xticks(range(len(path)), [f"t = {t}" for t in range(len(path))])
    axes.set_xlim(-0.45, len(path) - 0.55)
    axes.set_yticks(range(1, depth + 1))
    axes.set_ylim(depth + 0.8, 0.3)
    axes.set_ylabel("rank")
    axes.set_xlabel("numbers: re-ranker scores; red: judged relevant; filled: more than its share of the labels")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    with replaced_whole(output) as partial:
        figure.savefig(partial, dpi=150, format=Path(output).suffix.lstrip(".") or "png")
    pyplot.close(figure)


def _draw_line(axes: Any, path: list[PathRound], docid: str, is_relevant: bool) -> None:
    color = "#c0392b" if is_relevant else "#7f8c8d"
    ranks = [stop.docids.index(docid) + 1 if docid in stop.docids else None for stop in path]
    for t, rank in enumerate(ranks[:-1]):
        after = ranks[t + 1]
        if rank is not None and after is not None:
            axes.plot([t + 0.22, t + 0.78], [rank, after], color=color, lw=2 if is_relevant else 1, alpha=0.9)
    for t, rank in enumerate(ranks):
        if rank is None:
            continue
        score, label = path[t].scores[rank - 1], path[t].labels[rank - 1]
        chosen = label > 1 / len(path[t].docids)
        axes.annotate(
            f"{docid}  {score:.1f}",
            (t, rank),
            ha="center",
            va="center",
            fontsize=8,
            color="white" if chosen else color,
            bbox={"boxstyle": "round,pad=0.25", "fc": color if chosen else "white", "ec": color, "lw": 1},
        )


def _best_rank(stop: PathRound, relevant: Set[str]) -> int:
    return min(
        (stop.docids.index(docid) + 1 for docid in relevant if docid in stop.docids), default=len(stop.docids) + 1
    )


def _wrapped(text: str, width: int = 70) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)
