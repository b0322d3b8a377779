"""The queries with the largest gains and losses over a baseline, with the first hit of both runs."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np

from tour_pyserini.data.runs import read_rankings
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.evaluation.paired_tests import gains

if TYPE_CHECKING:
    from ir_measures import Qrel

CHARACTERS = 160  # most of a passage that is shown
DOCUMENTS = 8  # most relevant documents of a query that are shown


def examples(
    baseline: MeasuredRun,
    others: Sequence[MeasuredRun],
    qrels: Sequence["Qrel"],
    *,
    shown: int,
    queries: Mapping[str, str],
    texts: Mapping[str, str],
) -> str:
    """Show the largest gains and the largest losses of each run on the first measure.

    Args:
        baseline: the run to compare with.
        others: the other runs, measured on the same queries.
        qrels: the judgements; a document with a grade above 0 is relevant.
        shown: most gains, and most losses, to show for each run.
        queries: query id to text.
        texts: docid to passage.

    Returns:
        Text; `*` marks a relevant document.
    """
    relevant: dict[str, list[str]] = {qrel.query_id: [] for qrel in qrels}
    for qrel in sorted(qrels, key=lambda qrel: -qrel.relevance):
        if qrel.relevance > 0:
            relevant[qrel.query_id].append(qrel.doc_id)
    measure = next(iter(baseline.values))
    chosen = [_extremes(list(relevant), gains(run.values[measure], baseline.values[measure]), shown) for run in others]
    wanted = {query for both in chosen for part in both for query, _ in part}
    if missing := sorted(wanted - queries.keys()):
        raise TourError(f"query {missing[0]!r} is judged but not in the topics; give the topics that the runs answer.")
    before = read_rankings(baseline.path, wanted)
    lines: list[str] = []
    for run, both in zip(others, chosen, strict=True):
        after = read_rankings(run.path, wanted)
        for part, name in zip(both, ("rescued", "lost"), strict=True):
            lines += ["", f"{name} by {run.name} against {baseline.name} ({measure}): {len(part)} shown"]
            for query, gain in part:
                lines += ["", f"{gain:+.4f}  {query}  {_shortened(queries[query])}"]
                lines += _evidence(before[query], after[query], relevant[query], texts)
    return "\n".join(lines[1:])


def _extremes(queries: Sequence[str], gained: np.ndarray, shown: int) -> tuple[list[tuple[str, float]], ...]:
    """The largest gains and the largest losses as (query, gain); equal ones are in the order of the judgements."""
    best, worst = (np.argsort(values, kind="stable")[:shown] for values in (-gained, gained))
    return (
        [(queries[position], float(gained[position])) for position in best if gained[position] > 0],
        [(queries[position], float(gained[position])) for position in worst if gained[position] < 0],
    )


def _evidence(
    before: Sequence[str], after: Sequence[str], relevant: Sequence[str], texts: Mapping[str, str]
) -> Iterator[str]:
    """The ranks of relevant documents in both runs, and the first hit of each run."""
    best = sorted(relevant, key=lambda docid: min(_rank(before, docid), _rank(after, docid)))
    ranks = [f"{docid} {_rank_text(before, docid)} -> {_rank_text(after, docid)}" for docid in best[:DOCUMENTS]]
    more = f", and {len(best) - DOCUMENTS} more" if len(best) > DOCUMENTS else ""
    yield f"    relevant, by rank: {', '.join(ranks) or 'none'}{more}"
    for name, ranking in (("before", before), ("after", after)):
        yield f"    {name:6s}  {_first_hit(ranking, set(relevant), texts)}"


def _first_hit(ranking: Sequence[str], relevant: Set[str], texts: Mapping[str, str]) -> str:
    if not ranking:
        return "  no hits"
    mark = "*" if ranking[0] in relevant else " "
    return f"{mark} {ranking[0]}  {_shortened(texts[ranking[0]])}"


def _rank(ranking: Sequence[str], docid: str) -> float:
    return ranking.index(docid) + 1 if docid in ranking else float("inf")


def _rank_text(ranking: Sequence[str], docid: str) -> str:
    return str(ranking.index(docid) + 1) if docid in ranking else "-"


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CHARACTERS else line[: CHARACTERS - 3].rstrip() + "..."
