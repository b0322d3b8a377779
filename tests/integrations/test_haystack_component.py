"""The component of Haystack: in pipelines, awaited, and over a document store."""

from dataclasses import replace

import numpy as np
import pytest
from own_loop import awaited
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError, TourReranker, search_path

haystack = pytest.importorskip("haystack")
from haystack import Document, Pipeline, component  # noqa: E402
from haystack.document_stores.in_memory import InMemoryDocumentStore  # noqa: E402

from tour_pyserini.encoders.query_vectors import write_encoded_queries  # noqa: E402
from tour_pyserini.integrations.haystack_component import TourRanker, TourRetriever  # noqa: E402


@component
class ToyEmbedder:
    """What a text embedder has."""

    def __init__(self, table):
        self._table = table

    @component.output_types(embedding=list[float])
    def run(self, text: str):
        return {"embedding": (2 * self._table[text]).tolist()}


def test_documents_of_a_pipeline_are_the_searchers_hits(searcher):
    pipeline = Pipeline()
    pipeline.add_component("retriever", TourRetriever(searcher, top_k=6))
    (found,) = pipeline.run({"retriever": {"query": "query 1"}}).values()
    assert awaited(pipeline.run_async({"retriever": {"query": "query 1"}})) == {"retriever": found}
    path = search_path(searcher, "query 1", 6)
    expected = [(hit.docid, hit.score, hit.text, path.metadata(hit)) for hit in path.hits]
    assert [(one.id, one.score, one.content, one.meta["tour"]) for one in found["documents"]] == expected
    (fewer,) = pipeline.run({"retriever": {"query": "query 1", "top_k": 2}}).values()
    assert [one.id for one in fewer["documents"]] == [hit.docid for hit in path.hits[:2]]


@pytest.mark.parametrize("similarity", ["cosine", "dot_product"])
def test_a_document_store_and_a_function_are_enough(toy, similarity):
    store = InMemoryDocumentStore(embedding_similarity_function=similarity)
    store.write_documents(
        [
            Document(id=docid, content=text, embedding=((1 + i % 3) * toy.vectors[i]).tolist(), meta={"page": i})
            for i, (docid, text) in enumerate(toy.texts.items())
        ]
        + [Document(id="without", content="an embedding")]
    )
    embedder, score = ToyEmbedder(toy.encoder.table), HashReranker().predict
    dense = TourRetriever.from_document_store(store, embedder, score, top_k=8, method="dense").run("query 4")
    vector = embedder.run("query 4")["embedding"]
    assert [one.id for one in dense["documents"]] == [one.id for one in store.embedding_retrieval(vector, top_k=8)]
    tour = TourRetriever.from_document_store(store, embedder, score, top_k=8, depth=5).run("query 4")["documents"]
    assert [one.meta["page"] for one in tour] == [int(one.id[1:]) for one in tour]
    assert {one.meta["tour"]["label"] for one in tour} != {None}
    assert all(one.embedding is None for one in tour)
    first = TourRetriever.from_document_store(store, embedder, score).run("query 4", filters=field("page", "<", 3))
    assert {one.meta["page"] for one in first["documents"]} == {0, 1, 2}
    with pytest.raises(TourError, match="dict does not hand out its vectors"):
        TourRetriever.from_document_store({}, None, len)


def field(name, operator, value):
    return {"field": name, "operator": operator, "value": value}


@pytest.mark.parametrize(
    ("filters", "pages"),
    [
        (field("meta.page", "in", [3, 4]), {3, 4}),
        ({"operator": "AND", "conditions": [field("meta.tenant", "==", "a"), field("page", "<", 6)]}, {0, 2, 4}),
        ({"operator": "OR", "conditions": [field("meta.page", ">=", 58), field("page", "==", 1)]}, {1, 58, 59}),
        (field("meta.page", "!=", 3), None),
        ({"operator": "NOT", "conditions": [field("meta.page", "==", 3)]}, None),
        ({"page": 3}, {3}),
        ({"operator": "==", "field": "page"}, None),
    ],
)
def test_filters_hold_or_are_refused(searcher, filters, pages):
    if pages is None:
        with pytest.raises(TourError, match=r"filter|field"):
            TourRetriever(searcher).run("query 1", filters=filters)
    else:
        found = TourRetriever(searcher).run("query 1", filters=filters)["documents"]
        assert {int(one.id[1:]) for one in found} == pages


def test_a_ranker_ranks_what_another_retriever_found(toy):
    documents = [Document(id=docid, content=text, score=60.0 - i) for i, (docid, text) in enumerate(toy.texts.items())]
    reranker = TourReranker(HashReranker(), TourConfig(budget=20))
    found = TourRanker(HashReranker(), config="budget=20", top_k=6).run("query 1", documents)["documents"]
    ranked = reranker.rank("query 1", [*toy.texts.values()], scores=range(60, 0, -1))[:6]
    assert [(one.content, one.score) for one in found] == [(one.document, one.score) for one in ranked]
    assert [one.meta["tour"]["rank_before"] for one in found] == [one.position + 1 for one in ranked]
    vector = toy.encoder.table["query 1"]
    embedded = [replace(one, embedding=row.tolist()) for one, row in zip(documents, toy.vectors, strict=True)]
    moved = TourRanker(HashReranker()).run("query 1", embedded, query_embedding=vector.tolist())["documents"]
    expected = TourReranker(HashReranker()).rank(
        "query 1", [*toy.texts.values()], toy.vectors, range(60, 0, -1), query_vector=vector
    )
    assert [one.content for one in moved] == [one.document for one in expected[:10]]


def test_a_pipeline_is_saved_and_loaded(toy, tmp_path):
    (tmp_path / "topics.tsv").write_text("q1\tquery 1\n")
    vectors = [toy.encoder.table[query] for query in toy.queries]
    write_encoded_queries(tmp_path / "queries", toy.q_ids, toy.queries, np.stack(vectors))
    fields = {"index": str(toy.folder), "encoded_queries": str(tmp_path / "queries"), "method": "dense"}
    pipeline = Pipeline()
    pipeline.add_component("retriever", TourRetriever(fields, top_k=4))
    pipeline.add_component("ranker", TourRanker("no/such/folder", config="method=dense", top_k=2))
    pipeline.connect("retriever.documents", "ranker.documents")
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=[TourRanker.__module__])
    asked = {"retriever": {"query": "query 1"}, "ranker": {"query": "query 1"}}
    assert loaded.run(asked) == pipeline.run(asked)
    assert len(loaded.run(asked)["ranker"]["documents"]) == 2 and loaded.dumps() == pipeline.dumps()


@pytest.mark.parametrize("make", [lambda searcher: TourRetriever(searcher), lambda _: TourRanker(HashReranker())])
def test_what_is_in_memory_cannot_be_saved(searcher, make):
    pipeline = Pipeline()
    pipeline.add_component("one", make(searcher))
    with pytest.raises(TourError, match="in memory cannot be saved"):
        pipeline.dumps()
