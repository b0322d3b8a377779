"""The retriever of LlamaIndex: called, awaited, and over an index."""

from types import SimpleNamespace

import pytest
from own_loop import awaited
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourError, TourReranker, search_path

pytest.importorskip("llama_index.core")
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from tour_pyserini.integrations.llamaindex_retriever import TourPostprocessor, TourRetriever


class ToyEmbedding(BaseEmbedding):
    """The toy's vectors, of other lengths: an index compares by cosine."""

    documents: dict
    queries: dict

    def _get_text_embedding(self, text):
        return (len(text) * self.documents[text]).tolist()

    def _get_query_embedding(self, query):
        return (5 * self.queries[query]).tolist()

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)


@pytest.fixture
def index(toy):
    documents = dict(zip(toy.texts.values(), toy.vectors, strict=True))
    nodes = [
        TextNode(id_=docid, text=text, metadata={"page": i}, excluded_embed_metadata_keys=["page"])
        for i, (docid, text) in enumerate(toy.texts.items())
    ]
    embedding = ToyEmbedding(documents=documents, queries=toy.encoder.table)
    return VectorStoreIndex(nodes, embed_model=embedding)


def test_nodes_are_the_searchers_hits(searcher):
    retriever, path = TourRetriever(searcher, k=6), search_path(searcher, "query 1", 6)
    expected = [(hit.docid, hit.score, hit.text, path.metadata(hit)) for hit in path.hits]
    for found in (retriever.retrieve("query 1"), awaited(retriever.aretrieve("query 1"))):
        assert [(one.node_id, one.score, one.text, one.metadata["tour"]) for one in found] == expected
        assert "tour" not in found[0].get_content(MetadataMode.LLM), "a language model reads the passage alone"


def test_an_index_and_a_function_are_enough(index, searcher):
    score = HashReranker().predict
    dense = TourRetriever.from_index(index, score, k=8, method="dense").retrieve("query 4")
    assert [one.node_id for one in dense] == [
        one.node_id for one in index.as_retriever(similarity_top_k=8).retrieve("query 4")
    ]
    found = TourRetriever.from_index(index, score, k=8, depth=5, budget=15).retrieve("query 4")
    assert [one.node_id for one in found] == [hit.docid for hit in searcher.search("query 4", k=8)]
    assert [one.metadata["page"] for one in found] == [int(one.node_id[1:]) for one in found]
    assert "tour" not in index.docstore.get_node(found[0].node_id).metadata, "the index keeps its nodes as they were"
    with pytest.raises(TourError, match="object does not hand out its vectors"):
        TourRetriever.from_index(SimpleNamespace(vector_store=object()), score)


PAGES = MetadataFilter(key="page", operator=">=", value=10)


@pytest.mark.parametrize(
    ("filters", "is_kept"),
    [
        (MetadataFilters(filters=[PAGES, MetadataFilter(key="page", operator="in", value=[9, 10, 11, 40])]), True),
        (
            MetadataFilters(
                filters=[MetadataFilters(filters=[MetadataFilter(key="page", value=page)]) for page in (10, 11, 40)],
                condition="or",
            ),
            True,
        ),
        ({"page": {"in": [10, 11, 40]}}, True),
        (["d10", "d11", "d40"], True),
        (MetadataFilters(filters=[MetadataFilter(key="page", operator="!=", value=1)]), False),
        (MetadataFilters(filters=[PAGES], condition="not"), False),
    ],
)
def test_filters_hold_or_are_refused(index, searcher, filters, is_kept):
    if is_kept:
        stored = TourRetriever.from_index(index, HashReranker().predict, filters=filters)
        for retriever in (TourRetriever(searcher, filters=filters), stored):
            assert {one.node_id for one in retriever.retrieve("query 1")} == {"d10", "d11", "d40"}
    else:
        with pytest.raises(TourError, match="filter"):
            TourRetriever(searcher, filters=filters)
        with pytest.raises(TypeError, match="search_kwargs"):
            TourRetriever(searcher, search_kwargs={"filter": filters})


@pytest.mark.parametrize("embedded", [True, False])
def test_a_postprocessor_ranks_what_another_retriever_found(toy, embedded):
    """By scores; with embeddings, which move the query, too."""
    scores = [1.0 - i / 60 for i in range(60)]
    nodes = [
        NodeWithScore(node=TextNode(id_=docid, text=text, embedding=vector.tolist() if embedded else None), score=score)
        for (docid, text), vector, score in zip(toy.texts.items(), toy.vectors, scores, strict=True)
    ]
    vector = toy.encoder.table["query 1"]
    bundle = QueryBundle("query 1", embedding=vector.tolist() if embedded else None)
    reranker = TourReranker(HashReranker(), TourConfig(budget=20))
    found = TourPostprocessor(reranker=reranker, top_n=7).postprocess_nodes(nodes, query_bundle=bundle)
    vectors = {"vectors": toy.vectors, "query_vector": vector} if embedded else {}
    ranked = reranker.rank("query 1", [*toy.texts.values()], scores=scores, **vectors)[:7]
    assert [(one.text, one.score) for one in found] == [(one.document, one.score) for one in ranked]
    assert [one.metadata["tour"]["label"] for one in found] == [one.label for one in ranked]
    assert "tour" not in found[0].get_content(MetadataMode.LLM) and nodes[0].metadata == {}
    with pytest.raises(TourError, match="reads the query"):
        TourPostprocessor(reranker=reranker).postprocess_nodes(nodes)
