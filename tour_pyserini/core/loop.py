"""TouR's loop (Section 3): retrieve, label, stop?, update, again - for all queries together."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tour_pyserini.core.calibration import Calibration
from tour_pyserini.core.candidates import Candidates, Flags, Floats, Hits, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.methods import METHODS
from tour_pyserini.core.pool import Pool, Score, Vectors

Search = Callable[[Ids, Floats], Hits]


class Step(NamedTuple):
    """What happened to the active queries in one iteration.

    Attributes:
        t: how many updates the queries had seen.
        rows: [n] which queries of the batch these are.
        queries: [n, d] their vectors q_t.
        hits: [n, m] their retrieval.
        candidates: what the update learns from, labelled.
        target: [n, k] the distribution T.
        step_size: eta_t of the update that follows; None where there is none or the rule has no steps.
        stopped: [n] true for the queries that leave now because they agree with the labels, or need no more.
        last: whether this was the last iteration for all of them.
    """

    t: int
    rows: Ids
    queries: Floats
    hits: Hits
    candidates: Candidates
    target: Floats
    step_size: float | None
    stopped: Flags
    last: bool


class Outcome(NamedTuple):
    """What the loop leaves for n queries.

    Attributes:
        start: [n, d] the encoder's vectors.
        queries: [n, d] the optimised vectors.
        hits: [n, m] each query's last retrieval.
        updates: [n] how often each was updated.
        pool: all labels bought, and their vectors, with the scale of similarities.
    """

    start: Floats
    queries: Floats
    hits: Hits
    updates: Ids
    pool: Pool


def optimise(
    queries: Floats,
    config: TourConfig,
    *,
    search: Search,
    vectors: Vectors,
    score: Score,
    calibration: Calibration | None = None,
    observe: Callable[[Step], None] | None = None,
) -> Outcome:
    """Optimise the query vectors at test time.

    Args:
        queries: [n, d] the encoder's vectors q_0; float32 or float64, and the result is of the same kind.
        config: the method and its settings.
        search: hits [a, m], m >= depth where the index has as many, for the vectors [a, d] of the rows [a].
        vectors: vectors [p, d] of the candidates [p].
        score: re-ranker logits [p] of p pairs: rows [p] and candidates [p].
        calibration: what earlier queries say of the scale of similarities, for a method that fits it; it learns from
            these, too.
        observe: called after each iteration, for traces and progress.
    """
    method = METHODS[config.method](config, queries)
    iterations = config.rounds if method.updates else 0
    scale = (calibration or Calibration()) if config.calibrates else config.similarity_scale
    pool = Pool(score=score, vectors=vectors if iterations else None, scale=scale)
    query = queries.copy()
    updates = np.zeros(len(query), dtype=np.int64)
    active = np.arange(len(query))
    hits = search(active, query)
    final = Hits(hits.ids.copy(), hits.similarities.copy())
    for t in range(iterations + 1):
        last = t == iterations
        buys = method.buys(last=last)
        if last and not buys and observe is None:
            break
        stopping = config.early_stopping and not last
        budget = config.most_labels if buys else None
        offered = pool.offer(active, hits, config.depth, new=method.keeps, budget=budget)
        enough = method.settled(active, offered) & stopping
        pool.meet(active, offered.without(enough | (method.keeps and last)), label=buys)
        candidates = pool.candidates(active, query[active], None if method.keeps else offered)
        target = method.target(candidates)
        stopped = enough | (method.agrees(candidates) & stopping)
        if observe:
            step_size = None if last else method.step_size(t)
            observe(Step(t, active, query[active], hits, candidates, target, step_size, stopped, last))
        if last or stopped.all():
            break
        active, candidates, target = active[~stopped], candidates.only(~stopped), target[~stopped]
        query[active] = method.update(active, query[active], candidates, target, t)
        updates[active] += 1
        hits = search(active, query[active])
        final.ids[active], final.similarities[active] = hits
    return Outcome(queries, query, final, updates, pool)
