# PYTHON_ARGCOMPLETE_OK
"""Choose settings by judged queries; what is re-ranking worth?

Labels of the judged queries are bought once, then every setting is replayed from memory. The default stays unless other
settings gain more than the error of their gain on queries that had no part in the choice.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tour_pyserini.command import run
from tour_pyserini.core.arrays import Flags, Floats, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.scheduler import Task
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.run_records import is_phrase_index
from tour_pyserini.data.topics import read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import Scorer
from tour_pyserini.evaluation.pictures import check_picture, draw_tuning
from tour_pyserini.evaluation.relevance_probability import (
    FIRST,
    Reliability,
    fit_calibration,
    hit_features,
    reliability,
)
from tour_pyserini.evaluation.tables import FORMATS, Table, number
from tour_pyserini.evaluation.tuning import (
    BUDGETS,
    DEFAULT,
    HITS,
    MEASURES,
    RERANKER_WEIGHTS,
    SIGNAL_WEIGHTS,
    Choice,
    JudgedQuery,
    Trials,
    confidence_interval,
    ingredients,
    labelling_plan,
    settings_to_try,
    task_of,
    try_settings,
    tune_trials,
)
from tour_pyserini.flags import option, request_parser
from tour_pyserini.opening import Opener
from tour_pyserini.rerankers.reranker import score_pairs_counted
from tour_pyserini.search import search_bar
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.support.files import check_output

BATCH = 8
"""Queries whose labels are bought together; they are replayed before the next ones are read."""
TIMED = 2
"""Queries whose first labels show how long a label takes."""
LEAST = 10
"""With fewer judged queries, nothing can be told from chance."""

_written = partial(option, group="what is written")
_judged = partial(option, group="what is searched", common=True)


@dataclass(frozen=True, kw_only=True)
class TuneRequest(SearchRequest):
    """Choose settings by judged queries; the fields are the flags of `python -m tour_pyserini.tune`.

    Attributes:
        topics, index, corpus, sparse, ...: as in `SearchRequest`.
        qrels: the judgements; topics without any are left out.
        output: the TOML file of settings.
        picture: a picture of quality against labels, and of probabilities against judgements.
        dry: choose nothing: say what can be said without judgements.
    """

    NO_FLAGS: ClassVar[frozenset[str]] = frozenset(
        {
            *("output_format", "output_queries", "trace", "trace_vectors", "hits", "tag", "min_relevance", "shard"),
            *("ray", "ray_workers", "batch_size", "remove_query", "predictions", "unit", "max_words", "context"),
            *("title", "separator"),
        }
    )

    qrels: str | None = _judged(None, "judgements, TREC or BEIR; topics without any are left out")
    output: str | None = _written(None, "the settings, for --config", common=True)
    picture: str | None = _written(None, "draw quality against labels: .png, .pdf, .svg", common=True)
    dry: bool = _judged(False, "choose nothing, say what is known without judgements")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.dry and not (self.qrels and self.output):
            raise TourError("--qrels and --output are needed: judgements, and the file of settings; or give --dry.")
        if self.picture:
            check_picture(self.picture)


class TuneReport(NamedTuple):
    """What was found.

    Attributes:
        config: the settings, with a calibration where there could be one.
        advice: one sentence.
        tables: the tables of the report.
        choice: the settings that were chosen, and what choosing them so is worth.
    """

    config: TourConfig
    advice: str
    tables: Sequence[Table]
    choice: Choice

    def __str__(self) -> str:
        return "\n\n".join([*map(FORMATS["text"], self.tables), self.advice]) + "\n"


def tune(request: TuneRequest, *, opener: Opener | None = None, progress: bool = False) -> TuneReport:
    """Choose settings by judged queries, and write them to `request.output`.

    Args:
        request: topics, judgements, and what is searched.
        opener: opens models, indexes and texts.
        progress: whether a bar is shown on a terminal.
    """
    check_output(str(request.output), [request.topics, request.qrels, request.corpus])
    opened, scorer, grades = open_judged(request, opener or Opener())
    settings, recipes = settings_to_try(signals=opened.signals), ingredients(signals=opened.signals)
    queries, docids = opened.buy_labels(progress=progress), opened.searcher.searcher.docids
    every = try_settings(queries, [*settings, *recipes.values()], scorer, docids)
    trials = every.first(len(settings))
    choice = tune_trials(trials)

    config = settings[choice.row]
    features, relevant = opened.judge_hits([opened.judged[qid].replay(config) for qid in scorer.queries], grades)
    told = reliability(features, relevant)
    calibration = fit_calibration(np.concatenate(features), np.concatenate(relevant)) if told else None
    config = config.replace(calibration=calibration)
    config.save(str(request.output))
    shown = {name: np.full(len(scorer.queries), row) for row, name in enumerate(recipes, start=len(settings))}
    for budget in BUDGETS:
        row = settings.index(DEFAULT.replace(budget=budget))
        shown[f"the default, up to {budget}"] = np.full(len(scorer.queries), row)
    shown["tuned (cross-validated)"] = choice.cross
    if request.picture:
        bins = told.bins if told else ()
        draw_tuning(_curves(every, shown), bins, measure=MEASURES[0], output=request.picture)
    tables = [
        _table_of_settings(opened, every, shown),
        *([_table_of_weights(trials)] if opened.signals else []),
        *([_table_of_probabilities(told)] if told else []),
    ]
    return TuneReport(config, _advice(trials, choice), tables, choice)


@dataclass(frozen=True)
class OpenedSearch:
    """What is searched.

    Attributes:
        searcher: what searches.
        reranker: where labels come from.
        queries: texts by id.
        signals: whether there are further signals.
        labels: the labels that were bought, by query and document.
        judged: queries whose labels are all there, by id.
    """

    searcher: TourSearcher
    reranker: Any
    queries: Mapping[str, Any]
    signals: bool
    labels: defaultdict[str, dict[int, float]] = field(default_factory=partial(defaultdict, dict))
    judged: dict[str, JudgedQuery] = field(default_factory=dict)

    def buy_labels(self, *, progress: bool = False) -> Iterator[tuple[str, JudgedQuery]]:
        """The queries with all labels that any of the settings asks for, in batches; they are added to `judged`."""
        searcher, ids, plan = self.searcher, list(self.queries), labelling_plan(signals=self.signals)
        with search_bar(len(ids), show=progress) as report:
            for start in range(0, len(ids), BATCH):
                batch = ids[start : start + BATCH]
                queries = [task.query for task in searcher.tasks([self.queries[qid] for qid in batch], batch, HITS)]
                searcher.scheduler().run([task_of(query, config) for config in plan for query in queries], self.label)
                for query in queries:
                    labels = self.labels[query.name]
                    self.judged[query.name] = JudgedQuery(query, labels, searcher.nearest, searcher.fetch)
                    yield query.name, self.judged[query.name]
                report(start + len(batch), sum(map(len, self.labels.values())))

    def label(self, tasks: Sequence[Task]) -> list[Floats]:
        """The labels that tasks wait for; each pair of a query and a document is bought once."""
        wanted: dict[tuple[str, int], Any] = {}
        for task in tasks:
            pairs = zip(task.wanted_labels.tolist(), self.searcher.pairs(task), strict=True)
            wanted |= {(task.query.name, id_): pair for id_, pair in pairs if id_ not in self.labels[task.query.name]}
        with self.searcher.costs.stage("label"):
            scores, computed = score_pairs_counted(self.reranker, list(wanted.values()))
        self.searcher.costs.add(pairs=len(wanted), scored=computed)
        for (qid, id_), score in zip(wanted, scores.tolist(), strict=True):
            self.labels[qid][id_] = score
        return [np.array([self.labels[task.query.name][id_] for id_ in task.wanted_labels.tolist()]) for task in tasks]

    def judge_hits(
        self, tasks: Sequence[Task], grades: Mapping[str, Mapping[str, int]]
    ) -> tuple[list[Floats], list[Flags]]:
        """The features of the first hits of each query, and whether they were judged relevant."""
        docids, relevant = self.searcher.searcher.docids, []
        for task in tasks:
            ids, known = task.result.ranking.ids[:FIRST].tolist(), grades[task.query.name]
            relevant.append(np.array([known.get(docids[id_], 0) > 0 for id_ in ids]))
        return [hit_features(task, FIRST) for task in tasks], relevant


def open_judged(request: TuneRequest, opener: Opener) -> tuple[OpenedSearch, Scorer, Mapping[str, Mapping[str, int]]]:
    """What is searched for the topics that have a relevant document, with what measures their lists, and their grades.

    Raises:
        TourError: if too few topics have one.
    """
    qrels = read_qrels(str(request.qrels))
    opened = _open(request, opener, {qrel.query_id for qrel in qrels if qrel.relevance > 0})
    if len(opened.queries) < LEAST:
        raise TourError(
            f"{len(opened.queries)} topics of {request.topics} have a relevant document in {request.qrels}; judge at "
            f"least {LEAST}, better 30."
        )
    grades: dict[str, dict[str, int]] = {qid: {} for qid in opened.queries}
    for qrel in qrels:
        if qrel.query_id in grades:
            grades[qrel.query_id][qrel.doc_id] = qrel.relevance
    return opened, Scorer(MEASURES, [qrel for qrel in qrels if qrel.query_id in grades]), grades


def _open(request: TuneRequest, opener: Opener, judged: set[str] | None) -> OpenedSearch:
    if is_phrase_index(request.index):
        raise TourError(f"{request.index} is a phrase index; tune needs one of passages.")
    names = {item.name for item in fields(SearchRequest)} - {"config", "output"}
    search = SearchRequest(**{name: getattr(request, name) for name in names}, config=DEFAULT).completed()
    topics = [
        (str(qid), text) for qid, text in read_topics(search.topics, search.topics_format, only=judged or frozenset())
    ]
    queries = {qid: text for qid, text in topics if judged is None or qid in judged}
    opener.check_runs(search, queries)
    reranker = opener.reranker(search)
    return OpenedSearch(opener.searcher(search, reranker), reranker, queries, search.has_signals)


# The report


def _table_of_settings(opened: OpenedSearch, trials: Trials, shown: Mapping[str, Ids]) -> Table:
    """A line for each name: the measures and costs of the settings, by their rows, of each query [queries]."""
    costs, body, queries = opened.searcher.costs, [], np.arange(trials.labels.shape[1])
    per_label = costs.seconds.get("label", 0.0) / costs.scored if costs.scored else np.nan
    for name, rows in shown.items():
        first, second = (trials.values[measure][rows, queries] for measure in MEASURES)
        low, high = confidence_interval(first)
        labels = float(trials.labels[rows, queries].mean())
        quality = [number(first.mean()), f"[{low:.4f}, {high:.4f}]", number(second.mean())]
        body.append([name, *quality, number(labels, 1), number(per_label * labels, 2)])
    head = ["settings", MEASURES[0], "95 % interval", MEASURES[1], "labels", "seconds of labels"]
    title = f"{len(queries)} judged queries, {costs.pairs} labels bought, {costs.scored} of them computed now"
    legend = (
        "Tuned: each tenth of the queries with the settings that the others chose. Labels and seconds are per query."
    )
    return Table([head, *body], title=title, legend=legend)


def _curves(trials: Trials, shown: Mapping[str, Ids]) -> dict[str, list[tuple[float, float]]]:
    """Points (labels, quality) by name; those of the default with several budgets are one curve."""
    curves, queries = defaultdict[str, list[tuple[float, float]]](list), np.arange(trials.labels.shape[1])
    for name, rows in shown.items():
        point = trials.labels[rows, queries].mean(), trials.values[MEASURES[0]][rows, queries].mean()
        curves[name.partition(", up to")[0]].append(point)
    return curves


def _table_of_weights(trials: Trials) -> Table:
    """The mean of the first measure for each mix of signals and re-ranker, with as many labels as the default."""
    means = trials.values[MEASURES[0]].mean(axis=1)

    def mean(**changes: Any) -> str:
        return number(means[trials.configs.index(DEFAULT.replace(**changes))])

    body = [
        [f"{signal:g}", mean(signal_weight=signal, budget=0)]
        + [mean(signal_weight=signal, reranker_weight=weight) for weight in RERANKER_WEIGHTS]
        for signal in SIGNAL_WEIGHTS
    ]
    head = ["signal weight", "no labels", *(f"{weight:g}" for weight in RERANKER_WEIGHTS)]
    return Table([head, *body], title=f"{MEASURES[0]} by signal weight (lines) and re-ranker weight (columns)")


def _table_of_probabilities(told: Reliability) -> Table:
    body = [[f"{mean:.2f}", f"{share:.2f}", str(count)] for mean, share, count in told.bins]
    title = f"Probabilities of the first ten hits, cross-validated: Brier score {told.brier:.4f}, "
    title += f"expected calibration error {told.error:.4f}"
    return Table([["probability", "relevant", "hits"], *body], words=0, title=title)


def _advice(trials: Trials, choice: Choice) -> str:
    """One sentence: what to search with, and whether the re-ranker helps."""
    chosen, gained = trials.configs[choice.row], f"{choice.gain[0]:+.4f} {MEASURES[0]}"
    if choice.row:
        changed = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in chosen.changed().items())
        advice, others = f"Search with the tuned settings ({changed})", "they"
    else:
        advice, others = "Keep the default", "other settings"
    unlabelled = {name: getattr(DEFAULT, name) for name in ("step", "depth", "reranker_weight")}
    alone = trials.configs.index(chosen.replace(budget=0, **unlabelled))
    moved = trials.values[MEASURES[0]][choice.row] - trials.values[MEASURES[0]][alone]
    low, high = confidence_interval(moved)
    word = "helps" if low > 0 else "harms" if high < 0 else "makes no clear difference"
    return (
        f"{advice}: on queries that had no part in the choice {others} gain {gained} (standard error "
        f"{choice.gain[1]:.4f}); re-ranking {word} here ({moved.mean():+.4f}, 95 % interval {low:+.4f} to {high:+.4f})."
    )


def look(request: TuneRequest, *, opener: Opener | None = None) -> str:
    """What can be said without judgements: costs, how far signals agree; and what cannot be said."""
    opened = _open(request, opener or Opener(), None)
    searcher = opened.searcher
    queries = [task.query for task in searcher.tasks(list(opened.queries.values()), list(opened.queries), HITS)]
    timed = [task_of(query, DEFAULT) for query in queries[:TIMED]]
    searcher.scheduler().advance(timed)
    opened.label(timed)
    lines = [f"{len(queries)} queries, at most {DEFAULT.budget} labels each with the default."]
    if searcher.costs.scored:
        second = searcher.costs.seconds["label"] / searcher.costs.scored
        lines[0] += f" A label takes {second:.3f} s here: {second * DEFAULT.budget:.1f} s a query."
    if opened.signals:
        lists = []
        for weight in (0.0, DEFAULT.signal_weight):
            tasks = [task_of(query, DEFAULT.replace(signal_weight=weight, budget=0)) for query in queries]
            searcher.scheduler().run(tasks, opened.label)
            lists.append([task.result.ranking.ids[:10].tolist() for task in tasks])
        pairs = list(zip(*lists, strict=True))
        ten = np.mean([{*alone} != {*both} for alone, both in pairs])
        first = np.mean([alone[:1] != both[:1] for alone, both in pairs])
        words = [set(query.fusion.signals[0].ids[:10].tolist()) for query in queries]
        shared = np.mean([len(words_of & {*alone}) / 10 for words_of, alone in zip(words, lists[0], strict=True)])
        lines.append(
            f"Vectors and the first signal share {shared:.0%} of their first ten. The signal changes which documents "
            f"are among the first ten for {ten:.0%} of the queries, and the first hit for {first:.0%}."
        )
    lines.append(
        "What cannot be said without judgements: which of these lists is better, whether labels help or harm, and how "
        f"probable it is that a hit is relevant. Judge the first hits of 30 queries (at least {LEAST}); give --qrels."
    )
    return "\n".join(lines) + "\n"


EXAMPLE = """examples:
  python -m tour_pyserini.tune --topics dev.jsonl --qrels dev.tsv \\
      --index indexes/a --corpus a/corpus.jsonl --output tuned.toml
  python -m tour_pyserini.search --config tuned.toml --topics test.jsonl ...
  python -m tour_pyserini.tune --dry --topics dev.jsonl ..."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = request_parser("tune", TuneRequest, description=__doc__ or "", epilog=EXAMPLE)
    request = TuneRequest.from_flags(vars(parser.parse_args(argv)))
    sys.stdout.write(look(request) if request.dry else str(tune(request, progress=True)))


if __name__ == "__main__":
    run(main)
