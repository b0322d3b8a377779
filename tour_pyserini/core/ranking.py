"""The final list: re-ranker and retriever scores combined (Section 3.4), the rest of the retrieval below."""

from typing import NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.fusion import intercept, mixed
from tour_pyserini.core.labels import softmax
from tour_pyserini.core.loop import Outcome
from tour_pyserini.core.methods import METHODS
from tour_pyserini.errors import TourError

# The published code's divisor of similarities before its softmax.
_OFFICIAL_TEMPERATURE = 100.0


# What the documents below the labelled ones stay below: enough not to tie in a file of six decimals.
_GAP = 1e-5


class Ranking(NamedTuple):
    """One query's list, best first: ids [m] and their scores [m], never increasing."""

    ids: Ids
    scores: Floats


def rank(outcome: Outcome, row: int, config: TourConfig, *, hits: int) -> Ranking:
    """The list of the query in `row`, at most `hits` long.

    A method that keeps its labels ranks everything by a score like the re-ranker's; see `_by_expected_score`. For the
    others, labelled candidates come first, by lambda s + (1 - lambda) z; they are those of the last retrieval or, with
    `final_list="union"`, all that were labelled on the way, with z the similarity to the final query. The documents
    below follow in retrieval order: their similarities are moved, all alike, to where the labelled ones end.
    """
    found = outcome.hits.ids[row] >= 0
    ids, similarities = outcome.hits.ids[row][found], outcome.hits.similarities[row][found].astype(np.float64)
    if not METHODS[config.method].labels:
        return Ranking(ids[:hits], similarities[:hits])
    scaled = outcome.pool.scale * similarities
    if METHODS[config.method].keeps:
        return _by_expected_score(outcome, row, ids, scaled, config, hits)
    head = _labelled(outcome, row, ids, scaled, config)
    below = ~np.isin(ids, head.ids)
    tail = scaled[below]
    if len(tail) and len(head.ids):
        tail += min(0.0, head.scores[-1] - _GAP - tail.max())
    return Ranking(np.concatenate([head.ids, ids[below]])[:hits], np.concatenate([head.scores, tail])[:hits])


def _by_expected_score(outcome: Outcome, row: int, ids: Ids, scaled: Floats, config: TourConfig, hits: int) -> Ranking:
    """Labelled and unlabelled documents in one list.

    A labelled one has lambda s + (1 - lambda) (b_0 + a c q_0): its label, and the similarity that did not drift. One
    without a label has the score that the optimised query predicts, b + a c q. Both are scores of the same scale.
    """
    known, scores, vectors = outcome.pool.labelled(row)
    if vectors is None or not len(known):
        return Ranking(ids[:hits], scaled[:hits])
    first, now = (outcome.pool.scale * (vectors @ query)[None] for query in (outcome.start[row], outcome.queries[row]))
    mask = np.ones(first.shape, dtype=bool)
    rest = ~np.isin(ids, known)
    expected = np.concatenate(
        [
            mixed(scores[None], first, mask, config.score_weight)[0],
            intercept(scores[None], now, mask)[0] + scaled[rest],
        ]
    )
    order = np.argsort(-expected, kind="stable")[:hits]
    return Ranking(np.concatenate([np.array(known, dtype=np.int64), ids[rest]])[order], expected[order])


def _labelled(outcome: Outcome, row: int, ids: Ids, scaled: Floats, config: TourConfig) -> Ranking:
    known, scores, vectors = outcome.pool.labelled(row)
    if vectors is not None:
        similarity = outcome.pool.scale * (vectors @ outcome.queries[row]).astype(np.float64)
    else:
        # No query was ever updated: what is known is the head of the only retrieval.
        similarity = scaled[: len(known)]
    chosen = np.arange(len(known))
    if config.final_list == "last":
        where = {id_: slot for slot, id_ in enumerate(known)}
        chosen = np.array([where[id_] for id_ in ids[: config.depth].tolist() if id_ in where], dtype=np.int64)
    fused = _combined(scores[chosen], similarity[chosen], config)
    order = np.argsort(-fused, kind="stable")
    return Ranking(np.array(known, dtype=np.int64)[chosen[order]], fused[order])


def _combined(scores: Floats, similarities: Floats, config: TourConfig) -> Floats:
    weight = config.score_weight
    if config.aggregation == "softmax":
        return weight * softmax(scores) + (1 - weight) * softmax(similarities / _OFFICIAL_TEMPERATURE)
    return weight * scores + (1 - weight) * similarities


def strictly_decreasing(scores: Floats) -> Floats:
    """The same scores to six decimals, lowered just enough that each is below the one before it.

    A run file has six decimals and evaluators sort by score: ties would be put in an order nobody meant.
    """
    if len(scores) and not np.abs(scores).max() < 1e12:
        raise TourError(f"a score of {scores[np.abs(scores).argmax()]:g} does not fit a run file; lower the step size.")
    steps = np.arange(len(scores))
    millionths = np.rint(scores.astype(np.float64) * 1e6).astype(np.int64)
    return (np.minimum.accumulate(millionths + steps) - steps) / 1e6
