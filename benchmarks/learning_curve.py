"""Measure what `learn` gains with the number of labels seen: dense search, and the labels that the default method buys.

    python -m benchmarks.learning_curve measure --name revdict --stream train.jsonl --test test.jsonl \
        --qrels test.tsv --index indexes/revdict --corpus corpus.jsonl --sizes 250 500 1000 2000 --output revdict.json
    python -m benchmarks.learning_curve draw revdict.json nq.json --picture learning.png

The labels of the stream must be in the score cache: search it first (`search --method rerank --depth 10`).
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.command import run
from tour_pyserini.core.config import TourConfig
from tour_pyserini.evaluation.measures import compare
from tour_pyserini.evaluation.paired_tests import compare_with_baseline
from tour_pyserini.evaluation.pictures import save_picture
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.flags import positive
from tour_pyserini.learn import LearnRequest, LearnSummary, NoGain, learn
from tour_pyserini.opening import Opener
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.support.files import atomic_write

MEASURES = ("nDCG@10", "R@100")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


class Point(NamedTuple):
    """What is measured with the labels of the first queries of a stream.

    Attributes:
        queries: how many queries of the stream were used.
        labels: how many labels they had.
        adapter: what was learnt, or why nothing was.
        dense: the measures of dense search.
        differences: from dense search without an adapter, by measure.
        p: of these differences, paired randomisation test, by measure.
        default: the measures of the default method; empty if it was not run.
        bought: labels that the default method bought for each query.
    """

    queries: int
    labels: int
    adapter: str
    dense: dict[str, float]
    differences: dict[str, float]
    p: dict[str, float]
    default: dict[str, float]
    bought: float | None


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = _parser().parse_args(argv)
    if args.action == "draw":
        draw([json.loads(path.read_text(encoding="utf-8")) for path in args.files], args.picture)
        return
    points = measure(args)
    with atomic_write(args.output) as file:
        found = {"name": args.name, "points": [point._asdict() for point in points]}
        file.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(FORMATS["markdown"](table(points)) + "\n")


def measure(args: argparse.Namespace) -> list[Point]:
    """One point for each size of the stream, after the one without labels."""
    opener = Opener()
    work = args.output.parent / f"{args.output.stem}-runs"
    work.mkdir(parents=True, exist_ok=True)
    lines = args.stream.read_text(encoding="utf-8").splitlines(keepends=True)
    points: list[Point] = []
    for size in (0, *(size for size in sorted(args.sizes) if size <= len(lines))):
        labels, told, adapter = 0, "-", None
        if size:
            part = work / f"first-{size}{args.stream.suffix}"
            part.write_text("".join(lines[:size]), encoding="utf-8")
            labels, told, adapter = _learnt(args, part, work / f"first-{size}.adapter", opener)
        if size and adapter is None:  # the searches are those without an adapter
            before = points[0]
            same = dict.fromkeys(MEASURES, 0.0)
            points.append(before._replace(queries=size, labels=labels, adapter=told, differences=same, p={}))
            continue
        dense, _ = _searched(args, "dense", size, adapter, work, opener)
        first, *others = compare(args.qrels, [work / "dense.0.trec", dense] if size else [dense], MEASURES)
        compared = compare_with_baseline(first, others) if others else []
        default, bought = {}, None
        if not args.dense_only:
            path, bought = _searched(args, TourConfig().method, size, adapter, work, opener)
            (ran,) = compare(args.qrels, [path], MEASURES)
            default = dict(ran.means)
        points.append(
            Point(
                size,
                labels,
                told,
                dict((others or [first])[0].means),
                {item.measure: item.difference for item in compared},
                {item.measure: item.p for item in compared},
                default,
                bought,
            )
        )
        sys.stderr.write(f"{points[-1]}\n")
    return points


def _learnt(args: argparse.Namespace, topics: Path, output: Path, opener: Opener) -> tuple[int, str, Path | None]:
    """The number of labels, what was learnt in words, and the adapter; None if nothing was."""
    request = LearnRequest(
        topics=str(topics), index=args.index, corpus=args.corpus, output=str(output), depth=args.depth, cache=args.cache
    )
    output.unlink(missing_ok=True)
    try:
        done: LearnSummary | NoGain = learn(request, opener=opener)
    except NoGain as refused:
        done = refused
    choice = done.choice
    told = f"rank {choice.rank}, ridge {choice.ridge:g}; held out {choice.before:.4f} {choice.gain:+.4f}"
    if isinstance(done, NoGain):
        return done.labels, f"nothing ({told}, p {choice.p:.2f})", None
    return done.labels, told, output


def _searched(
    args: argparse.Namespace, method: str, size: int, adapter: Path | None, work: Path, opener: Opener
) -> tuple[Path, float]:
    """The run of a method, and the labels it bought for each query."""
    output = work / f"{method}.{size}.trec"
    request = SearchRequest(
        topics=str(args.test),
        qrels=str(args.qrels),
        index=args.index,
        corpus=args.corpus,
        adapter=str(adapter) if adapter else None,
        output=str(output),
        hits=100,
        cache=args.cache,
        config=TourConfig(method),
    )
    costs = search(request, opener=opener).costs
    return output, costs.pairs / costs.queries


def table(points: Sequence[Point]) -> Table:
    """The points as a table."""
    head = ["queries seen", "labels seen", "learnt"]
    for name in MEASURES:
        head += [f"dense {name}", "difference", "p"]
    head += ["labels of the default", *(f"default {name}" for name in MEASURES)]
    body = []
    for point in points:
        row = [str(point.queries), str(point.labels), point.adapter]
        for name in MEASURES:
            difference, p = point.differences.get(name), point.p.get(name)
            row += [f"{point.dense[name]:.4f}", "-" if difference is None else f"{difference:+.4f}"]
            row.append("-" if p is None else f"{p:.3f}")
        row.append("-" if point.bought is None else f"{point.bought:.1f}")
        row += [f"{point.default[name]:.4f}" if name in point.default else "-" for name in MEASURES]
        body.append(row)
    return Table([head, *body])


def draw(curves: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw what is gained by the labels seen: by dense search, by the default method, and in its labels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels: list[tuple[str, Callable[[Any], Any]]] = [
        *((f"dense {name}", partial(_measure, of="dense", name=name)) for name in MEASURES),
        *((f"default {name}", partial(_measure, of="default", name=name)) for name in MEASURES),
        ("labels of the default", lambda point: point["bought"]),
    ]
    figure, axes = plt.subplots(1, len(panels), figsize=(2.9 * len(panels), 3.2), layout="constrained")
    for axis, (title, value) in zip(axes, panels, strict=True):
        axis.axhline(0, color="gray", linewidth=0.8)
        for curve, colour in zip(curves, COLOURS, strict=False):
            found = [(point["queries"], value(point)) for point in curve["points"] if value(point) is not None]
            gains = [(queries, now - found[0][1]) for queries, now in found]
            axis.plot(*zip(*gains, strict=True), marker="o", color=colour, label=curve["name"]) if gains else None
        axis.set(title=title, xlabel="queries seen")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("difference from no adapter")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(curves), frameon=False)
    save_picture(figure, path, dpi=120)
    plt.close(figure)


def _measure(point: dict[str, Any], *, of: str, name: str) -> float | None:
    value: float | None = point[of].get(name)
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.learning_curve",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True)
    add = actions.add_parser(
        "measure", help="learn from the first queries of a stream, and measure on others"
    ).add_argument
    add("--name", required=True, help="of the curve")
    add("--stream", type=Path, required=True, metavar="FILE", help="topics whose labels are kept, one in a line")
    add("--test", type=Path, required=True, metavar="FILE", help="topics to measure on")
    add("--qrels", type=Path, required=True, metavar="FILE", help="their judgements")
    add("--index", required=True, metavar="DIR")
    add("--corpus", required=True, metavar="FILE")
    add("--cache", metavar="FILE", help="the score cache")
    add("--depth", type=positive, default=200, metavar="N", help="as in `learn`")
    add("--sizes", type=positive, nargs="+", required=True, metavar="N", help="how many queries of the stream are used")
    add("--dense-only", action="store_true", help="do not run the default method")
    add("--output", type=Path, required=True, metavar="FILE.json")
    drawing = actions.add_parser("draw", help="draw one or more curves")
    drawing.add_argument("files", type=Path, nargs="+", metavar="FILE.json")
    drawing.add_argument("--picture", type=Path, required=True, metavar="FILE.png")
    return parser


if __name__ == "__main__":
    run(main)
