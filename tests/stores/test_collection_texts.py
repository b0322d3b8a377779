"""Docids and passages of a collection: what is asked for again, and threads that share them."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from tour_pyserini.data.documents import UnknownDocument
from tour_pyserini.stores.engines.collection_store import CollectionStore
from tour_pyserini.stores.engines.collection_texts import StoredDocids, StoredTexts
from tour_pyserini.stores.engines.engine import CollectionState, Row

SIZE = 2000


class Counting:
    """A collection of passages that remembers what it was asked for."""

    address = "milvus:test"
    size = SIZE

    def __init__(self):
        self.asked = []
        self.docids, self.texts = StoredDocids(self), StoredTexts(self)

    def rows(self, ids, what):
        self.asked.append((what, len(ids)))
        return [Row(id_, f"d{id_}", passage=f"text {id_}") for id_ in ids]


def test_threads_that_share_them_get_their_own_passages():
    store = Counting()

    def read(number):
        wanted = [f"d{(number * 37 + step) % SIZE}" for step in range(20)]
        store.docids.remember(store.rows([int(docid[1:]) for docid in wanted], "docid"))
        store.texts.load(wanted)
        return [store.texts[docid] for docid in wanted] == [f"text {docid[1:]}" for docid in wanted]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(400)))
    # One request of docids and one of passages each: no thread forgets what another one is to read.
    assert len(store.asked) <= 2 * 400


def test_an_unknown_docid_asks_for_all_docids_once():
    store = Counting()
    for _ in range(3):
        with pytest.raises(UnknownDocument):
            store.texts["other"]
    assert [request for request in store.asked if request[1]] == [("docid", SIZE)]
    assert store.docids.positions(["d7", "other", "d3"]) == {"d7": 7, "d3": 3}


def test_passages_that_stay_are_not_asked_for_again():
    store = Counting()
    store.docids.remember(store.rows(range(9), "docid"))
    store.texts.load(["d1", "d2"])
    store.texts.load(["d2", "d3"])
    assert [store.texts[docid] for docid in ("d2", "d3", "d1")] == ["text 2", "text 3", "text 1"]
    assert store.asked[1:] == [("passage", 2), ("passage", 1), ("passage", 1)]


@pytest.mark.parametrize("what, most", [("docid", 1024), ("vector", 1024 + 4 * 12), ("passage", 1024 + 65_535)])
def test_an_answer_with_the_longest_passages_is_not_too_large(what, most):
    sizes = []

    def get(name, ids, *, what):
        sizes.append(len(ids))
        return [Row(id_, f"d{id_}") for id_ in ids]

    address = SimpleNamespace(collection="C", retries=0)
    state = CollectionState(12, SIZE, "IP", True, "FLAT", True, "Strong", '{"store": {"texts": true}}')
    store = CollectionStore(address, SimpleNamespace(get=get, most_bytes=32 << 20), state)
    assert [row.id for row in store.rows(range(SIZE * 20), what)] == list(range(SIZE * 20))
    assert max(sizes) == min((32 << 20) // most, SIZE * 20) and max(sizes) * most <= 32 << 20
