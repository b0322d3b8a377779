"""The retriever of LangChain: invoked, awaited, in a chain, and over a vector store."""

import json
from typing import ClassVar

import pytest
from own_loop import awaited
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError, TourReranker, search_path

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests

from tour_pyserini.integrations.langchain_retriever import TourCompressor, TourRetriever


class ToyEmbeddings(Embeddings):
    """The toy's vectors, stretched: a store compares by cosine."""

    def __init__(self, toy):
        self._table = {text: 3 * vector for text, vector in zip(toy.texts.values(), toy.vectors, strict=True)}
        self._queries = toy.encoder.table

    def embed_documents(self, texts):
        return [(self._table[text] * (1 + len(text))).tolist() for text in texts]

    def embed_query(self, text):
        return (5 * self._queries[text]).tolist()


def test_documents_are_the_searchers_hits_with_what_happened_to_them(searcher):
    documents = TourRetriever(searcher=searcher, k=7).invoke("query 1")
    path = search_path(searcher, "query 1", 7)
    found = [(one.id, one.page_content, one.metadata["tour"]) for one in documents]
    assert found == [(hit.docid, hit.text, path.metadata(hit)) for hit in path.hits]
    assert json.loads(json.dumps(found[0][2])) == found[0][2]


def test_it_is_awaited_batched_and_part_of_a_chain(searcher):
    retriever = TourRetriever(searcher=searcher, k=3)
    expected = retriever.invoke("query 2")
    assert awaited(retriever.ainvoke("query 2")) == expected
    assert retriever.batch(["query 1", "query 2"])[1] == expected
    chain = retriever | RunnableLambda(lambda documents: [document.id for document in documents])
    assert chain.invoke("query 2") == [document.id for document in expected]


@pytest.fixture
def store(toy):
    store = InMemoryVectorStore(ToyEmbeddings(toy))
    store.add_texts(toy.texts.values(), [{"page": i} for i in range(60)], ids=toy.docids)
    return store


def test_a_vector_store_and_a_function_are_enough(store, searcher):
    score = HashReranker().predict
    dense = TourRetriever.from_vectorstore(store, score, k=9, method="dense").invoke("query 3")
    assert [document.id for document in dense] == [one.id for one in store.similarity_search("query 3", k=9)]
    documents = TourRetriever.from_vectorstore(store, score, k=9, depth=5, budget=15).invoke("query 3")
    assert [document.id for document in documents] == [hit.docid for hit in searcher.search("query 3", k=9)]
    assert [document.metadata["page"] for document in documents] == [int(one.id[1:]) for one in documents]


def test_what_it_cannot_use_is_named(toy):
    with pytest.raises(TourError, match="object does not hand out its vectors"):
        TourRetriever.from_vectorstore(object(), len)
    with pytest.raises(TourError, match="no documents with vectors"):
        TourRetriever.from_vectorstore(InMemoryVectorStore(ToyEmbeddings(toy)), len)


@pytest.mark.asyncio
class TestOfLangChain(RetrieversIntegrationTests):
    """LangChain's own suite."""

    retriever_constructor, retriever_query_example = TourRetriever, "query 1"
    retriever_constructor_params: ClassVar = {}

    @pytest.fixture(autouse=True)
    def fill_in(self, searcher):
        self.retriever_constructor_params["searcher"] = searcher


def test_a_compressor_ranks_what_another_retriever_found(toy):
    documents = [Document(id=docid, page_content=text, metadata={"page": 1}) for docid, text in toy.texts.items()]
    reranker = TourReranker(HashReranker(), TourConfig(budget=20))
    compressor = TourCompressor(reranker=reranker, top_n=5)
    found = compressor.compress_documents(documents, "query 1")
    ranked = reranker.rank("query 1", [*toy.texts.values()])[:5]
    assert [(one.page_content, one.metadata["tour"]["score"]) for one in found] == [one[::2] for one in ranked]
    assert [one.metadata["tour"]["rank_before"] for one in found] == [one.position + 1 for one in ranked]
    assert found[0].metadata["page"] == 1 and documents[0].metadata == {"page": 1}
    assert awaited(compressor.acompress_documents(documents, "query 1")) == found
    assert compressor.compress_documents([], "query 1") == []


def test_a_filter_holds(searcher):
    wanted = {"tenant": "a", "page": {"gte": 10}}
    every, some = TourRetriever(searcher=searcher), TourRetriever(searcher=searcher, filter={"tenant": "a"})
    expected = [hit.docid for hit in searcher.search("query 1", k=10, filter=wanted)]
    assert len(expected) == 10 and all(int(docid[1:]) % 2 == 0 and int(docid[1:]) >= 10 for docid in expected)
    for documents in (
        every.invoke("query 1", filter=wanted),
        awaited(every.ainvoke("query 1", filter=wanted)),
        some.invoke("query 1", filter={"page": {"gte": 10}}),
        TourRetriever(searcher=searcher, filter=wanted).batch(["query 1"])[0],
    ):
        assert [document.id for document in documents] == expected


def test_a_filter_of_a_store_reads_its_metadata(store):
    retriever = TourRetriever.from_vectorstore(store, HashReranker().predict, k=60, filter={"page": {"lt": 9}})
    assert {document.metadata["page"] for document in retriever.invoke("query 3")} == set(range(9))
    assert {one.id for one in retriever.invoke("query 3", filter=["d3", "d30"])} == {"d3"}


@pytest.mark.parametrize("wanted", [lambda document: True, {"other": 1}, {"page": {"ne": 3}}])
def test_a_filter_that_cannot_be_kept_is_refused(searcher, wanted):
    with pytest.raises(TourError):
        TourRetriever(searcher=searcher).invoke("query 1", filter=wanted)
    with pytest.raises(ValueError, match="search_kwargs"):
        TourRetriever(searcher=searcher, search_kwargs={"filter": wanted})
    with pytest.raises(TypeError, match="filters"):
        TourRetriever(searcher=searcher).invoke("query 1", filters=wanted)
