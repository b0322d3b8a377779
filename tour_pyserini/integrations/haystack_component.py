"""TouR as a retriever and as a ranker of Haystack; needs the extra `haystack`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from tour_pyserini.core.config import TourConfig
from tour_pyserini.errors import TourError
from tour_pyserini.integrations import KEY, SIGNS, check_store, rank_documents, store_searcher
from tour_pyserini.searchers.list_reranker import TourReranker
from tour_pyserini.searchers.search_path import PathHit, SearchPath, search_path
from tour_pyserini.support.packages import import_optional

import_optional("haystack", extra="haystack")

from haystack import Document, component, default_to_dict  # noqa: E402
from haystack.document_stores.in_memory import InMemoryDocumentStore  # noqa: E402


@component
class TourRetriever:
    """Searches with queries that are optimised at test time.

    Documents have the passage as their content, the docid as their id, their score, and `meta["tour"]`: label, rank
    before, and the query's path, as `SearchPath.metadata` gives them.

    A pipeline with it is saved and loaded if it was made from fields: what it searches is then opened in `warm_up`.

    Example:
        fields = {"index": "indexes/scifact", "corpus": "scifact/corpus.jsonl", "budget": 20}
        pipeline.add_component("retriever", TourRetriever(fields, top_k=5))
        documents = pipeline.run({"retriever": {"query": "do statins prevent stroke"}})["retriever"]["documents"]
    """

    def __init__(self, searcher: Any, *, top_k: int = 10, documents: Mapping[str, Document] | None = None) -> None:
        """Retrieve with a searcher.

        Args:
            searcher: a `TourSearcher`, or fields of a search request by name: `index`, `corpus`, `method`, ...
            top_k: documents that are returned.
            documents: the document of each docid, where documents are more than their content.
        """
        self._given, self._top_k, self._documents = searcher, top_k, documents or {}
        self._searcher: Any = None if isinstance(searcher, Mapping) else searcher

    def warm_up(self) -> None:
        """Open what is searched."""
        if self._searcher is None:
            from tour_pyserini.opening import Opener  # whoever has a searcher needs none of this
            from tour_pyserini.search_request import SearchRequest

            request, opener = SearchRequest.from_flags({"topics": "none", **self._given}).completed(), Opener()
            reranker = opener.reranker(request) if request.config.most_labels else None
            self._searcher = opener.searcher(request, reranker)

    def to_dict(self) -> dict[str, Any]:
        """What `Pipeline.dumps` writes of it.

        Raises:
            TourError: if it was made from a searcher in memory.
        """
        if not isinstance(self._given, Mapping):
            raise TourError("a searcher in memory cannot be saved; make the TourRetriever from fields of a search.")
        return default_to_dict(self, searcher=dict(self._given), top_k=self._top_k)

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
        found = {one.id: one for one in store.storage.values() if one.embedding is not None}
        searcher = store_searcher(
            {docid: (one.embedding, one.content or "", one.meta) for docid, one in found.items()},
            lambda query: embedder.run(text=query)["embedding"],
            score,
            cosine=store.embedding_similarity_function == "cosine",
            **settings,
        )
        return cls(searcher, top_k=top_k, documents=found)

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """The documents of a query, best first; `top_k` as the component was made, unless it is given.

        Raises:
            TourError: if `filters` compare in a way that filters here do not have.
        """
        self.warm_up()
        wanted = _condition(filters) if filters else None
        path = search_path(self._searcher, query, self._top_k if top_k is None else top_k, filter=wanted)
        return {"documents": [self._document(path, hit) for hit in path.hits]}

    def _document(self, path: SearchPath, hit: PathHit) -> Document:
        known = self._documents.get(hit.docid) or Document(id=hit.docid, content=hit.text)
        return replace(known, score=hit.score, embedding=None, meta={**known.meta, KEY: path.metadata(hit)})


def _condition(given: Any) -> Any:
    """Haystack's filters in our language; a search refuses what is neither."""
    match given:
        case {"operator": str(joined), "conditions": list(parts)}:
            return {joined.lower(): [_condition(one) for one in parts]}
        case {"operator": str(sign), "field": str(field), "value": value}:
            return {field.removeprefix("meta."): {SIGNS.get(sign, sign): value}}
    return given


@component
class TourRanker:
    """Ranks the documents that any retriever found, with labels for the promising ones alone.

    Documents' scores are a signal. With their embeddings and `query_embedding`, the query moves too. `meta["tour"]` has
    score, label, rank and rank before.

    Example:
        pipeline.add_component("ranker", TourRanker("default", config="budget=20", top_k=5))
        pipeline.connect("retriever.documents", "ranker.documents")
    """

    def __init__(self, reranker: Any = "default", *, config: TourConfig | str = "", top_k: int | None = 10) -> None:
        """Rank with a re-ranker.

        Args:
            reranker: where labels come from: anything `load_reranker` takes. Only a name, a folder or an address can be
                saved with a pipeline.
            config: the method and its settings, also as text such as `budget=20`.
            top_k: documents that are returned; None: all.
        """
        self._spec, self._top_k = reranker, top_k
        self._config = config if isinstance(config, TourConfig) else TourConfig.parse(config)
        self._reranker: Any = None

    def warm_up(self) -> None:
        """Load the model."""
        self._reranker = self._reranker or TourReranker(self._spec, self._config)

    def to_dict(self) -> dict[str, Any]:
        """What `Pipeline.dumps` writes of it.

        Raises:
            TourError: if the re-ranker is an object.
        """
        if not isinstance(self._spec, str):
            raise TourError("a re-ranker in memory cannot be saved; give a TourRanker a name, a folder or an address.")
        return default_to_dict(self, reranker=self._spec, config=str(self._config), top_k=self._top_k)

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        documents: list[Document],
        top_k: int | None = None,
        query_embedding: list[float] | None = None,
    ) -> dict[str, list[Document]]:
        """The best documents, best first; `top_k` as the component was made, unless it is given."""
        self.warm_up()
        listed = [(one.content or "", one.score, one.embedding) for one in documents]
        ranked = rank_documents(self._reranker, query, listed, query_embedding)
        best = [
            replace(documents[position], score=score, meta={**documents[position].meta, KEY: told})
            for position, score, told in ranked
        ]
        return {"documents": best[: self._top_k if top_k is None else top_k]}
