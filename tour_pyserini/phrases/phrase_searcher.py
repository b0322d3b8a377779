"""Searching phrases, or passages by their phrases, with questions: straight from the index, and with TouR."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from tour_pyserini.core.arrays import Floats, Hits, Ids
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.method import Outcome, Query
from tour_pyserini.core.scheduler import Task
from tour_pyserini.data.texts import Passage, open_texts
from tour_pyserini.encoders.encoder import encode_queries
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_index import (
    ENDS,
    STARTS,
    PhraseIndex,
    PhraseSpan,
    Rows,
    open_phrase_index,
    read_settings,
)
from tour_pyserini.phrases.reranker_input import RerankerInput
from tour_pyserini.searchers.hits import HitList
from tour_pyserini.searchers.searcher import Observer, TourSearcher
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.filters import FieldTable

_FETCHED = 1024  # start tokens and end tokens that FAISS finds at first, before more are needed
_COMPLETED = 64  # start tokens and end tokens that are completed to phrases at first
_GROWTH = 8  # factor of the number of tokens when more must be fetched
# Largest difference between an inner product of FAISS and one of NumPy, relative to the norms of the vectors.
_ROUNDING = 1e-5


@dataclass
class PhraseHit:
    """A phrase that was found: `text` is characters `begin` to `end` of the passage's text, `vector` [start; end]."""

    docid: str
    begin: int
    end: int
    text: str
    score: float
    vector: Floats | None = None


class _Phrases(NamedTuple):
    """Phrases found for one query, best first: their ids [m], scores [m], and positions of their passages [m]."""

    ids: Ids
    scores: Floats
    passages: Ids


def _select(found: _Phrases, phrases: int, passages: int) -> tuple[_Phrases, bool]:
    """The best phrases and the best phrase of each of the best passages; whether there are as many as asked for."""
    _, firsts = np.unique(found.passages, return_index=True)
    firsts = np.sort(firsts)[:passages]
    kept = np.union1d(np.arange(min(phrases, len(found.ids))), firsts).astype(np.int64)
    is_full = len(kept) > 0 and len(found.ids) >= phrases and len(firsts) >= passages
    return _Phrases(found.ids[kept], found.scores[kept], found.passages[kept]), is_full


def _complete(index: PhraseIndex, query: Floats, starts: Ids, ends: Ids, *, max_words: int) -> _Phrases:
    """Find phrases that begin at one of the starts or end at one of the ends.

    A phrase is found if no other phrase with the same start has a higher score, or no other phrase with the same end.
    A phrase is inside one passage and has at most `max_words` words. Its score is the inner product of its first token
    with the start half of the query, plus that of its last token with the end half. Of several best phrases with the
    same start (or end) only the shortest is found. Phrases with equal scores are in the order of the corpus.

    Args:
        index: the tokens.
        query: [2 d] the vector [start; end].
        starts: [a] rows of tokens; those that no phrase can begin with, and padding, are left out.
        ends: [b] rows of tokens; those that no phrase can end with are left out.
        max_words: largest number of words of a phrase.
    """
    starts, ends = (
        ids[(ids >= 0) & (index.rows["roles"][ids] & role > 0)] for ids, role in ((starts, STARTS), (ends, ENDS))
    )
    reach = 2 * max_words - 1  # a word has at most two rows
    near = np.unique(np.union1d(starts, ends)[:, None] + np.arange(-reach, reach + 1))
    near = near[(near >= 0) & (near < len(index.rows))]
    rows = index.rows[near]
    with_start, with_end = (index.vectors[near].astype(np.float32) @ query.reshape(2, -1).T.astype(np.float32)).T
    with_start = np.where(rows["roles"] & STARTS, with_start, -np.inf)
    with_end = np.where(rows["roles"] & ENDS, with_end, -np.inf)
    forward, backward = _scores(near, rows, with_start, with_end, max_words)
    is_start, is_end = np.isin(near, starts), np.isin(near, ends)
    every, to_end, to_start = np.arange(len(near)), forward.argmax(axis=1), backward.argmax(axis=1)
    best_end, best_start = np.minimum(every + to_end, len(near) - 1), np.maximum(every - to_start, 0)
    by_start = every[(forward.max(axis=1) > -np.inf) & (is_start | is_end[best_end])]
    by_end = every[(backward.max(axis=1) > -np.inf) & (is_end | is_start[best_start])]
    first = np.concatenate([by_start, by_end - to_start[by_end]])
    last = np.concatenate([by_start + to_end[by_start], by_end])
    ids, unique = np.unique(index.phrase_id(near[first], near[last]), return_index=True)
    first, last = first[unique], last[unique]
    scores = forward[first, last - first]
    order = np.lexsort((ids, -scores))
    return _Phrases(ids[order], scores[order], rows["passage"][first][order].astype(np.int64))


def _scores(near: Ids, rows: Rows, with_start: Floats, with_end: Floats, max_words: int) -> tuple[Floats, Floats]:
    """[u, 2 max_words] at [i, j] the score of the phrase from `near[i]` to `near[i + j]`; minus infinity if none.

    And of that from `near[i - j]` to `near[i]`.
    """
    first, last = rows["first"].astype(np.int64), rows["last"].astype(np.int64)
    forward, backward = np.full((2, len(near), 2 * max_words), -np.inf, dtype=np.float32)
    for distance in range(min(2 * max_words, len(near))):
        start, end = slice(0, len(near) - distance), slice(distance, None)
        is_phrase = (near[end] - near[start] == distance) & (rows["passage"][end] == rows["passage"][start])
        is_phrase &= last[end] - first[start] < max_words
        scores = np.where(is_phrase, with_start[start] + with_end[end], -np.inf)
        forward[start, distance] = backward[end, distance] = scores
    return forward, backward


class _Names:
    """The names of the phrases of an index, by phrase id, such as `nq-0:77-98`; a searcher's docids."""

    def __init__(self, index: PhraseIndex) -> None:
        self._index = index

    def __getitem__(self, id_: int) -> str:
        return str(self._index.span(id_))


class PhraseSearcher:
    """Answers straight from the index.

    A query's list has the phrases that are the best of all phrases with the same start, or with the same end. On a flat
    index the list is exact: tokens are fetched until no phrase of other tokens can be in the list. On other indexes,
    tokens are fetched until the list is long enough.

    Attributes:
        tokens: the phrase index.
        index: FAISS over the token vectors.
        docids: names of phrases, such as `nq-0:77-98`, by their ids.
        dimension: of a query's vector: [start; end], twice a token's.

    Example:
        searcher = PhraseSearcher(open_phrase_index("indexes/nq"), encoder, open_texts("nq-wiki/corpus.jsonl"))
        searcher.search("who got the first nobel prize in physics")[0].text
    """

    def __init__(
        self, tokens: PhraseIndex, query_encoder: Any, texts: Mapping[str, str], *, max_words: int = 10
    ) -> None:
        """Search an index.

        Args:
            tokens: the index.
            query_encoder: anything whose `encode_batch(questions)` gives [n, 2 d].
            texts: docid to passage, as `open_texts` gives it.
            max_words: words of a phrase at most.
        """
        self.tokens, self.query_encoder, self.texts = tokens, query_encoder, texts
        self.max_words, self._faiss = max_words, FaissIndex(tokens.index)
        self._exact = self._faiss.kind in ("IndexFlat", "IndexFlatIP")
        self.index, self.docids, self.dimension = tokens.index, _Names(tokens), 2 * tokens.vectors.shape[1]

    @classmethod
    def open(cls, index: str, corpus: str, encoder: str | os.PathLike[str], *, device: str = "cpu") -> Self:
        """Search the index in a folder with the encoder that built it; another one is refused."""
        from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder  # torch takes seconds to start

        opened, loaded = open_phrase_index(index, corpus=corpus), load_phrase_encoder(encoder, device=device)
        if not loaded.has_built(read_settings(index)):
            raise TourError(f"{index} was not built with {encoder}; give the encoder that built it.")
        return cls(opened, loaded, open_texts(corpus))

    def search(self, query: str | Floats, k: int = 10, threads: int = 1) -> list[PhraseHit]:
        """The k best phrases, best first."""
        queries = query.reshape(1, -1) if isinstance(query, np.ndarray) else [query]
        return self.batch_search(queries, ["query"], k, threads)["query"]

    def batch_search(
        self, queries: Sequence[str] | Floats, q_ids: Sequence[str], k: int = 10, threads: int = 1
    ) -> dict[str, list[PhraseHit]]:
        """The hits of many queries, given as texts or as vectors [n, 2 d], by query id."""
        vectors = encode_queries(self.query_encoder, queries, q_ids, self.dimension)
        found = self.find(vectors, phrases=k, threads=threads)
        return {
            q_id: self.hits(ids[ids >= 0], similarities[ids >= 0], vectors=True)
            for q_id, ids, similarities in zip(q_ids, found.ids, found.similarities, strict=True)
        }

    def find(self, queries: Floats, *, phrases: int = 0, passages: int = 0, threads: int = 1) -> Hits:
        """The best phrases of each of the queries [n, 2 d].

        The list of a query has the `phrases` best phrases, and the best phrase of each of the `passages` best passages.
        With `phrases=0` it has only one phrase per passage.

        Returns:
            ids and similarities [n, phrases + passages], best first, padded with -1 and minus infinity.
        """
        results: list[_Phrases] = [None] * len(queries)  # type: ignore[list-item]
        unfinished, fetch = np.arange(len(queries)), min(_FETCHED, len(self.tokens.rows))
        while len(unfinished):
            # Each half of a query is one query for FAISS, so that starts and ends are found in one search.
            hits = self._faiss.search(queries[unfinished].reshape(2 * len(unfinished), -1), fetch, threads=threads)
            finished = []
            for i, row in enumerate(unfinished.tolist()):
                starts, ends = (Hits(hits.ids[half], hits.similarities[half]) for half in (2 * i, 2 * i + 1))
                results[row], final = self._best(queries[row], starts, ends, phrases=phrases, passages=passages)
                # An inverted file returns -1 when its searched lists have no more tokens.
                no_more = fetch >= len(self.tokens.rows) or max(starts.ids[-1], ends.ids[-1]) < 0
                finished.append(final or no_more)
            unfinished = unfinished[~np.array(finished, dtype=bool)]
            fetch = min(fetch * _GROWTH, len(self.tokens.rows))
        ids = np.full((len(queries), phrases + passages), -1, dtype=np.int64)
        similarities = np.full(ids.shape, -np.inf, dtype=np.float32)
        for row, found in enumerate(results):
            ids[row, : len(found.ids)], similarities[row, : len(found.ids)] = found.ids, found.scores
        return Hits(ids, similarities)

    def _best(self, query: Floats, starts: Hits, ends: Hits, *, phrases: int, passages: int) -> tuple[_Phrases, bool]:
        """The list of one query from the fetched tokens, and whether it is final: more tokens are not needed."""
        fetched = len(starts.ids)
        count = min(_COMPLETED, fetched)
        # An upper bound of the rounding error of a phrase's score.
        rounding = _ROUNDING * self.tokens.largest_norm * float(np.linalg.norm(query.reshape(2, -1), axis=1).sum())
        while True:
            completed = _complete(self.tokens, query, starts.ids[:count], ends.ids[:count], max_words=self.max_words)
            best, is_full = _select(completed, phrases, passages)
            # A phrase with none of these tokens has at most the score of the last start plus that of the last end.
            limit = starts.similarities[count - 1] + ends.similarities[count - 1]
            if is_full and best.scores[-1] > limit + rounding:
                return best, True
            if count == fetched:
                return best, is_full and not self._exact
            count = min(2 * count, fetched)

    def passage(self, span: PhraseSpan) -> tuple[str, str]:
        """The title and the text of the passage that contains a phrase."""
        passage = self.texts[span.docid]
        return passage.parts if isinstance(passage, Passage) else ("", passage)

    def text(self, id_: int) -> str:
        """The words of a phrase."""
        span = self.tokens.span(id_)
        return self.passage(span)[1][span.begin : span.end]

    def hits(self, ids: Ids, scores: Floats, *, vectors: bool = False) -> list[PhraseHit]:
        """Phrases [m] with their scores [m] as hits, with their vectors if asked to."""
        stacked = self.tokens.phrase_vectors(ids) if vectors else [None] * len(ids)
        return [
            PhraseHit(*self.tokens.span(id_), self.text(id_), score, vector)
            for id_, score, vector in zip(ids.tolist(), scores.tolist(), stacked, strict=True)
        ]


class TourPhraseSearcher(TourSearcher):
    """Searches a phrase index with queries [start; end] that are optimised at test time.

    `phrases` and `batch_phrases` give phrases. `search`, `batch_search` and `batch_run` give passages: a passage has
    the score of its best phrase. Nothing here needs Pyserini or Java.

    Example:
        searcher = TourPhraseSearcher(PhraseSearcher(index, encoder, texts), "models/reranker")
        searcher.phrases("who got the first nobel prize in physics")[0].text
    """

    def __init__(
        self,
        searcher: PhraseSearcher,
        reranker: Any = "default",
        config: TourConfig | None = None,
        *,
        unit: str = "phrase",
        reranker_input: RerankerInput | None = None,
        observe: Observer | None = None,
        predict: Callable[[str, Sequence[PhraseHit]], None] | None = None,
    ) -> None:
        """Wrap a searcher.

        Args:
            searcher: where candidates come from.
            reranker: where labels come from: anything `load_reranker` takes.
            config: the method and its settings.
            unit: what a candidate is: a `phrase`, or a `passage`, by its best phrase.
            reranker_input: what the re-ranker reads of a phrase; left out, what its folder says, else the default.
            observe: called with each query that has ended.
            predict: called with each query's id and its phrases, best first.
        """
        if unit not in ("phrase", "passage"):
            raise TourError(f"there is no unit {unit!r}; choose phrase or passage.")
        self._unit, self._predict = unit, predict
        self._reranker_input = reranker_input or RerankerInput.read(reranker)
        # Probabilities of relevance are of passages.
        config = config and config.replace(calibration=None)
        no_fields = FieldTable([])  # phrases are not filtered
        how: dict[str, Any] = {"vectors": searcher.tokens.phrase_vectors, "observe": observe, "fields": no_fields}
        super().__init__(searcher, reranker, searcher.texts, config, **how)

    @property
    def index_record(self) -> dict[str, Any]:
        """Nothing: the record names the index, which has a record of its own."""
        return {}

    def phrases(self, query: str, k: int = 10, threads: int = 1) -> list[PhraseHit]:
        """The k best phrases for a query, best first."""
        return self.batch_phrases([query], ["query"], k, threads)[1]["query"]

    def batch_phrases(
        self, queries: Any, q_ids: list[str], k: int = 10, threads: int = 1
    ) -> tuple[Floats, dict[str, list[PhraseHit]]]:
        """The optimised vectors [n, 2 d] and the k best phrases of each query by its id."""
        tasks = self.run(queries, q_ids, k, threads)
        found = {q_id: self._phrases(task.result, k)[:k] for q_id, task in zip(q_ids, tasks, strict=True)}
        return self._vectors_of(tasks), found

    def run(self, queries: Any, q_ids: Sequence[str], k: int, threads: int = 1, **options: Any) -> list[Task]:
        """The ended tasks of queries, which advance together; `predict` is called with their k best phrases."""
        tasks = super().run(queries, q_ids, k, threads, **options)
        if self._predict:
            for q_id, task in zip(q_ids, tasks, strict=True):
                self._predict(q_id, self._phrases(task.result, k)[:k])
        return tasks

    def tasks(self, queries: Any, q_ids: Sequence[str], k: int, **options: Any) -> list[Task]:
        """The queries at the beginning of their way, with room for more phrases."""
        return super().tasks(queries, q_ids, self._room(k), **options)

    def hits(self, outcome: Outcome, k: int, *, vectors: bool = False) -> HitList:
        """The first k passages, in the order of their best phrases and with their scores."""
        if vectors:
            raise TourError("passages found by their phrases have no vectors; ask for phrases.")
        best: dict[str, float] = {}
        for hit in self._phrases(outcome, k):
            best.setdefault(hit.docid, hit.score)
        return HitList(self.hit_class(docid, score, texts=self._texts) for docid, score in [*best.items()][:k])

    def _room(self, k: int) -> int:
        """Length of the lists: room for the k best phrases, and as many passages below them."""
        return 2 * max(k, self.config.values().get("depth", 0))

    def _phrases(self, outcome: Outcome, k: int) -> list[PhraseHit]:
        return self.searcher.hits(*outcome.ranking.first(self._room(k)))

    def _within(self, given: Any) -> None:
        if given is not None:
            raise TourError("phrases cannot be filtered; leave out the filter.")

    def _search(self, vectors: Floats, k: int, queries: Sequence[Query], threads: int) -> Hits:
        passages = k // 2
        phrases = passages if self._unit == "phrase" else 0
        vectors = np.asarray(vectors, dtype=np.float32)
        return self.searcher.find(vectors, phrases=phrases, passages=passages, threads=threads)

    def pairs(self, task: Task) -> list[tuple[str, str]]:
        """What the re-ranker has to read for the labels that a task waits for."""
        inner: PhraseSearcher = self.searcher
        spans = map(inner.tokens.span, task.wanted_labels.tolist())
        shown = [self._reranker_input(*inner.passage(span), span.begin, span.end) for span in spans]
        return [(task.query.text, passage) for passage in shown]
