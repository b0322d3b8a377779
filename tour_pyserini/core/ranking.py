"""The final list: labels and similarities combined (Section 3.4), the rest of the retrieval below."""

from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.distributions import softmax
from tour_pyserini.core.loop import Outcome
from tour_pyserini.core.mixing import intercept, mixed, odds
from tour_pyserini.errors import TourError

# The published code's divisor of similarities before its softmax.
_OFFICIAL_TEMPERATURE = 100.0


# How far documents without a label stay below the labelled ones: no tie in a file of six decimals.
_GAP = 1e-5


class Ranking(NamedTuple):
    """One query's list, best first: ids [m] and their scores [m], never increasing."""

    ids: Ids
    scores: Floats


def rank(outcome: Outcome, row: int, config: TourConfig, *, hits: int) -> Ranking:
    """The list of the query in `row`, at most `hits` long.

    A method that keeps its labels ranks everything on the scale of labels; see `_by_expected_label`. For the others,
    labelled candidates come first, by lambda s + (1 - lambda) z; they are those of the last retrieval or, with
    `final_list="union"`, all that were labelled in any round, with z the similarity to the final query. The documents
    below follow in retrieval order: one number is added to their similarities, so that they end below the others.
    """
    found = outcome.hits.ids[row] >= 0
    ids, similarities = outcome.hits.ids[row][found], outcome.hits.similarities[row][found].astype(np.float64)
    if not config.method_class.needs_labels:
        return Ranking(ids[:hits], similarities[:hits])
    scaled = outcome.scale[row] * similarities
    if config.method_class.keeps_labels:
        return _by_expected_label(outcome, row, ids, scaled, config, hits)
    head = _labelled(outcome, row, ids, scaled, config)
    below = ~np.isin(ids, head.ids)
    tail = scaled[below]
    if len(tail) and len(head.ids):
        tail += min(0.0, head.scores[-1] - _GAP - tail.max())
    return Ranking(np.concatenate([head.ids, ids[below]])[:hits], np.concatenate([head.scores, tail])[:hits])


def _by_expected_label(outcome: Outcome, row: int, ids: Ids, scaled: Floats, config: TourConfig, hits: int) -> Ranking:
    """Labelled and unlabelled documents in one list.

    A labelled document has lambda s + (1 - lambda) (b_0 + a c q_0): its label, and its similarity to the first query.
    An unlabelled document has the label that the optimised query predicts, b + a c q.

    Where further signals say something of the query, a document has its similarity and the odds of its label, or of the
    predicted one: what the re-ranker says counts as much as it stands out among what it says of the others.
    """
    known, labels, vectors, offsets = outcome.ledger.labelled(row)
    if vectors is None or not len(known):
        return Ranking(ids[:hits], scaled[:hits])
    first, now = (
        outcome.scale[row] * (vectors @ query + offsets)[None] for query in (outcome.start[row], outcome.queries[row])
    )
    mask = np.ones(first.shape, dtype=bool)
    rest = ~np.isin(ids, known)
    predicted = intercept(labels[None], now, mask)[0] + scaled[rest]
    if outcome.fusion is None or not offsets.any():  # a query of which no further signal says anything
        expected = np.concatenate([mixed(labels[None], first, mask, config.score_weight)[0], predicted])
    else:
        weight = config.belief * outcome.scale[row] * outcome.fusion.unit(row)
        both = np.concatenate([labels, predicted])
        # The optimised query may give all candidates higher similarities than the first one did.
        level = first.mean() - now.mean()
        expected = np.concatenate([first[0], scaled[rest] + level]) + weight * odds(both, labels)
    order = np.argsort(-expected, kind="stable")[:hits]
    return Ranking(np.concatenate([known, ids[rest]])[order], expected[order])


def _labelled(outcome: Outcome, row: int, ids: Ids, scaled: Floats, config: TourConfig) -> Ranking:
    known, labels, vectors, offsets = outcome.ledger.labelled(row)
    if vectors is not None:
        similarity = outcome.scale[row] * (vectors @ outcome.queries[row] + offsets).astype(np.float64)
    else:
        # No query was ever updated: the labelled candidates are the head of the only retrieval, or were in time.
        position = {id_: i for i, id_ in enumerate(ids.tolist())}
        similarity = scaled[[position[id_] for id_ in known.tolist()]]
    chosen = np.arange(len(known))
    if config.final_list == "last":
        position = {id_: i for i, id_ in enumerate(known.tolist())}
        chosen = np.array([position[id_] for id_ in ids[: config.depth].tolist() if id_ in position], dtype=np.int64)
    combined = _combined(labels[chosen], similarity[chosen], config)
    order = np.argsort(-combined, kind="stable")
    return Ranking(known[chosen[order]], combined[order])


def _combined(labels: Floats, similarities: Floats, config: TourConfig) -> Floats:
    weight = config.score_weight
    if config.aggregation == "softmax":
        return weight * softmax(labels) + (1 - weight) * softmax(similarities / _OFFICIAL_TEMPERATURE)
    return weight * labels + (1 - weight) * similarities


def strictly_decreasing(scores: Floats) -> Floats:
    """The same scores to six decimals, lowered just enough that each is below the one before it.

    A run file has six decimals and evaluators sort by score: ties would be ordered by chance.
    """
    if len(scores) and not np.abs(scores).max() < 1e12:
        raise TourError(f"a score of {scores[np.abs(scores).argmax()]:g} does not fit a run file; lower the step size.")
    steps = np.arange(len(scores))
    millionths = np.rint(scores.astype(np.float64) * 1e6).astype(np.int64)
    return (np.minimum.accumulate(millionths + steps) - steps) / 1e6
