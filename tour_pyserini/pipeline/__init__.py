"""What the commands do, as functions on values: each takes a request and returns a summary.

from tour_pyserini.pipeline import IndexRequest, SearchRequest, build_index, search

build_index(IndexRequest(corpus="scifact/corpus.jsonl", index="indexes/scifact"))
search(SearchRequest(topics="scifact/queries.jsonl", index="indexes/scifact", corpus="scifact/corpus.jsonl"))
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tour_pyserini.pipeline.comparing import CompareRequest, compare_runs
    from tour_pyserini.pipeline.converting import JsonRequest, json_to_run, run_to_json
    from tour_pyserini.pipeline.index_request import IndexRequest, IndexSummary
    from tour_pyserini.pipeline.indexing import build_index
    from tour_pyserini.pipeline.judging import JudgeRequest, JudgeSummary, judge
    from tour_pyserini.pipeline.opener import Opener
    from tour_pyserini.pipeline.path_showing import PageRequest, write_page
    from tour_pyserini.pipeline.search_request import SearchRequest
    from tour_pyserini.pipeline.searching import RunSummary, search

# Names are loaded when they are first used: some of their modules start slowly.
_MODULES = {
    "CompareRequest": "comparing",
    "IndexRequest": "index_request",
    "IndexSummary": "index_request",
    "JsonRequest": "converting",
    "JudgeRequest": "judging",
    "JudgeSummary": "judging",
    "Opener": "opener",
    "PageRequest": "path_showing",
    "RunSummary": "searching",
    "SearchRequest": "search_request",
    "build_index": "indexing",
    "compare_runs": "comparing",
    "json_to_run": "converting",
    "judge": "judging",
    "run_to_json": "converting",
    "search": "searching",
    "write_page": "path_showing",
}

__all__ = [
    "CompareRequest",
    "IndexRequest",
    "IndexSummary",
    "JsonRequest",
    "JudgeRequest",
    "JudgeSummary",
    "Opener",
    "PageRequest",
    "RunSummary",
    "SearchRequest",
    "build_index",
    "compare_runs",
    "json_to_run",
    "judge",
    "run_to_json",
    "search",
    "write_page",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
