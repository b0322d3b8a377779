"""TouR as a retriever and as a document compressor of LangChain; needs the extra `langchain`."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

from tour_pyserini.integrations import KEY, check_store, rank_documents, store_searcher
from tour_pyserini.searchers.search_path import search_path
from tour_pyserini.support.packages import import_optional

import_optional("langchain_core", extra="langchain")

from langchain_core.callbacks import (  # noqa: E402
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
    Callbacks,
)
from langchain_core.documents import BaseDocumentCompressor, Document  # noqa: E402
from langchain_core.retrievers import BaseRetriever  # noqa: E402
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402
from pydantic import ConfigDict  # noqa: E402


class TourRetriever(BaseRetriever):
    """Searches with queries that are optimised at test time.

    Documents have the passage as their content, the docid as their id, and `metadata["tour"]`: score, label, rank
    before, and the query's path, as `SearchPath.metadata` gives them.

    Attributes:
        searcher: a `TourSearcher`.
        k: documents that are returned.
        filter: which documents may be found, see `TourSearcher.search`; one that is given to `invoke` holds too.
        metadata_of: further metadata of documents, by docid.

    Example:
        retriever = TourRetriever(searcher=searcher, k=5, filter={"lang": "en"})
        documents = retriever.invoke("do statins prevent stroke", k=3, filter={"year": {"gte": 2020}})
    """

    # A filter under another name that was ignored would show what was to be hidden.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
    searcher: Any
    k: int = 10
    filter: Any = None
    metadata_of: Mapping[str, Mapping[str, Any]] = {}

    @classmethod
    def from_vectorstore(
        cls, store: InMemoryVectorStore, score: Any, *, k: int = 10, filter: Any = None, **settings: Any
    ) -> Self:
        """Search the documents that an `InMemoryVectorStore` has now, by cosine, as it does.

        Args:
            store: the store; its own embeddings encode queries.
            score: where labels come from: a function from pairs (query, passage) to scores, or a re-ranker.
            k: documents that are returned.
            filter: which documents may be found: a condition on their metadata, or their ids.
            settings: further arguments of `TourSearcher.from_vectors`, such as `budget=30`.
        """
        check_store(store, InMemoryVectorStore)
        found = {docid: (one["vector"], one["text"], one["metadata"]) for docid, one in store.store.items()}
        searcher = store_searcher(found, store.embeddings.embed_query, score, cosine=True, **settings)
        metadata = {docid: told for docid, (_, _, told) in found.items()}
        return cls(searcher=searcher, k=k, filter=filter, metadata_of=metadata)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Any = None,
    ) -> list[Document]:
        searcher = self.searcher if self.filter is None else self.searcher.only(self.filter)
        path = search_path(searcher, query, self.k if k is None else k, filter=filter)
        return [
            Document(
                id=hit.docid,
                page_content=hit.text or "",
                metadata={**self.metadata_of.get(hit.docid, {}), KEY: path.metadata(hit)},
            )
            for hit in path.hits
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        find = partial(self._get_relevant_documents, query, run_manager=run_manager.get_sync(), **options)
        return await asyncio.to_thread(find)


class TourCompressor(BaseDocumentCompressor):
    """Keeps the best of the documents that any retriever found, with labels for the promising ones alone.

    Documents keep their metadata; `metadata["tour"]` has score, label, rank and rank before. The order of the list is
    its first-stage score.

    Attributes:
        reranker: a `TourReranker`.
        top_n: documents that are kept; None: all.

    Example:
        compressor = TourCompressor(reranker=TourReranker("default", TourConfig(budget=20)), top_n=5)
        documents = compressor.compress_documents(retriever.invoke(query), query)
    """

    reranker: Any
    top_n: int | None = 10

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> list[Document]:
        """The best documents, best first."""
        ranked = rank_documents(self.reranker, query, [(one.page_content, None, None) for one in documents])
        return [
            documents[position].model_copy(update={"metadata": {**documents[position].metadata, KEY: told}})
            for position, _, told in ranked
        ][: self.top_n]
