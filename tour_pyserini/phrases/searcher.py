"""Searching phrases, or passages by their phrases, with questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats, Ids
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.finder import FETCHED, PhraseFinder
from tour_pyserini.phrases.index import PhraseIndex
from tour_pyserini.phrases.phrase_ids import PhraseNames, title_and_text

UNITS = ("phrase", "passage")


@dataclass
class PhraseHit:
    """A phrase that was found: `text` is characters `begin` to `end` of the passage's text, `vector` [start; end]."""

    docid: str
    begin: int
    end: int
    text: str
    score: float
    vector: Floats | None = None


class PhraseSearcher:
    """Answers straight from the index.

    Attributes:
        index: FAISS over the token vectors.
        docids: names of phrases by their numbers.
        dimension: of a query's vector: [start; end], twice a token's.

    Example:
        searcher = PhraseSearcher(open_phrase_index("indexes/nq"), encoder, open_texts("nq-wiki/corpus.jsonl"))
        searcher.search("who got the first nobel prize in physics")[0].text
    """

    def __init__(
        self,
        index: PhraseIndex,
        query_encoder: Any,
        texts: Mapping[str, str],
        *,
        max_words: int = 10,
        fetch: int = FETCHED,
    ) -> None:
        """Search an index.

        Args:
            index: the tokens.
            query_encoder: anything whose `encode_batch(questions)` gives [n, 2 d].
            texts: docid to passage, as `open_texts` gives it.
            max_words: words of a phrase at most.
            fetch: starts and ends that are fetched first; see `PhraseFinder`.
        """
        self.finder = PhraseFinder(index, max_words=max_words, fetch=fetch)
        self.docids = PhraseNames(index)
        self.query_encoder, self.texts = query_encoder, texts
        self.index = index.index
        self.dimension = 2 * index.vectors.shape[1]

    def search(self, query: str | Floats, k: int = 10, threads: int = 1, *, unit: str = "phrase") -> list[PhraseHit]:
        """The k best phrases, or the best phrase of each of the k best passages; best first."""
        queries = query.reshape(1, -1) if isinstance(query, np.ndarray) else [query]
        return self.batch_search(queries, ["query"], k, threads, unit=unit)["query"]

    def batch_search(
        self,
        queries: Sequence[str] | Floats,
        q_ids: Sequence[str],
        k: int = 10,
        threads: int = 1,
        *,
        unit: str = "phrase",
    ) -> dict[str, list[PhraseHit]]:
        """The hits of many queries, given as texts or as vectors [n, 2 d], by query id."""
        if unit not in UNITS:
            raise TourError(f"there is no unit {unit!r}; choose one of {', '.join(UNITS)}.")
        if k < 1:
            raise TourError(f"the number of hits must be at least 1, not {k}.")
        vectors = queries if isinstance(queries, np.ndarray) else self.query_encoder.encode_batch(list(queries))
        if vectors.ndim != 2 or vectors.shape != (len(q_ids), self.dimension):
            raise TourError(
                f"{len(q_ids)} queries of {self.dimension} dimensions were expected and {list(vectors.shape)} came; "
                "use the encoder that built the index."
            )
        wanted = {"phrases": k} if unit == "phrase" else {"passages": k}
        hits = self.finder.find(vectors, threads=threads, **wanted)
        return {
            q_id: self.hits(ids[ids >= 0], similarities[ids >= 0])
            for q_id, ids, similarities in zip(q_ids, hits.ids, hits.similarities, strict=True)
        }

    def text(self, id_: int) -> str:
        """The words of a phrase."""
        span = self.docids.span(id_)
        return title_and_text(self.texts, span)[1][span.begin : span.end]

    def hits(self, ids: Ids, scores: Floats) -> list[PhraseHit]:
        """Phrases [m] with their scores [m] as hits."""
        found = []
        for id_, score, vector in zip(ids.tolist(), scores.tolist(), self.finder.vectors(ids), strict=True):
            found.append(PhraseHit(*self.docids.span(id_), text=self.text(id_), score=score, vector=vector))
        return found
