"""What `tune` gains on queries that nobody judged, and how good its probabilities are; constants by other collections.

    python -m benchmarks.tuning replay --topics T --qrels Q --index I --corpus C --cache scores.sqlite --output cacm.npz
    python -m benchmarks.tuning measure cacm.npz cranfield.npz ...

`replay` buys the labels of a collection's judged queries and keeps what every setting gives on each of them; the index
has BM25 (`index --bm25`). `measure` then draws queries that count as judged, tunes on them, and measures the others.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Flags, Floats, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.topics import read_topics
from tour_pyserini.evaluation.relevance_probability import (
    FIRST,
    SHOWN,
    compare_probabilities,
    fit_calibration,
    probabilities,
)
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.evaluation.tuning import (
    DEFAULT,
    HITS,
    MEASURES,
    JudgedQuery,
    Trials,
    ingredients,
    settings_to_try,
    try_settings,
    tune_trials,
)
from tour_pyserini.opening import Opener
from tour_pyserini.stores.filters import Filter
from tour_pyserini.support.files import atomic_write
from tour_pyserini.tune import OpenedSearch, TuneRequest, open_judged

SIZES = (10, 20, 30, 50)
DRAWS = 200
REFUSED = 0.05
"""Share of the queries with an answer that abstention may refuse."""


class Replayed(NamedTuple):
    """A collection's judged queries under all settings.

    Attributes:
        name: of the collection.
        trials: the settings that `tune` chooses from.
        recipes: values of the first measure by the recipe's name, [queries].
        features: of the first hits with each settings, [settings, queries, hits, 4].
        relevant: whether they are, [settings, queries, hits].
        absent: features of the default's hits where the relevant documents were taken away, [queries, hits, 4].
    """

    name: str
    trials: Trials
    recipes: Mapping[str, Floats]
    features: Floats
    relevant: Flags
    absent: Floats


# Replaying


def replay(args: argparse.Namespace) -> None:
    """Buy the labels of one collection, and write what all settings give."""
    qrels, output = Path(f"{args.output}.tsv"), Path(args.output)
    _write_judgements(args, qrels)
    flags = {"topics": args.topics, "index": args.index, "corpus": args.corpus, "cache": args.cache}
    request = TuneRequest(**flags, qrels=str(qrels), output=str(output), reranker_threads=1)
    opened, scorer, grades = open_judged(request, Opener())
    configs, recipes = settings_to_try(signals=opened.signals), ingredients(signals=opened.signals)
    features: dict[str, list[Floats]] = {}
    relevant: dict[str, list[Flags]] = {}
    absent: dict[str, Floats] = {}

    def judged() -> Iterator[tuple[str, JudgedQuery]]:
        for qid, query in opened.buy_labels():
            absent[qid] = _without_answers(opened, qid, grades[qid])
            features[qid], relevant[qid] = opened.judge_hits([query.replay(config) for config in configs], grades)
            yield qid, query
            sys.stderr.write(f"{output.stem}: {len(features)} of {len(opened.queries)} queries\n")

    trials = try_settings(judged(), [*configs, *recipes.values()], scorer, opened.searcher.searcher.docids)
    with atomic_write(output, "wb") as file:
        np.savez_compressed(
            file,
            configs=[str(config) for config in configs],
            recipes=list(recipes),
            values=np.stack([trials.values[name] for name in MEASURES]),
            labels=trials.labels,
            features=np.stack([_padded(features[qid]) for qid in scorer.queries], axis=1),
            relevant=np.stack([_padded(relevant[qid]) for qid in scorer.queries], axis=1),
            absent=np.stack([_padded([absent[qid]])[0] for qid in scorer.queries]),
        )


def _write_judgements(args: argparse.Namespace, path: Path) -> None:
    """The judgements of evenly spaced queries among those with a relevant document."""
    qrels = read_qrels(args.qrels)
    relevant = dict.fromkeys(one.query_id for one in qrels if one.relevance > 0)
    judged = [str(qid) for qid, _ in read_topics(args.topics, only=frozenset(relevant)) if str(qid) in relevant]
    chosen = {judged[at] for at in np.linspace(0, len(judged) - 1, min(args.queries, len(judged))).round().astype(int)}
    lines = [f"{one.query_id} 0 {one.doc_id} {one.relevance}\n" for one in qrels if one.query_id in chosen]
    with atomic_write(path) as file:
        file.writelines(lines)


def _without_answers(opened: OpenedSearch, qid: str, grades: Mapping[str, int]) -> Floats:
    """Features of the default's hits among the documents that are not relevant."""
    searcher = opened.searcher
    others = Filter(docids=frozenset(searcher.searcher.docids) - {docid for docid, grade in grades.items() if grade})
    tasks = searcher.tasks([opened.queries[qid]], [qid], HITS, config=DEFAULT, filter=others)
    searcher.scheduler().run(tasks, opened.label)
    return opened.judge_hits(tasks, {qid: {}})[0][0]


def _padded(parts: Sequence[Floats] | Sequence[Flags]) -> Floats:
    """Rows [hits, ...] of several lists as one array [lists, FIRST, ...]; NaN where a list is shorter."""
    padded = np.full((len(parts), FIRST, *parts[0].shape[1:]), np.nan, dtype=np.float32)
    for row, part in zip(padded, parts, strict=True):
        row[: len(part)] = part
    return padded


def load(path: str) -> Replayed:
    """Read what `replay` wrote."""
    with np.load(path, allow_pickle=False) as file:
        configs = [TourConfig.parse(text) for text in file["configs"].tolist()]
        values, count = file["values"], len(configs)
        trials = Trials(configs, dict(zip(MEASURES, values[:, :count], strict=True)), file["labels"][:count])
        recipes = dict(zip(file["recipes"].tolist(), values[0, count:], strict=True))
        return Replayed(Path(path).stem, trials, recipes, file["features"], file["relevant"], file["absent"])


# Measuring


def draws(queries: int, size: int, count: int, *, replace: bool = False) -> Iterator[tuple[Ids, Ids]]:
    """Judged and unjudged queries, at random; the same for every rule.

    In a small collection, a lucky draw leaves unlucky queries: with replacement, all queries are measured instead.
    """
    for seed in range(count):
        random = np.random.default_rng([size, seed])
        if replace:
            yield random.integers(0, queries, size), np.arange(queries)
        else:
            order = random.permutation(queries)
            yield order[:size], order[size:]


def tuned(
    one: Replayed, size: int, rule: Callable[[Trials], int], count: int = DRAWS, *, replace: bool = False
) -> tuple[Floats, Floats, list[int]]:
    """What tuning on so many queries gives.

    Returns:
        the mean gain on the unjudged queries of each draw; the mean value of each query over the draws in which it was
        not judged, NaN if there was none; the rows that were chosen.
    """
    value, gains = one.trials.values[MEASURES[0]], one.trials.gains
    queries, rows, found = value.shape[1], [], np.zeros(count)
    total, times = np.zeros(queries), np.zeros(queries)
    for at, (judged, others) in enumerate(draws(queries, size, count, replace=replace)):
        row = rule(one.trials.of(judged))
        rows.append(row)
        found[at] = gains[row, others].mean()
        total[others] += value[row, others]
        times[others] += 1
    return found, np.where(times > 0, total, np.nan) / np.maximum(times, 1), rows


def worst(gains: Floats) -> float:
    """The mean of the worst tenth of the draws."""
    return float(np.sort(gains)[: max(len(gains) // 10, 1)].mean())


def gains_table(
    collections: Sequence[Replayed], rule: Callable[[Trials], int], count: int, *, replace: bool = False
) -> tuple[Table, Table]:
    """Gain over the default by number of judged queries; tuned on 50 against the best recipe in hindsight."""
    from scipy.stats import ttest_rel

    body, against = [], []
    means: dict[int, list[float]] = {size: [] for size in SIZES}
    for one in collections:
        default, line = one.trials.values[MEASURES[0]][0], [one.name, str(len(one.recipes["dense"]))]
        line.append(f"{default.mean():.4f}")
        for size in SIZES:
            gains, values, _ = tuned(one, size, rule, count, replace=replace)
            means[size].append(gains.mean())
            line.append(f"{gains.mean():+.4f} ({worst(gains):+.3f})")
        body.append(line)
        best = max(one.recipes, key=lambda name: one.recipes[name].mean())
        measured = ~np.isnan(values)
        difference = (values - one.recipes[best])[measured]
        p = ttest_rel(values[measured], one.recipes[best][measured]).pvalue
        against.append([one.name, best, f"{one.recipes[best].mean():.4f}", f"{difference.mean():+.4f}", f"{p:.3f}"])
    body.append(["mean", "", "", *(f"{np.mean(means[size]):+.4f}" for size in SIZES)])
    head = ["collection", "queries", f"default {MEASURES[0]}", *(f"{size} judged" for size in SIZES)]
    title = f"Mean gain over the default, {count} draws (in brackets: the worst tenth of them)"
    recipe = ["collection", "best fixed recipe", MEASURES[0], "tuned on 50 gains", "p (paired t)"]
    return Table([head, *body], title=title), Table([recipe, *against], title="Against the best fixed recipe")


def constants_table(collections: Sequence[Replayed], rules: Mapping[str, Callable[[Trials], int]], count: int) -> Table:
    """The constants that the other collections choose at 30 judged queries, and what they give on the one left out."""
    gains = {
        name: np.array([tuned(one, 30, rule, count)[0].mean() for one in collections]) for name, rule in rules.items()
    }
    names, table = list(gains), np.stack(list(gains.values()))
    body = []
    for at, one in enumerate(collections):
        chosen = int(np.delete(table, at, axis=1).mean(axis=1).argmax())
        body.append([one.name, names[chosen], f"{table[chosen, at]:+.4f}"])
    left = np.mean([float(line[2]) for line in body])
    body += [["mean, left out", "", f"{left:+.4f}"]]
    body += [["all", name, f"{table[row].mean():+.4f} (worst collection {table[row].min():+.4f})"]
             for row, name in enumerate(names)]  # fmt: skip
    return Table([["collection left out", "constants", "gain"], *body], title="Constants chosen by other collections")


def probabilities_table(collections: Sequence[Replayed], count: int) -> Table:
    """Errors of probabilities where 30 queries were judged, and which share of unanswerable queries is refused."""
    body, shares = [], []
    for one in collections:
        errors, briers, refused = [], [], []
        for judged, others in draws(one.features.shape[1], 30, count):
            row = tune_trials(one.trials.of(judged)).row
            error = _calibrated(one, row, judged, others)
            if error:
                errors.append(error[0])
                briers.append(error[1])
            if share := _refused(one, judged, others):
                refused.append(share)
        by_probability, by_label = np.mean(refused, axis=0)
        shares.append([np.mean(errors), np.mean(briers), by_probability, by_label])
        body.append([one.name, f"{shares[-1][0]:.3f}", f"{shares[-1][1]:.3f}", *(f"{x:.0%}" for x in shares[-1][2:])])
    mean = np.mean(shares, axis=0)
    body.append(["mean", f"{mean[0]:.3f}", f"{mean[1]:.3f}", *(f"{x:.0%}" for x in mean[2:])])
    head = ["collection", "calibration error", "Brier", "refused by probability", "refused by label"]
    title = f"30 judged queries: probabilities on the others; unanswerable queries refused where {REFUSED:.0%} of the "
    return Table([head, *body], title=title + f"answerable are, {count} draws")


def _hits(features: Floats, relevant: Flags, first: int) -> tuple[Floats, Flags]:
    """Hits [n, 4] of lists [queries, hits, 4], and whether they are relevant [n]."""
    there = ~np.isnan(features[:, :first, 0])
    return features[:, :first][there].astype(np.float64), relevant[:, :first][there] > 0


def _calibrated(one: Replayed, row: int, judged: Ids, others: Ids) -> tuple[float, float] | None:
    fitted = fit_calibration(*_hits(one.features[row, judged], one.relevant[row, judged], FIRST))
    if fitted is None:
        return None
    features, relevant = _hits(one.features[row, others], one.relevant[row, others], SHOWN)
    told = compare_probabilities(probabilities(fitted, features), relevant)
    return told.error, told.brier


def _refused(one: Replayed, judged: Ids, others: Ids) -> tuple[float, float] | None:
    """The share of unanswerable queries refused, by the highest probability and by the highest label of each list."""
    fitted = fit_calibration(*_hits(one.features[0, judged], one.relevant[0, judged], FIRST))
    if fitted is None:
        return None
    shares = []
    for score in (lambda features: probabilities(fitted, features), lambda features: features[..., 0]):
        answered, absent = (
            np.nanmax(score(part[others].astype(np.float64)), axis=1) for part in (one.features[0], one.absent)
        )
        shares.append(float((absent < np.quantile(answered, REFUSED)).mean()))
    return shares[0], shares[1]


def measure(args: argparse.Namespace) -> None:
    """Print the tables."""
    collections = [load(path) for path in args.files]

    def rule(trials: Trials, **constants: float) -> int:
        return tune_trials(trials, **constants).row

    grid = {
        f"width {width}, caution {caution}": partial(rule, width=width, caution=caution)
        for width in (0.1, 0.2, 0.4)
        for caution in (0.75, 1.0, 1.25, 1.5)
    }
    tables = [
        *gains_table(collections, rule, args.draws, replace=args.replace),
        probabilities_table(collections, args.draws),
        *([constants_table(collections, grid, args.draws // 4)] if args.constants else []),
    ]
    for table in tables:
        sys.stdout.write(f"{FORMATS['markdown'](table)}\n\n")
        sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> None:
    """Replay a collection, or measure several."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("replay")
    for name in ("topics", "qrels", "index", "corpus", "cache", "output"):
        first.add_argument(f"--{name}", required=True)
    first.add_argument("--queries", type=int, default=130)
    first.set_defaults(run=replay)
    second = commands.add_parser("measure")
    second.add_argument("files", nargs="+")
    second.add_argument("--draws", type=int, default=DRAWS)
    second.add_argument("--replace", action="store_true", help="draw with replacement, and measure all queries")
    second.add_argument("--constants", action="store_true", help="choose the rule's constants by other collections")
    second.set_defaults(run=measure)
    args = parser.parse_args(argv)
    args.run(args)


if __name__ == "__main__":
    main()
