"""Settings chosen by judged queries: every setting is replayed from memory, and gains over the default decide."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids, Ranking
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import Fusion
from tour_pyserini.core.method import Query, Search, Vectors
from tour_pyserini.core.scheduler import Task
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import Scorer

HITS = 100
"""Length of the lists that are measured."""
FOUND = 200
"""Documents that the index is asked for once for each vector; searches of 100 hits with 30 labels ask for 130."""
MEASURES = ("nDCG@10", "R@100")
"""The first decides."""
DEFAULT = TourConfig()
SIGNAL_WEIGHTS = (0.0, 0.25, 0.5, 1.0)
RERANKER_WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
_MOVES = ((DEFAULT.step, DEFAULT.depth), (0.0, DEFAULT.depth), (DEFAULT.step, DEFAULT.budget))
"""Step and depth: several rounds, re-ranking alone, one round."""
BUDGETS = (10, 20, DEFAULT.budget)
WIDTH, CAUTION = 0.2, 1.25
"""How far neighbours on the grid of weights vote, and how many standard errors a gain is reduced by."""
_FOLDS = 10
_SEED, _RESAMPLED = 20230709, 2_000


@dataclass(eq=False)
class JudgedQuery:
    """A query with the labels that were bought for it: any search of it is replayed without the re-ranker.

    Attributes:
        query: the query.
        labels: by document.
        search: what the index finds for a vector [d]; each vector of the query is searched once, for all settings.
        vectors: the vectors [m, d] of documents [m].
    """

    query: Query
    labels: Mapping[int, float]
    search: Callable[[Query, Floats, int], Ranking]
    vectors: Callable[[Ids], Floats]
    _queries: dict[float, Query] = field(default_factory=dict, init=False)
    _found: dict[tuple[float, bytes], Ranking] = field(default_factory=dict, init=False)

    def replay(self, config: TourConfig) -> Task:
        """The ended task of a search with these settings."""
        weight = config.signal_weight
        if weight not in self._queries:
            self._queries[weight] = task_of(self.query, config).query
        task = Task(config.chosen, config.settings, self._queries[weight])
        while (request := task.request) is not None:
            if isinstance(request, Search):
                task.answer(self._retrieve(task.query, weight, request))
            elif isinstance(request, Vectors):
                task.answer(self.vectors(request.ids))
            elif task.waits_for_labels:
                task.answer(np.array([self.labels[id_] for id_ in task.wanted_labels.tolist()]))
            else:
                raise TourError(f"searches with the method {config.method} cannot be replayed.")
        return task

    def forget(self) -> None:
        """Free the memory that replays have used."""
        self._queries, self._found = {}, {}

    def _retrieve(self, query: Query, weight: float, request: Search) -> Ranking:
        key = weight, request.vector.tobytes()
        if key not in self._found:
            wanted = max(FOUND, request.hits)
            found = self.search(query, request.vector, wanted)
            self._found[key] = query.fusion.fuse(request.vector, found, self.vectors, wanted)
        return self._found[key].first(request.hits)


def task_of(query: Query, config: TourConfig) -> Task:
    """A search of a query with other settings than its own, and their weight of its further signals."""
    fusion = Fusion(query.fusion.signals, weight=config.signal_weight)
    return Task(config.chosen, config.settings, dataclasses.replace(query, fusion=fusion))


def settings_to_try(*, signals: bool) -> list[TourConfig]:
    """The settings of the default method that are compared; the first is the default.

    A signal weight of 0 is the vectors alone; a budget of 0 is the first retrieval.
    """
    weights = SIGNAL_WEIGHTS if signals else (DEFAULT.signal_weight,)
    tried = [DEFAULT, *(DEFAULT.replace(signal_weight=weight, budget=0) for weight in weights)]
    for weight, (step, depth), budget, beta in product(weights, _MOVES, BUDGETS, RERANKER_WEIGHTS):
        if depth <= budget:
            tried.append(
                DEFAULT.replace(signal_weight=weight, step=step, depth=depth, budget=budget, reranker_weight=beta)
            )
    return list(dict.fromkeys(tried))


def labelling_plan(*, signals: bool) -> list[TourConfig]:
    """Searches whose labels are all that `settings_to_try` and `ingredients` ask for."""
    weights = SIGNAL_WEIGHTS if signals else (DEFAULT.signal_weight,)
    most = DEFAULT.replace(early_stopping=False)
    return [
        most.replace(signal_weight=weight, step=step, depth=depth)
        for weight, (step, depth) in product(weights, ((0.0, DEFAULT.budget), (DEFAULT.step, DEFAULT.depth)))
    ]


def ingredients(*, signals: bool) -> dict[str, TourConfig]:
    """Fixed recipes to compare with, by name: retrieval and re-ranking of 30, by the vectors alone and with signals."""
    recipes = {
        "": DEFAULT.replace(budget=0),
        "re-rank": TourConfig("rerank", depth=DEFAULT.budget),
        "mixed": TourConfig.preset("mixed"),
    }
    alone = {name or "dense": config.replace(signal_weight=0.0) for name, config in recipes.items()}
    both = {f"hybrid {name}".strip(): config for name, config in recipes.items()}
    return {**alone, **both} if signals else alone


class Trials(NamedTuple):
    """What settings gave on judged queries.

    Attributes:
        configs: the settings; the first is what the others are compared with.
        values: each measure's value, [settings, queries].
        labels: how many labels were asked for, [settings, queries].
    """

    configs: Sequence[TourConfig]
    values: Mapping[str, Floats]
    labels: Ids

    @property
    def gains(self) -> Floats:
        """What the first measure gains over the first settings, [settings, queries]."""
        first = self.values[MEASURES[0]]
        return first - first[0]

    def first(self, count: int) -> "Trials":
        """Those of the first settings."""
        values = {name: one[:count] for name, one in self.values.items()}
        return Trials(self.configs[:count], values, self.labels[:count])

    def of(self, queries: Ids) -> "Trials":
        """Those on some of the queries."""
        values = {name: one[:, queries] for name, one in self.values.items()}
        return Trials(self.configs, values, self.labels[:, queries])


def try_settings(
    judged: Iterable[tuple[str, JudgedQuery]], configs: Sequence[TourConfig], scorer: Scorer, docids: Sequence[str]
) -> Trials:
    """Replay all settings on all queries.

    Args:
        judged: the queries that the scorer has judgements of, with their ids; each is forgotten after its replays.
        configs: the settings.
        scorer: measures the lists.
        docids: the documents' names.
    """
    from ir_measures import ScoredDoc

    lists: list[list[ScoredDoc]] = [[] for _ in configs]
    labels = np.zeros((len(configs), len(scorer.queries)), dtype=np.int64)
    for qid, query in judged:
        column, names = scorer.queries.index(qid), dict[int, str]()  # reading a docid takes longer than a replay
        for row, config in enumerate(configs):
            task = query.replay(config)
            labels[row, column] = len(task.labels)
            found = task.result.ranking.ids[:HITS].tolist()
            names |= {id_: docids[id_] for id_ in found if id_ not in names}
            lists[row] += [ScoredDoc(qid, names[id_], float(-rank)) for rank, id_ in enumerate(found)]
        query.forget()
    measured = [scorer.values(run) for run in lists]
    return Trials(configs, {name: np.stack([one[name] for one in measured]) for name in scorer.measures}, labels)


def _choose(trials: Trials, queries: Ids, *, width: float = WIDTH, caution: float = CAUTION) -> int:
    """The settings that some of the queries, by their columns, speak for: their row; 0 for the default.

    First the weights, with as many labels as the default or none. Neighbours on the grid of weights vote: a query's
    gain is the mean over them, weighted by exp(-d^2 / 2 width^2). The settings with the highest lower bound of the mean
    gain, mean - caution x standard error, are chosen: few queries favour what is near the default, as its gains vary
    less. Then step, depth and budget, if a lower bound is above what the weights give.
    """
    places = np.array([_place(config) for config in trials.configs])
    grid = np.flatnonzero([config.budget == 0 or config == _of_default(config) for config in trials.configs])
    gains = trials.gains[:, queries]
    kernel = np.exp(-((places[grid, None] - places[None, grid]) ** 2).sum(axis=2) / (2 * width**2))
    smooth = (kernel / kernel.sum(axis=1, keepdims=True)) @ gains[grid]
    bounds = _lower_bounds(smooth - smooth[0], caution)
    bounds[1:][gains[grid].mean(axis=1)[1:] <= 0] = -np.inf  # neighbours alone do not decide
    row = int(grid[bounds.argmax()])
    same = np.flatnonzero((places == places[row]).all(axis=1))
    bounds = _lower_bounds(gains[same] - gains[row], caution)
    return int(same[bounds.argmax()]) if bounds.max() > 0 else row


@functools.cache
def _place(config: TourConfig) -> tuple[float, float]:
    """Where settings are on the grid: both weights as shares of what they are weighed against; no labels are apart."""
    share = config.reranker_weight / (config.reranker_weight + DEFAULT.reranker_weight)
    return config.signal_weight / (config.signal_weight + DEFAULT.signal_weight), share if config.budget else -0.5


@functools.cache
def _of_default(config: TourConfig) -> TourConfig:
    """The default with the weights of other settings."""
    return DEFAULT.replace(signal_weight=config.signal_weight, reranker_weight=config.reranker_weight)


def _lower_bounds(gains: Floats, caution: float) -> Floats:
    """Mean - caution x standard error of gains [settings, queries]; 0 where all are 0."""
    return gains.mean(axis=1) - caution * gains.std(axis=1, ddof=1) / np.sqrt(gains.shape[1])


class Choice(NamedTuple):
    """The settings that were chosen, and what choosing them so is worth on queries that had no part in it.

    Attributes:
        row: the settings' row among the trials; 0 for the default.
        cross: for each query, the row that was chosen without it and others, [queries].
        gain: the mean gain of `cross` over the default, and its standard error.
    """

    row: int
    cross: Ids
    gain: tuple[float, float]


def tune_trials(trials: Trials, *, width: float = WIDTH, caution: float = CAUTION) -> Choice:
    """Choose settings; the default, unless their gain in tenfold cross-validation is above its standard error."""
    everyone = np.arange(trials.gains.shape[1])
    cross = np.zeros(len(everyone), dtype=np.int64)
    for part in range(_FOLDS):
        held = everyone % _FOLDS == part
        cross[held] = _choose(trials, everyone[~held], width=width, caution=caution)
    gained = trials.gains[cross, everyone]
    gain = float(gained.mean()), float(gained.std(ddof=1) / np.sqrt(len(gained)))
    row = _choose(trials, everyone, width=width, caution=caution) if gain[0] > gain[1] else 0
    return Choice(row, cross, gain)


def confidence_interval(values: Floats) -> tuple[float, float]:
    """The 95 % confidence interval of a mean by the bootstrap over queries [n]."""
    random = np.random.default_rng(_SEED)
    means = values[random.integers(0, len(values), (_RESAMPLED, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
