"""What the commands do, as functions on values: each takes a request and returns a summary.

from tour_pyserini.pipeline import IndexRequest, SearchRequest, build_index, search

build_index(IndexRequest(corpus="scifact/corpus.jsonl", index="indexes/scifact"))
search(SearchRequest(topics="scifact/queries.jsonl", index="indexes/scifact", corpus="scifact/corpus.jsonl"))
"""

from typing import TYPE_CHECKING

from tour_pyserini.support.lazy_names import lazy_names

if TYPE_CHECKING:
    from tour_pyserini.pipeline.comparing import CompareRequest, compare_runs
    from tour_pyserini.pipeline.converting import JsonRequest, convert_qrels, json_to_run, run_to_json
    from tour_pyserini.pipeline.index_request import IndexRequest, IndexSummary
    from tour_pyserini.pipeline.indexing import build_index
    from tour_pyserini.pipeline.installation import InstallationReport, check_installation
    from tour_pyserini.pipeline.judging import JudgeRequest, JudgeSummary, judge
    from tour_pyserini.pipeline.merging import MergeRequest, MergeSummary, merge
    from tour_pyserini.pipeline.model_check import ModelReport, ModelRequest, check_model
    from tour_pyserini.pipeline.opener import Opener
    from tour_pyserini.pipeline.path_showing import PageRequest, write_page
    from tour_pyserini.pipeline.search_request import SearchRequest
    from tour_pyserini.pipeline.searching import RunSummary, search
    from tour_pyserini.pipeline.splitting import split_by_overlap

_MODULES = {
    "CompareRequest": "comparing",
    "IndexRequest": "index_request",
    "IndexSummary": "index_request",
    "InstallationReport": "installation",
    "JsonRequest": "converting",
    "JudgeRequest": "judging",
    "JudgeSummary": "judging",
    "MergeRequest": "merging",
    "MergeSummary": "merging",
    "ModelReport": "model_check",
    "ModelRequest": "model_check",
    "Opener": "opener",
    "PageRequest": "path_showing",
    "RunSummary": "searching",
    "SearchRequest": "search_request",
    "build_index": "indexing",
    "check_installation": "installation",
    "check_model": "model_check",
    "compare_runs": "comparing",
    "convert_qrels": "converting",
    "json_to_run": "converting",
    "judge": "judging",
    "merge": "merging",
    "run_to_json": "converting",
    "search": "searching",
    "split_by_overlap": "splitting",
    "write_page": "path_showing",
}

__all__ = [
    "CompareRequest",
    "IndexRequest",
    "IndexSummary",
    "InstallationReport",
    "JsonRequest",
    "JudgeRequest",
    "JudgeSummary",
    "MergeRequest",
    "MergeSummary",
    "ModelReport",
    "ModelRequest",
    "Opener",
    "PageRequest",
    "RunSummary",
    "SearchRequest",
    "build_index",
    "check_installation",
    "check_model",
    "compare_runs",
    "convert_qrels",
    "json_to_run",
    "judge",
    "merge",
    "run_to_json",
    "search",
    "split_by_overlap",
    "write_page",
]

__getattr__ = lazy_names(__name__, _MODULES)
