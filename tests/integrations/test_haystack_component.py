"""The component of Haystack: in pipelines, awaited, and over a document store."""

import pytest
from own_loop import awaited
from toy_collection import HashReranker

from tour_pyserini import TourError

haystack = pytest.importorskip("haystack")
from haystack import Document, Pipeline, component  # noqa: E402
from haystack.document_stores.in_memory import InMemoryDocumentStore  # noqa: E402

from tour_pyserini.integrations.haystack_component import TourRetriever  # noqa: E402


@component
class ToyEmbedder:
    """What a text embedder has."""

    def __init__(self, table):
        self._table = table

    @component.output_types(embedding=list[float])
    def run(self, text: str):
        return {"embedding": (2 * self._table[text]).tolist()}


@pytest.fixture
def pipeline(searcher):
    pipeline = Pipeline()
    pipeline.add_component("retriever", TourRetriever(searcher, top_k=6))
    return pipeline


def test_documents_of_a_pipeline_are_the_searchers_hits(pipeline, searcher):
    (found,) = pipeline.run({"retriever": {"query": "query 1"}}).values()
    hits = searcher.search("query 1", k=6)
    documents = found["documents"]
    assert [(one.id, one.score, one.content) for one in documents] == [(hit.docid, hit.score, hit.text) for hit in hits]
    assert [one.meta["tour"]["rank"] for one in documents] == [1, 2, 3, 4, 5, 6]
    assert documents[0].meta["tour"]["path"][-1]["stop"]
    (fewer,) = pipeline.run({"retriever": {"query": "query 1", "top_k": 2}}).values()
    assert [one.id for one in fewer["documents"]] == [hit.docid for hit in hits[:2]]


def test_it_is_awaited(searcher):
    retriever = TourRetriever(searcher, top_k=4)
    assert awaited(retriever.run_async(query="query 2")) == retriever.run(query="query 2")


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


def test_what_it_cannot_use_is_named():
    with pytest.raises(TourError, match="dict does not hand out its vectors"):
        TourRetriever.from_document_store({}, None, len)


def test_filters_are_refused(searcher):
    with pytest.raises(TourError, match="cannot filter"):
        TourRetriever(searcher).run("query 1", filters={"field": "meta.tenant", "operator": "==", "value": "a"})
