"""Measures of single queries, with ir-measures."""

from collections.abc import Iterable, Mapping, Sequence
from subprocess import SubprocessError
from typing import TYPE_CHECKING

import numpy as np

from tour_pyserini.errors import TourError, first_line

if TYPE_CHECKING:
    from ir_measures import Measure, Qrel, ScoredDoc


class Scorer:
    """Measures runs query by query, over the judged queries.

    Attributes:
        measures: the measures' names, as ir-measures writes them.
        queries: the judged queries, in the order of the judgements.

    Example:
        scorer = Scorer(["nDCG@10"], read_qrels("qrels/demo.trec"))
        values = scorer.values(read_run("runs/demo.dense.trec"))["nDCG@10"]
        mean = scorer.aggregate("nDCG@10", values)
    """

    def __init__(self, measures: Sequence[str], qrels: Sequence["Qrel"]) -> None:
        import ir_measures

        try:
            parsed = [_parsed(measure) for measure in measures]
            self._evaluator = ir_measures.evaluator(parsed, qrels)
        except (NameError, TypeError, ValueError, SyntaxError, AssertionError, RuntimeError) as error:
            raise TourError(
                f"ir-measures cannot compute the measures {' '.join(measures)}: {first_line(error)}."
            ) from error
        self._measures = {str(measure): measure for measure in parsed}
        self.measures = list(self._measures)
        self.queries = list(dict.fromkeys(qrel.query_id for qrel in qrels))

    def values(self, run: Iterable["ScoredDoc"]) -> Mapping[str, np.ndarray]:
        """Each measure's value for every judged query, float64 [queries]; 0 for a query the run does not answer."""
        place = {query: at for at, query in enumerate(self.queries)}
        values = {measure: np.zeros(len(place)) for measure in self.measures}
        try:
            for query, measure, value in self._evaluator.iter_calc(run):
                if query in place:
                    values[str(measure)][place[query]] = value
        except (OSError, RuntimeError, ValueError, SubprocessError) as error:  # some measures are programs
            raise TourError(f"ir-measures failed on {' '.join(self.measures)}: {first_line(error)}.") from error
        return values

    def aggregate(self, measure: str, values: np.ndarray) -> float:
        """The mean, or the sum for measures that count; not a number where there are no values."""
        total = self._measures[measure].aggregator()
        for value in values:
            total.add(value)
        return float(total.result())


def _parsed(name: str) -> "Measure":
    import ir_measures

    measure = ir_measures.parse_measure(name)
    cutoff = measure.params.get("cutoff")
    if isinstance(cutoff, int) and cutoff < 1:  # on which pytrec_eval ends the whole process
        raise ValueError(f"the cutoff of {name} must be at least 1")
    return measure
