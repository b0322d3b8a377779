"""TouR as a retriever and as a node postprocessor of LlamaIndex; needs the extra `llama-index`."""

import asyncio
from collections.abc import Mapping
from typing import Any, Self

from tour_pyserini.errors import TourError
from tour_pyserini.integrations import KEY, SIGNS, check_store, rank_documents, store_searcher
from tour_pyserini.searchers.search_path import PathHit, SearchPath, search_path
from tour_pyserini.support.packages import import_optional

import_optional("llama_index.core", extra="llama-index")

from llama_index.core import VectorStoreIndex  # noqa: E402
from llama_index.core.postprocessor.types import BaseNodePostprocessor  # noqa: E402
from llama_index.core.retrievers import BaseRetriever  # noqa: E402
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode  # noqa: E402
from llama_index.core.vector_stores import SimpleVectorStore  # noqa: E402
from llama_index.core.vector_stores.types import FilterCondition, MetadataFilter, MetadataFilters  # noqa: E402


class TourRetriever(BaseRetriever):
    """Searches with queries that are optimised at test time.

    Nodes have the passage as their text, the docid as their id, their score, and `metadata["tour"]`: label, rank
    before, and the query's path, as `SearchPath.metadata` gives them. Language models and embeddings do not get to
    read that entry.

    Example:
        retriever = TourRetriever(searcher, k=5)
        nodes = retriever.retrieve("do statins prevent stroke")
    """

    def __init__(
        self,
        searcher: Any,
        *,
        k: int = 10,
        filters: Any = None,
        nodes: Mapping[str, BaseNode] | None = None,
        **options: Any,
    ) -> None:
        """Retrieve with a searcher.

        Args:
            searcher: a `TourSearcher`.
            k: nodes that are returned.
            filters: which nodes may be found: LlamaIndex's MetadataFilters, or what `TourSearcher.search` takes.
            nodes: the node of each docid, where nodes are more than their text.
            options: those of LlamaIndex's retrievers, such as `callback_manager`.
        """
        super().__init__(**options)
        wanted = _condition(filters) if isinstance(filters, MetadataFilters) else filters
        self._searcher = searcher if filters is None else searcher.only(wanted)
        self._k, self._nodes = k, nodes or {}

    @classmethod
    def from_index(
        cls, index: VectorStoreIndex, score: Any, *, k: int = 10, filters: Any = None, **settings: Any
    ) -> Self:
        """Search the nodes that a `VectorStoreIndex` has now, by cosine, as it does.

        Args:
            index: an index over LlamaIndex's own vector store; its embedding model encodes queries.
            score: where labels come from: a function from pairs (query, passage) to scores, or a re-ranker.
            k: nodes that are returned.
            filters: which nodes may be found, by their metadata or ids.
            settings: further arguments of `TourSearcher.from_vectors`, such as `budget=30`.
        """
        store = index.vector_store
        check_store(store, SimpleVectorStore)
        nodes = {docid: index.docstore.get_node(docid) for docid in store.data.embedding_dict}
        searcher = store_searcher(
            {  # the text that was encoded
                docid: (store.data.embedding_dict[docid], node.get_content(MetadataMode.EMBED), node.metadata)
                for docid, node in nodes.items()
            },
            index._embed_model.get_query_embedding,
            score,
            cosine=True,
            **settings,
        )
        return cls(searcher, k=k, filters=filters, nodes=nodes)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        path = search_path(self._searcher, query_bundle.query_str, self._k)
        return [NodeWithScore(node=self._node(path, hit), score=hit.score) for hit in path.hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def _node(self, path: SearchPath, hit: PathHit) -> BaseNode:
        # A copy: the index keeps its nodes as they are.
        known = self._nodes.get(hit.docid)
        node = TextNode(id_=hit.docid, text=hit.text or "") if known is None else known.model_copy()
        return _told(node, path.metadata(hit))


class TourPostprocessor(BaseNodePostprocessor):
    """Keeps the best of the nodes that any retriever found, with labels for the promising ones alone.

    The nodes' scores are a signal. Where the nodes and the query bundle have embeddings, the query moves too.
    `metadata["tour"]` has score, label, rank and rank before.

    Attributes:
        reranker: a `TourReranker`.
        top_n: nodes that are kept; None: all.

    Example:
        postprocessor = TourPostprocessor(reranker=TourReranker("default", TourConfig(budget=20)), top_n=5)
        engine = index.as_query_engine(similarity_top_k=100, node_postprocessors=[postprocessor])
    """

    reranker: Any
    top_n: int | None = 10

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise TourError("a TourPostprocessor reads the query: pass query_str= or query_bundle=.")
        listed = [(one.node.get_content(MetadataMode.EMBED), one.score, one.node.embedding) for one in nodes]
        ranked = rank_documents(self.reranker, query_bundle.query_str, listed, query_bundle.embedding)
        found = [(nodes[position].node, score, told) for position, score, told in ranked][: self.top_n]
        return [NodeWithScore(node=_told(node.model_copy(), told), score=score) for node, score, told in found]


def _condition(given: MetadataFilters | MetadataFilter) -> dict[str, Any]:
    """LlamaIndex's filters in our language; a search refuses what that does not have."""
    if isinstance(given, MetadataFilter):
        return {given.key: {SIGNS.get(given.operator.value, given.operator.value): given.value}}
    return {(given.condition or FilterCondition.AND).value: [_condition(one) for one in given.filters]}


def _told(node: BaseNode, told: Mapping[str, Any]) -> BaseNode:
    """A copy of a node that tells what happened to it; language models and embeddings do not read that."""
    node.metadata = {**node.metadata, KEY: told}
    node.excluded_llm_metadata_keys = [*node.excluded_llm_metadata_keys, KEY]
    node.excluded_embed_metadata_keys = [*node.excluded_embed_metadata_keys, KEY]
    return node
