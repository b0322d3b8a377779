"""TouR's loop (Section 3): retrieve, label, stop?, update, for all queries together."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.calibration import moments, scale_of_each
from tour_pyserini.core.candidates import Candidates, Flags, Floats, Hits, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.corpus_view import CorpusView
from tour_pyserini.core.fusion import Found, Fusion, Search
from tour_pyserini.core.ledger import Ledger, Score, Vectors
from tour_pyserini.core.methods.method import Method
from tour_pyserini.core.purse import Grant


class StopReason(StrEnum):
    """Why a query stopped."""

    AGREEMENT = "agreement"
    NOTHING_TO_GAIN = "nothing left worth a label"
    BUDGET = "budget"
    ROUNDS = "rounds"
    NO_CANDIDATES = "no candidates"
    DEADLINE = "deadline"


class Round(NamedTuple):
    """What happened to the active queries in one round.

    Attributes:
        t: how many updates the queries had seen.
        rows: [n] which queries of the batch these are.
        queries: [n, d] their vectors q_t.
        hits: [n, m] their retrieval.
        candidates: what the update learns from, with labels.
        target: [n, k] the distribution T.
        step_size: eta_t of the update that follows; None where there is none or the rule has no steps.
        stops: [n] why each query stops now; None for those that go on.
    """

    t: int
    rows: Ids
    queries: Floats
    hits: Hits
    candidates: Candidates
    target: Floats
    step_size: float | None
    stops: Sequence[StopReason | None]


class Outcome(NamedTuple):
    """What the loop leaves for n queries.

    Attributes:
        start: [n, d] the encoder's vectors.
        queries: [n, d] the optimised vectors.
        hits: [n, m] each query's last retrieval.
        updates: [n] how often each was updated.
        ledger: all labels bought, with the candidates' vectors.
        scale: [n] the factor that puts similarities on the scale of labels.
        fusion: the retrieval with further signals; None where the index is the only one.
    """

    start: Floats
    queries: Floats
    hits: Hits
    updates: Ids
    ledger: Ledger
    scale: Floats
    fusion: Fusion | None = None


class Progress(NamedTuple):
    """Where the loop is: after the first retrieval, or after the labels of a round.

    Attributes:
        outcome: what it would leave if it ended now. The loop goes on to change it: what is needed of it is taken
            before the next step.
        round: what happened; None after the first retrieval.
    """

    outcome: Outcome
    round: Round | None


def optimise(
    queries: Floats, config: TourConfig, *, observe: Callable[[Round], None] | None = None, **parts: Any
) -> Outcome:
    """Optimise the query vectors at test time: all rounds of the loop.

    Args:
        queries: [n, d] the encoder's vectors q_0.
        config: the method and its settings.
        observe: called after each round, for traces and progress.
        parts: what the loop works with, as `rounds` takes it.
    """
    for progress in rounds(queries, config, watched=observe is not None, **parts):
        if observe and progress.round:
            observe(progress.round)
    return progress.outcome


def rounds(
    queries: Floats,
    config: TourConfig,
    *,
    search: Search,
    vectors: Vectors,
    score: Score,
    signals: Sequence[Found] = (),
    scale: float | None = None,
    grant: Grant | None = None,
    watched: bool = True,
) -> Iterator[Progress]:
    """The loop, which stops at the first retrieval and after the labels of each round.

    Args:
        queries: [n, d] the encoder's vectors q_0; float32 or float64, and the result is of the same kind.
        config: the method and its settings.
        search: hits [a, m] for the vectors [a, d] of the rows [a]; m >= depth where the index has as many.
        vectors: vectors [p, d] of the candidates [p].
        score: re-ranker scores [p] of p pairs: rows [p] and candidates [p]. NaN where there is no time for a label:
            the query learns from those that it got, and stops.
        signals: what each further first-stage signal found for the queries, [n, m] with scores of its own.
        scale: the calibrated factor of similarities, where the settings ask for one; None: each query finds its own,
            from its own labels.
        grant: asked before labels are bought, where queries share them; a query that is refused stops.
        watched: whether the loop stops after each round too, with what happened in it.
    """
    most_updates = config.rounds
    method = config.new_method(queries)
    fusion = Fusion(search, vectors, signals, weight=config.signal_weight) if signals else None
    retrieve, offsets = (fusion.search, fusion.offsets) if fusion else (search, None)
    ledger = Ledger(score=score, vectors=vectors if most_updates else None, offsets=offsets)
    view = CorpusView(
        queries, wanted=config.depth, search=search, vectors=vectors, ledger=ledger, signals=signals, fusion=fusion
    )
    finds_scale = config.calibrates and scale is None
    scales = np.full(len(queries), scale if config.calibrates and scale is not None else config.similarity_scale)
    query, updates = queries.copy(), np.zeros(len(queries), dtype=np.int64)

    active = np.arange(len(query))
    hits = retrieve(active, query)
    final = Hits(hits.ids.copy(), hits.similarities.copy())
    outcome = Outcome(queries, query, final, updates, ledger, scales, fusion)
    yield Progress(outcome, None)
    for t in range(most_updates + 1):
        last, may_stop = t == most_updates, config.early_stopping and t < most_updates
        labels_round = method.labels_round(last=last)
        # The most candidates that any query has met by now; one empty column where nothing is labelled at all.
        width = max(min(config.most_labels, config.depth * (t + 1)), 1)
        if last and not labels_round and not watched:
            break

        # Label: the candidates of this round, but for queries that expect nothing from more labels.
        budget = config.most_labels if labels_round else None
        proposed = method.propose(active, hits, view) if most_updates else hits
        offered = ledger.choose(active, proposed, config.depth, new_only=method.keeps_labels, budget=budget)
        enough = (method.nothing_to_gain(active, offered) & may_stop) | ledger.late(active)
        refused = np.zeros(len(active), dtype=bool)
        if grant and labels_round:
            refused = _refused(grant, method, ledger, active, offered, enough)
        entered = offered.without(enough | refused | (last and method.keeps_labels))
        ledger.enter(active, entered)
        if labels_round:
            labels = ledger.buy(active, entered)
            if finds_scale:  # on the first labels: they alone are chosen by similarity to the first query
                bought = (entered.ids >= 0) & ~np.isnan(labels)
                scales[active] = scale_of_each(moments(entered.similarities, labels, bought))
                finds_scale = False
        candidates = ledger.candidates(
            active, query[active], None if method.keeps_labels else offered, scale=scales[active], width=width
        )
        target = method.target(candidates)

        # Stop?
        agrees = method.agrees(candidates) & may_stop
        late = ledger.late(active)
        stopped = enough | refused | agrees | last | (late & ~candidates.mask.any(axis=1))
        if watched:
            empty = offered.ids.max(axis=1) < 0
            # A method that keeps its labels has as many rounds as the budget allows; others may go on without labels.
            most = config.query_budget
            spent = (ledger.spent(active) >= most) & (most > 0) & (empty | method.keeps_labels)
            stops = _reasons(stopped, late, agrees, enough, empty=empty, spent=spent | refused)
            step_size = None if last else method.step_size(t)
            round_ = Round(t, active, query[active], hits, candidates, target, step_size, stops)
            yield Progress(outcome, round_)
        if stopped.all():
            break

        # Update, and retrieve again.
        active, candidates, target = active[~stopped], candidates.only(~stopped), target[~stopped]
        query[active] = method.update(active, query[active], candidates, target, t)
        updates[active] += 1
        hits = retrieve(active, query[active])
        final.ids[active], final.similarities[active] = hits


def _refused(grant: Grant, method: Method, ledger: Ledger, rows: Ids, offered: Hits, enough: Flags) -> Flags:
    """[a] true for the queries that want labels of their offered candidates and do not get them."""
    labels = (offered.ids >= 0).sum(axis=1)
    wants = ~enough & (labels > 0)
    gains = np.where(ledger.spent(rows) > 0, method.expected_gain(rows, offered) / np.maximum(labels, 1), np.inf)
    refused = np.zeros(len(rows), dtype=bool)
    refused[wants] = ~grant(rows[wants], gains[wants], labels[wants])
    return refused


def _reasons(
    stopped: Flags, late: Flags, agrees: Flags, enough: Flags, *, empty: Flags, spent: Flags
) -> list[StopReason | None]:
    """Why each query stops, [n]; None where it goes on.

    Args:
        stopped: [n] it stops.
        late: [n] there was no time for a label.
        agrees: [n] the first candidate agrees with the labels.
        enough: [n] the method expects nothing from more labels.
        empty: [n] there was no candidate to label.
        spent: [n] the budget is spent, and that ended the rounds or left no candidate; or no label was granted.
    """
    reasons: list[StopReason | None] = []
    for i in range(len(stopped)):
        if not stopped[i]:
            reasons.append(None)
        elif late[i]:
            reasons.append(StopReason.DEADLINE)
        elif agrees[i] and not empty[i]:
            reasons.append(StopReason.AGREEMENT)
        elif spent[i]:
            reasons.append(StopReason.BUDGET)
        elif empty[i]:
            reasons.append(StopReason.NO_CANDIDATES)
        else:
            reasons.append(StopReason.NOTHING_TO_GAIN if enough[i] else StopReason.ROUNDS)
    return reasons
