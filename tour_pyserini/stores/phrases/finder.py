"""The best phrases for query vectors."""

from collections.abc import Sequence

import numpy as np

from tour_pyserini.core.candidates import Floats, Hits, Ids
from tour_pyserini.data.token_rows import ENDS, STARTS
from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.phrases.completion import LONGEST, Phrases, complete, start_and_end
from tour_pyserini.stores.phrases.phrase_index import PhraseIndex

FETCHED = 1024  # starts and ends that FAISS is first asked for: one pass over a flat index costs more than any heap
COMPLETED = 64  # of these, how many are first made into phrases
GROWTH = 8
# Rounding of an inner product relative to the vectors' lengths: FAISS's sums and ours may differ by this much.
_ROUNDING = 1e-5


class PhraseFinder:
    """Searches a phrase index with vectors [start; end].

    The list of a query holds every phrase that is the best of all with its start, or the best with its end. On a flat
    index it is exact: tokens are fetched until nothing that was not fetched can be in the list. Otherwise
    tokens are fetched until the list is long enough.
    """

    def __init__(self, index: PhraseIndex, *, max_words: int = 10, fetch: int = FETCHED) -> None:
        """Search an index.

        Args:
            index: the tokens.
            max_words: words of a phrase at most.
            fetch: starts and ends to fetch first; more are fetched where they do not suffice.
        """
        if not 1 <= max_words <= LONGEST:
            raise TourError(f"a phrase has 1 to {LONGEST} words at most, not {max_words}.")
        if fetch < 1:
            raise TourError(f"at least 1 token must be fetched, not {fetch}.")
        self.index, self.max_words = index, max_words
        self._faiss, self._fetch = FaissIndex(index.index), fetch

    def find(self, queries: Floats, *, phrases: int = 0, passages: int = 0, threads: int = 1) -> Hits:
        """The best `phrases` phrases of each of the queries [n, 2 d], and below them others for `passages` passages.

        The others are the best phrase of each further passage, until that many passages are in the list; with
        `phrases=0` the list is the best phrase of each of the best passages.

        Returns:
            ids and similarities [n, phrases + passages], best first, padded with -1 and minus infinity.
        """
        found: list[Phrases] = [None] * len(queries)  # type: ignore[list-item]
        waiting, fetch = np.arange(len(queries)), min(self._fetch, len(self.index.rows))
        while len(waiting):
            starts, ends = self._fetched(queries[waiting], fetch, threads)
            enough = []
            for place, row in enumerate(waiting.tolist()):
                own = [Hits(hits.ids[place], hits.similarities[place]) for hits in (starts, ends)]
                list_, sure = self._list(queries[row], *own, phrases=phrases, passages=passages)
                found[row] = list_
                # An inverted file that has no more to give gives -1.
                spent = fetch >= len(self.index.rows) or max(own[0].ids[-1], own[1].ids[-1]) < 0
                enough.append(sure or spent)
            waiting = waiting[~np.array(enough, dtype=bool)]
            fetch = min(fetch * GROWTH, len(self.index.rows))
        return _padded(found, phrases + passages)

    def vectors(self, ids: Ids) -> Floats:
        """The vectors [start; end] [m, 2 d] of phrases [m], float32."""
        start, end = start_and_end(np.asarray(ids, dtype=np.int64))
        return np.concatenate([self.index.vectors[start], self.index.vectors[end]], axis=1).astype(np.float32)

    def _fetched(self, queries: Floats, count: int, threads: int) -> tuple[Hits, Hits]:
        # Each half of each query is a query of FAISS's: starts and ends are searched in one pass.
        halves = queries.reshape(2 * len(queries), -1)
        hits = self._faiss.search(halves, count, threads=threads)
        return Hits(hits.ids[::2], hits.similarities[::2]), Hits(hits.ids[1::2], hits.similarities[1::2])

    def _list(self, query: Floats, starts: Hits, ends: Hits, *, phrases: int, passages: int) -> tuple[Phrases, bool]:
        """One query's list from the fetched tokens, and whether more tokens could not change it."""
        fetched = len(starts.ids)
        count = min(COMPLETED, fetched)
        while True:
            able = (_able(self.index, starts.ids[:count], STARTS), _able(self.index, ends.ids[:count], ENDS))
            all_ = complete(self.index, query, *able, max_words=self.max_words)
            list_, full = _best(all_, phrases, passages)
            # What touches none of these tokens scores at most as much as the last of both kinds together.
            limit = starts.similarities[count - 1] + ends.similarities[count - 1] + self._rounding(query)
            if full and list_.scores[-1] > limit:
                return list_, True
            if count == fetched:
                return list_, full and not self.index.exact
            count = min(2 * count, fetched)

    def _rounding(self, query: Floats) -> float:
        return _ROUNDING * self.index.largest_norm * float(np.linalg.norm(query.reshape(2, -1), axis=1).sum())


def _able(index: PhraseIndex, ids: Ids, role: int) -> Ids:
    ids = ids[ids >= 0]
    return ids[(index.rows["roles"][ids] & role) > 0]


def _best(all_: Phrases, phrases: int, passages: int) -> tuple[Phrases, bool]:
    """The list that `find` promises, from phrases in order, and whether it is as long as was asked."""
    _, firsts = np.unique(all_.passages, return_index=True)
    firsts = np.sort(firsts)[:passages]
    kept = np.union1d(np.arange(min(phrases, len(all_.ids))), firsts).astype(np.int64)
    full = len(kept) > 0 and len(all_.ids) >= phrases and len(firsts) >= passages
    return Phrases(all_.ids[kept], all_.scores[kept], all_.passages[kept]), full


def _padded(lists: Sequence[Phrases], width: int) -> Hits:
    ids = np.full((len(lists), width), -1, dtype=np.int64)
    similarities = np.full((len(lists), width), -np.inf, dtype=np.float32)
    for row, one in enumerate(lists):
        ids[row, : len(one.ids)], similarities[row, : len(one.ids)] = one.ids, one.scores
    return Hits(ids, similarities)
