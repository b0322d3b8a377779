"""What methods share that leave the query as it is and choose by labels where to look next."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tour_pyserini.core.candidates import Candidates, Floats, Hits, Ids
from tour_pyserini.core.corpus_view import CorpusView
from tour_pyserini.core.methods.method import Method, uniform
from tour_pyserini.core.settings import AT_LEAST_1, Settings, setting


@dataclass(frozen=True, kw_only=True)
class NeighbourSettings(Settings):
    """How many edges a document has in the corpus graph."""

    neighbours: int = setting(16, "neighbours of a document in the corpus graph", rule=AT_LEAST_1)


class Exploring(Method):
    """Labels documents that it chooses itself; documents without a label are ranked by q_0.

    A subclass says in `_order` which documents it wants to label, best first. What it has not chosen follows in the
    order of the retrieval, so that a budget is spent wherever there are documents.
    """

    Settings = NeighbourSettings
    keeps_labels = True
    shared_defaults = MappingProxyType({"iterations": 6, "depth": 5})

    @classmethod
    def least_hits(cls, settings: Any) -> int:
        """A document's neighbours, and the document itself."""
        return settings.neighbours + 1

    def target(self, candidates: Candidates) -> Floats:
        """All on the candidate with the highest label."""
        best = candidates.labels.max(axis=1, keepdims=True, initial=float("-inf"))
        return uniform(candidates.mask & (candidates.labels >= best))

    def update(self, rows: Ids, query: Floats, candidates: Candidates, target: Floats, t: int) -> Floats:
        """The query as it is."""
        return query

    def propose(self, rows: Ids, hits: Hits, view: CorpusView) -> Hits:
        """The documents in the order of the rule, then the hits; each has its similarity to q_0."""
        lists = [self._list(row, ids, z, view) for row, ids, z in zip(rows.tolist(), *hits, strict=True)]
        width = max((len(ids) for ids, _ in lists), default=0)
        return Hits(
            np.stack([np.pad(ids, (0, width - len(ids)), constant_values=-1) for ids, _ in lists]),
            np.stack([np.pad(z, (0, width - len(z)), constant_values=-np.inf) for _, z in lists]),
        )

    def _list(self, row: int, found: Ids, similarities: Floats, view: CorpusView) -> tuple[Ids, Floats]:
        """What is offered to the query in `row`, given its hits [m]: documents and their similarities."""
        found, similarities = found[found >= 0], similarities[found >= 0]
        chosen = self._order(row, found, view) if len(found) else found
        rest = ~np.isin(found, chosen)
        return np.concatenate([chosen, found[rest]]), np.concatenate(
            [view.similarities(row, chosen), similarities[rest]]
        )

    @abstractmethod
    def _order(self, row: int, hits: Ids, view: CorpusView) -> Ids:
        """The documents to label next for the query in `row`, best first, given its retrieval [m], m > 0.

        No document is there twice; those that have a label are passed over.
        """


def once(documents: Iterable[Ids]) -> Ids:
    """The documents of several lists in one list, each where it comes first."""
    joined = [id_ for ids in documents for id_ in ids.tolist()]
    return np.array(list(dict.fromkeys(joined)), dtype=np.int64)
