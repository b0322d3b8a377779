"""Pseudo-relevance feedback without labels, and then the last retrieval re-ranked: Rocchio and average."""

from dataclasses import dataclass

from tour_pyserini.core.arrays import Floats
from tour_pyserini.core.method import Label, Outcome, Query, Run, Search, StopReason, Vectors, method, register_method
from tour_pyserini.core.methods.baselines import FinalScoreSettings, combine, mean_of
from tour_pyserini.core.settings import AT_LEAST_1, SHARE, setting


@dataclass(frozen=True, kw_only=True)
class FeedbackRerankSettings(FinalScoreSettings):
    """How many candidates give feedback, and how many of the last retrieval are labelled; scores are standardised."""

    depth: int = setting(30, "candidates of the last retrieval that are labelled", rule=AT_LEAST_1)
    positives: int = setting(3, "how many of the first candidates count as relevant (k')", rule=AT_LEAST_1)
    score_weight: float = setting(0.5, "share of the label in the final score (lambda)", rule=SHARE)
    aggregation: str = setting("standardised", "form of the final score", choices=("linear", "standardised"))

    @property
    def most_labels(self) -> int:
        """The depth."""
        return self.depth


@dataclass(frozen=True, kw_only=True)
class RocchioRerankSettings(FeedbackRerankSettings):
    """Rocchio's three weights."""

    rocchio_alpha: float = setting(0.9, "Rocchio: weight of the query")
    rocchio_beta: float = setting(0.1, "Rocchio: weight of the mean of the first k' candidates")
    rocchio_gamma: float = setting(0.1, "Rocchio: weight of the mean of the other candidates")


@method(RocchioRerankSettings)
def rocchio_rerank(query: Query, settings: RocchioRerankSettings) -> Run:
    """Rocchio's feedback from the first candidates, and then the last retrieval re-ranked."""
    found = yield Search(query.vector, max(query.hits, settings.depth))
    vectors = yield Vectors(found.ids[: settings.depth])
    q = (
        settings.rocchio_alpha * query.vector
        + settings.rocchio_beta * mean_of(vectors[: settings.positives])
        - settings.rocchio_gamma * mean_of(vectors[settings.positives :])
    )
    return (yield from _rerank(query, q, settings))


@method(FeedbackRerankSettings)
def average_rerank(query: Query, settings: FeedbackRerankSettings) -> Run:
    """The mean of the query and its first candidates, and then the last retrieval re-ranked."""
    found = yield Search(query.vector, max(query.hits, settings.depth))
    vectors = yield Vectors(found.ids[: settings.positives])
    q = (query.vector + vectors.sum(axis=0)) / query.vector.dtype.type(len(vectors) + 1)
    return (yield from _rerank(query, q, settings))


def _rerank(query: Query, q: Floats, settings: FeedbackRerankSettings) -> Run:
    found = yield Search(q, max(query.hits, settings.depth))
    first = found.first(settings.depth)
    labels = yield Label(first.ids)
    late = labels != labels
    ranking = combine(first.ids[~late], labels[~late], first.scores[~late], found, settings)
    return Outcome(q, ranking, StopReason.DEADLINE if late.any() else StopReason.ROUNDS)


register_method(rocchio_rerank)
register_method(average_rerank)
