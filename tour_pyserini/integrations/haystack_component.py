"""TouR as a component of Haystack; needs the extra `haystack`."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from tour_pyserini.integrations import KEY, check_store, refuse_unknown, store_searcher
from tour_pyserini.searchers.search_path import PathHit, SearchPath, search_path
from tour_pyserini.support.packages import import_optional

import_optional("haystack", extra="haystack")

from haystack import Document, component  # noqa: E402
from haystack.document_stores.in_memory import InMemoryDocumentStore  # noqa: E402


@component
class TourRetriever:
    """Searches with queries that are optimised at test time.

    Documents have the passage as their content, the docid as their id, their score, and `meta["tour"]`: label, rank
    before, and the query's path, as `SearchPath.metadata` gives them.

    Example:
        pipeline.add_component("retriever", TourRetriever(searcher, top_k=5))
        documents = pipeline.run({"retriever": {"query": "do statins prevent stroke"}})["retriever"]["documents"]
    """

    def __init__(self, searcher: Any, *, top_k: int = 10, documents: Mapping[str, Document] | None = None) -> None:
        """Retrieve with a searcher.

        Args:
            searcher: a `TourSearcher`.
            top_k: documents that are returned.
            documents: the document of each docid, where documents are more than their content.
        """
        self._searcher, self._top_k, self._documents = searcher, top_k, documents or {}

    @classmethod
    def from_document_store(
        cls, store: InMemoryDocumentStore, embedder: Any, score: Any, *, top_k: int = 10, **settings: Any
    ) -> Self:
        """Search the documents with embeddings that an `InMemoryDocumentStore` has now, by its similarity.

        Args:
            store: the store.
            embedder: a text embedder of Haystack's: its `run(text=...)` gives a query's `embedding`.
            score: where labels come from: a function from pairs (query, passage) to scores, or a re-ranker.
            top_k: documents that are returned.
            settings: further arguments of `TourSearcher.from_vectors`, such as `budget=30`.
        """
        check_store(store, InMemoryDocumentStore)
        found = {document.id: document for document in store.storage.values()}
        searcher = store_searcher(
            {docid: document.embedding for docid, document in found.items() if document.embedding is not None},
            {docid: document.content or "" for docid, document in found.items()},
            lambda query: embedder.run(text=query)["embedding"],
            score,
            cosine=store.embedding_similarity_function == "cosine",
            settings=settings,
        )
        return cls(searcher, top_k=top_k, documents=found)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """The documents of a query, best first; `top_k` as the component was made, unless it is given.

        Raises:
            TourError: if there are `filters`, which Haystack's own retrievers have.
        """
        refuse_unknown(["filters"] if filters else [])
        path = search_path(self._searcher, query, self._top_k if top_k is None else top_k)
        return {"documents": [self._document(path, hit) for hit in path.hits]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """What `run` gives, while the event loop goes on."""
        return await asyncio.to_thread(self.run, query, top_k, filters)

    def _document(self, path: SearchPath, hit: PathHit) -> Document:
        known = self._documents.get(hit.docid) or Document(id=hit.docid, content=hit.text)
        return replace(known, score=hit.score, embedding=None, meta={**known.meta, KEY: path.metadata(hit)})
