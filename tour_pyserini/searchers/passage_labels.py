"""Labels of candidates: their passages are read, and the re-ranker scores them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tour_pyserini.core.candidates import Floats, Ids
from tour_pyserini.data.documents import UnknownDocument
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.reranker import Pair, score_pairs_counted
from tour_pyserini.stores.engines.collection_texts import StoredTexts
from tour_pyserini.support.costs import Costs

Label = Callable[[Sequence[Pair]], Floats]
"""Labels [m] of m (query, passage) pairs; NaN where there is no time for one, and the search then ends."""


@dataclass(frozen=True)
class PassageLabels:
    """Buys labels.

    Attributes:
        reranker: where labels come from; None for methods that do not label.
        texts: the passages by docid, opened.
        docids: the docid at each position of the index.
        costs: where labels and their time are counted.
    """

    reranker: Any
    texts: Mapping[str, str] | None
    docids: Sequence[str]
    costs: Costs

    def buy(self, queries: Sequence[str], ids: Ids, label: Label | None = None) -> Floats:
        """Labels [m] of pairs: texts of queries [m] and positions [m]; from `label` if it is given."""
        with self.costs.stage("texts"):
            docids = [self.docids[id_] for id_ in ids.tolist()]
            if isinstance(self.texts, StoredTexts):
                self.texts.load(docids)
            pairs = [(query, self.passage(docid)) for query, docid in zip(queries, docids, strict=True)]
        with self.costs.stage("label"):
            if label is not None:
                return label(pairs)
            scores, computed = score_pairs_counted(self.reranker, pairs)
        self.costs.add(scored=computed)
        return scores

    def passage(self, docid: str) -> str:
        """What the re-ranker reads of a document."""
        assert self.texts is not None
        try:
            text = self.texts[docid]
        except UnknownDocument:
            raise
        except KeyError:
            raise UnknownDocument(docid, "the given texts") from None
        if not isinstance(text, str):
            raise TourError(f"the text of document {docid!r} is {type(text).__name__}, not a string.")
        return text
