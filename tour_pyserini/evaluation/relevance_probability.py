"""Relevance as a probability: Platt's logistic model of what a search knows of a hit, fitted to judgements."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.arrays import Flags, Floats
from tour_pyserini.core.distributions import standardise
from tour_pyserini.core.scheduler import Task
from tour_pyserini.core.settings import Calibration

FIRST = 20
"""Hits of each list that the model is fitted to."""
SHOWN = 10
"""Hits of each list that its errors are told of: those that people see."""
BINS = 10
PRIOR = 0.1
"""Variance of the weights (of standardised features) before any judgement; by `benchmarks.tuning`."""
_FOLDS = 10


class Reliability(NamedTuple):
    """How far probabilities agree with judgements, for hits whose query had no part in the fit.

    Attributes:
        brier: mean squared difference between probability and judgement.
        error: expected calibration error: mean difference of probability and share of relevant hits over ten bins.
        bins: for each bin with hits, its mean probability, its share of relevant hits, and how many it has.
    """

    brier: float
    error: float
    bins: Sequence[tuple[float, float, int]]


def hit_features(task: Task, count: int) -> Floats:
    """What a search knows of its first hits [m, 4]: label, raw and standardised; similarity; log rank.

    A hit without a label has the lowest label of its query. Similarities are those of the first retrieval.
    """
    ids, first, labels = task.result.ranking.ids[:count].tolist(), task.rounds[0].hits, task.labels
    raw = np.array([*labels.values()]) if labels else np.zeros(1)
    standard, place = standardise(raw), {id_: at for at, id_ in enumerate(labels)}
    at = np.array([place.get(id_, int(raw.argmin())) for id_ in ids], dtype=np.int64)
    similarity = dict(zip(first.ids.tolist(), first.scores.tolist(), strict=True))
    lowest = min(similarity.values(), default=0.0)
    columns = (
        raw[at],
        standard[at],
        [similarity.get(id_, lowest) for id_ in ids],
        np.log(np.arange(1, len(ids) + 1)),
    )
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


def probabilities(calibration: Calibration, features: Floats) -> Floats:
    """The probability [m] that hits with these features [m, 4] are relevant."""
    intercept, *weights = dataclasses.astuple(calibration)
    return 1 / (1 + np.exp(-np.clip(intercept + features @ np.array(weights), -500, 500)))


def fit_calibration(features: Floats, relevant: Flags) -> Calibration | None:
    """The logistic model of hits with these features [n, 4]; None where all are relevant, or none is."""
    if relevant.all() or not relevant.any():
        return None
    from sklearn.linear_model import LogisticRegression

    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation[deviation < 1e-9] = np.inf  # what is the same for all hits says nothing
    model = LogisticRegression(C=PRIOR).fit((features - mean) / deviation, relevant)
    weights = model.coef_[0] / deviation
    fitted = [float(f"{value:.6g}") for value in (model.intercept_[0] - weights @ mean, *weights)]
    return Calibration(**dict(zip((item.name for item in dataclasses.fields(Calibration)), fitted, strict=True)))


def reliability(features: Sequence[Floats], relevant: Sequence[Flags]) -> Reliability | None:
    """How well the model fits queries that it was not fitted to, each in one of ten parts in turn.

    Args:
        features: those of the hits of each query, [m, 4].
        relevant: whether they are relevant, [m].
    """
    told: list[Floats] = []
    for part in range(min(_FOLDS, len(features))):
        rest = [at for at in range(len(features)) if at % _FOLDS != part]
        fitted = fit_calibration(*(np.concatenate([values[at] for at in rest]) for values in (features, relevant)))
        if fitted is None:
            return None
        told += [probabilities(fitted, one[:SHOWN]) for one in features[part::_FOLDS]]
    truth = [one[:SHOWN] for part in range(min(_FOLDS, len(features))) for one in relevant[part::_FOLDS]]
    return compare_probabilities(np.concatenate(told), np.concatenate(truth))


def compare_probabilities(told: Floats, relevant: Flags) -> Reliability:
    """How far probabilities [n] agree with judgements [n]."""
    bins = np.minimum((told * BINS).astype(int), BINS - 1)
    parts = [(told[bins == one], relevant[bins == one]) for one in np.unique(bins)]
    found = [(float(p.mean()), float(y.mean()), len(p)) for p, y in parts]
    error = sum(abs(p - y) * count for p, y, count in found) / len(told)
    return Reliability(float(((told - relevant) ** 2).mean()), error, found)
