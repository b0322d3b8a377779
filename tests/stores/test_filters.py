"""Filters: what passes in memory, in FAISS and in vector databases is what a plain reading of the condition says."""

import itertools
import json
import operator
from types import SimpleNamespace

import numpy as np
import pytest
from filled_collections import ENGINES, address_in, docids_of, load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_collection import HashReranker, faiss_index

from tour_pyserini import TourConfig, TourSearcher
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.searchers.searched_index import SearchedIndex
from tour_pyserini.stores import faiss_index as faiss_index_module
from tour_pyserini.stores.filters import FieldTable, Filter, Within, search_within
from tour_pyserini.stores.signals import found_by, open_signal
from tour_pyserini.stores.store import as_store

SIZE, RANDOM = 60, np.random.default_rng(4)
WORDS = ("en", "a\"b'\\c", "é北")
VECTORS = RANDOM.standard_normal((SIZE, 8)).astype(np.float32)
VECTORS[50:] = VECTORS[:10]  # equal similarities
QUERIES = RANDOM.standard_normal((5, 8)).astype(np.float32)
YEARS, LANGUAGES = (None, 2019, 2020, 2020.5, 2021), (None, *WORDS, list(WORDS[:2]), [WORDS[2]])
FIELDS = [
    dict(zip(("year", "lang", "ok"), (year, language, [None, True, False][i % 3]), strict=True))
    for i, (year, language) in enumerate(itertools.islice(itertools.cycle(itertools.product(YEARS, LANGUAGES)), SIZE))
]
FIELDS = [{name: value for name, value in fields.items() if value is not None} for fields in FIELDS]
COMPARE = {"eq": operator.eq, "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
COMPARE["in"] = lambda given, values: given in values


def _one(name, operators, values):
    return st.tuples(st.sampled_from(operators), values).map(lambda one: {name: {one[0]: one[1]}})


_SINGLE = st.one_of(
    _one("year", ["eq", "gt", "gte", "lt", "lte"], st.sampled_from([2019, 2020, 2020.7])),
    _one("lang", ["eq"], st.sampled_from([*WORDS, "none"])),
    _one("ok", ["eq"], st.booleans()),
    _one("lang", ["in"], st.lists(st.sampled_from(WORDS), max_size=2)),
    _one("year", ["in"], st.lists(st.sampled_from([2019, 2020, 2021]), max_size=2)),
)
CONDITIONS = st.recursive(
    _SINGLE,
    lambda parts: st.dictionaries(st.sampled_from(["or", "and"]), st.lists(parts, max_size=3), min_size=1, max_size=1),
    max_leaves=5,
)


def holds(condition, fields):
    """The condition, read word by word."""

    def one(name, wanted):
        if name in ("and", "or"):
            return (all if name == "and" else any)(holds(part, fields) for part in wanted)
        ((word, value),) = wanted.items()
        given = fields.get(name, [])
        return any(COMPARE[word](one, value) for one in (given if isinstance(given, list) else [given]))

    return all(one(name, wanted) for name, wanted in condition.items())


def expected(condition):
    return np.array([holds(condition, fields) for fields in FIELDS])


def passing(condition):
    docids = docids_of(VECTORS)
    return FieldTable(docids, None, dict(zip(docids, FIELDS, strict=True))).passing(Filter.parse(condition))


@given(CONDITIONS)
def test_a_condition_passes_what_it_says(condition):
    assert np.array_equal(passing(condition).mask, expected(condition))
    assert np.array_equal(passing(json.dumps(condition)).mask, expected(condition))


def test_docids_pass_and_unknown_ones_do_not_matter():
    assert passing(["doc-7", "doc-3", "doc-999"]).ids.tolist() == [3, 7]
    assert passing([]).ids.tolist() == []
    words = [{"day": "2020-01-02", "n": True}, {"day": "2019-12-31", "n": 1}, {"day": 7, "n": 0}]
    table = FieldTable("abc", None, dict(zip("abc", words, strict=True)))
    for condition, ids in (
        ({"day": {"gte": "2020"}}, [0]),
        ({"n": 1}, [1]),
        ({"n": True}, [0]),
        ({"n": {"lt": 2}}, [1, 2]),
    ):
        assert table.passing(Filter.parse(condition)).ids.tolist() == ids
    numbered = FieldTable(["1", "2"], None, {1: {"n": 1}, 2: {"n": 2}})  # docids are texts, whatever names them
    assert numbered.passing(Filter.parse({"n": 2})).ids.tolist() == [1]


@given(CONDITIONS, CONDITIONS, st.sets(st.integers(0, SIZE)), st.sets(st.integers(0, SIZE)))
def test_joined_filters_pass_what_each_of_them_passes(one, other, some, more):
    names = [[f"doc-{id_}" for id_ in ids] for ids in (some, more)]
    joined = Filter.parse(one) & Filter.parse(names[0]) & Filter.parse(other) & Filter.parse(names[1])
    both = np.array([id_ in some & more for id_ in range(SIZE)])
    assert np.array_equal(passing(joined).mask, expected(one) & expected(other) & both)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (7, "condition or a list"),
        ([1, 2], "condition or a list"),
        ("year > 3", "not JSON"),
        ({"year": {"more": 3}}, "as more"),
        ({"year": [2020]}, "as eq"),
        ({"year": {"gte": None}}, "gte"),
        ({"or": ["year"]}, "no condition"),
        ({"year": {}}, "nothing of 'year'"),
        ({"yaer": 2020}, "no document.*'yaer'"),
        ({"year": float("inf")}, "as eq"),
        (json.loads('{"and": [' * 200 + "{}" + "]}" * 200), "no condition"),
    ],
)
def test_what_is_no_filter_is_refused(given, word):
    with pytest.raises(TourError, match=word):
        passing(given)


def sub_collection(mask, k):
    """The hits in an index of the documents that pass alone."""
    ids = np.flatnonzero(mask)
    if not len(ids):
        return np.empty((len(QUERIES), 0)), np.empty((len(QUERIES), 0))
    found = as_store(VECTORS[ids]).search(QUERIES, k)
    return ids[found.ids], found.similarities


STORES = {name: as_store(faiss_index(name, VECTORS)) for name in ("Flat", "HNSW8", "IVF4,Flat", "SQ8", "PQ4x4")}


@settings(max_examples=30, deadline=None)
@given(
    mask=st.lists(st.booleans(), min_size=SIZE, max_size=SIZE), k=st.integers(1, 70), compared=st.sampled_from([0, 99])
)
@pytest.mark.parametrize("factory", STORES)
def test_faiss_finds_what_passes_alone(factory, mask, k, compared):
    store, within = STORES[factory], Within(np.array(mask))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(faiss_index_module, "COMPARED", compared)  # 0: the index itself finds them
        hits = search_within(store, QUERIES, k, within)
        alone = search_within(store, QUERIES[2:3], k, within)
    real = hits.ids >= 0
    assert within.passes(hits.ids)[real].all()
    assert np.array_equal(alone.ids[0], hits.ids[2]) and np.array_equal(alone.similarities[0], hits.similarities[2])
    if factory == "Flat" or (factory in ("HNSW8", "IVF4,Flat") and compared):
        ids, similarities = sub_collection(within.mask, k)
        assert np.array_equal(hits.ids, ids) and np.array_equal(hits.similarities, similarities)
    if factory in ("SQ8", "PQ4x4"):
        assert (real.sum(axis=1) == min(k, len(within.ids))).all()


def assert_all_that_pass(hits, mask, k):
    ids, similarities = sub_collection(mask, k)
    count = ids.shape[1]
    assert np.array_equal(hits.ids[:, :count], ids) and np.array_equal(hits.similarities[:, :count], similarities)
    assert (hits.ids[:, count:] == -1).all()


class _OtherStore:
    """A store that knows nothing of filters."""

    def __init__(self):
        self._index = as_store(VECTORS)
        self.size, self.search = SIZE, self._index.search


@given(CONDITIONS, st.integers(1, 70))
def test_a_store_that_knows_no_filters_is_asked_for_more(condition, k):
    assert_all_that_pass(search_within(_OtherStore(), QUERIES, k, passing(condition)), expected(condition), k)


@pytest.fixture(scope="module", params=ENGINES)
def collection(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("filters")
    lines = [
        {"_id": docid, "title": "", "text": f"word{i % 7} text {i}", **({"metadata": fields} if i % 2 else fields)}
        for i, (docid, fields) in enumerate(zip(docids_of(VECTORS), FIELDS, strict=True))
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    address = address_in(folder, request.param)
    return load(address, VECTORS, bm25=request.param != "pgvector", texts=open_texts(folder))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=CONDITIONS, k=st.integers(1, 70))
def test_a_collection_finds_the_same_as_an_index_of_what_passes(collection, condition, k):
    mask, within = expected(condition), collection.within(Filter.parse(condition))
    assert_all_that_pass(search_within(collection, QUERIES, k, within), mask, k)
    asked = np.arange(-1, SIZE).reshape(1, -1)
    assert np.array_equal(within.passes(asked)[0], [False, *mask])
    if not collection.settings["store"]["bm25"]:
        return
    words = collection.words("word3", 50, Filter.parse(condition))
    assert sorted(row.id for row in words) == [i for i in range(SIZE) if i % 7 == 3 and mask[i]]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=CONDITIONS, k=st.integers(1, 30), method=st.sampled_from(["tour", "hard", "rerank"]))
def test_a_search_of_a_collection_finds_and_labels_what_passes(collection, condition, k, method):
    reranker, signals = HashReranker(), []
    if collection.settings["store"]["bm25"]:
        signals = [open_signal(str(collection.address))]
    searcher = TourSearcher(
        SearchedIndex(collection, collection.docids, SimpleNamespace(encode=lambda text: QUERIES[len(text) % 5])),
        *(reranker, collection.texts, TourConfig(method, depth=4)),
        signals=signals,
    )
    found = searcher.batch_search(["word3", "word1 text", "t"], ["q1", "q2", "q3"], k=k, filter=condition)
    passing = {docid for docid, holds in zip(docids_of(VECTORS), expected(condition), strict=True) if holds}
    assert all(len(hits) == min(k, len(passing)) for hits in found.values())
    assert {hit.docid for hits in found.values() for hit in hits} <= passing
    texts = {str(collection.texts[docid]) for docid in passing}
    assert {text for _, text in reranker.asked} <= texts


@pytest.mark.parametrize("kind", ["ivf&nlist=4&nprobe=1", "hnsw&M=2&efC=2&ef=1"])
def test_an_approximate_collection_finds_all_that_pass_where_they_are_few(tmp_path, kind):
    store = load(address_in(tmp_path, "milvus", options=f"&kind={kind}"), VECTORS)
    mask = np.arange(SIZE) % 7 == 3
    hits = search_within(store, QUERIES, 20, store.within(Filter.parse([f"doc-{i}" for i in np.flatnonzero(mask)])))
    assert_all_that_pass(hits, mask, 20)


def test_the_signal_of_another_collection_has_the_filter_of_the_index(tmp_path):
    """One in the language of the index, which the other one does not understand."""
    texts = {docid: f"word{i % 7}" for i, docid in enumerate(docids_of(VECTORS))}
    lines = [json.dumps({"_id": docid, "text": text, "row": i}) for i, (docid, text) in enumerate(texts.items())]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    corpus = open_texts(tmp_path)
    index = load(address_in(tmp_path, "milvus"), VECTORS, texts=corpus)
    other = load(address_in(tmp_path, "qdrant"), VECTORS, bm25=True, texts=corpus)
    within, positions = index.within(Filter.parse('fields["row"] < 20')), dict(zip(texts, range(SIZE), strict=True))
    found = found_by(open_signal(str(other.address)), ["word3"], 30, positions, within)
    assert sorted(id_ for id_ in found.ids[0].tolist() if id_ >= 0) == [3, 10, 17]


def test_docids_and_the_engine_s_own_language(collection):
    own = {
        "pgvector": "$.year > 2020 && $.ok == true",
        "milvus": 'fields["year"] > 2020 and fields["ok"] == true',
        "qdrant": json.dumps(
            {"must": [{"key": "fields.year", "range": {"gt": 2020}}, {"key": "fields.ok", "match": {"value": True}}]}
        ),
    }[collection.address.engine]
    mask = expected({"year": {"gt": 2020}, "ok": {"eq": True}})
    for wanted, ids in ((own, np.flatnonzero(mask).tolist()), (["doc-9", "doc-4", "x"], [4, 9])):
        found = search_within(collection, QUERIES, SIZE, collection.within(Filter.parse(wanted)))
        assert sorted(found.ids[0][found.ids[0] >= 0].tolist()) == ids
    both = Filter.parse(own if collection.address.engine != "milvus" else {"year": {"gt": 2020}, "ok": True})
    both &= (
        Filter.parse({"lang": WORDS[0]}) & Filter.parse(docids_of(VECTORS)[:30]) & Filter.parse(docids_of(VECTORS)[9:])
    )
    found = search_within(collection, QUERIES, SIZE, collection.within(both))
    mask &= expected({"lang": {"eq": WORDS[0]}}) & (np.arange(SIZE) < 30) & (np.arange(SIZE) >= 9)
    assert sorted(found.ids[0][found.ids[0] >= 0].tolist()) == np.flatnonzero(mask).tolist() != []
    for wrong in (Filter.parse("year >>"), Filter.parse("id > 0) or (id > 0") & Filter.parse(["doc-1"])):
        with pytest.raises(TourError):
            search_within(collection, QUERIES, 3, collection.within(wrong))
