"""Seconds per query as they would be without a score cache."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.data.records import is_phrase_index
from tour_pyserini.data.runs import read_run
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.encoders.encoder import encode_queries
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.experiments.definition import Experiment, Setup, conditions_of
from tour_pyserini.experiments.planning import Locations, plan_search
from tour_pyserini.opening import Opener, phrase_input, phrase_searcher, reranker_options
from tour_pyserini.phrases.phrase_index import PhraseSpan, title_and_text
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write

TOPICS, HITS = 8, 10  # labels are timed on this many topics, and hits of each
WARM_UP = 10  # pairs that are scored before the clock starts


class LabelTime(NamedTuple):
    """How long labels take: the number of scored pairs, and the seconds for all of them."""

    pairs: int
    seconds: float


Cost = Callable[[Setup, MeasuredRun], float | None]
"""Called as `cost(setup, run)`: labels or seconds per query of a run; None if unknown."""


def seconds_cost(results: Mapping[Setup, Mapping[str, MeasuredRun]], locations: Locations) -> Cost:
    """Seconds per query of a run; None if the time of a label was not measured."""

    @cache
    def times(setup: Setup) -> tuple[float, float] | None:
        """Seconds per label, and seconds to encode a query."""
        label = read_label_time(setup, locations)
        same_encoder = [run for other, runs in results.items() if other[:2] == setup[:2] for run in runs.values()]
        return None if label is None else (label.seconds / label.pairs, encoding_seconds(same_encoder))

    def seconds(setup: Setup, run: MeasuredRun) -> float | None:
        known = times(setup)
        return None if known is None or run.costs is None else seconds_per_query(run.costs, *known)

    return seconds


def seconds_per_query(costs: Costs, label: float, encoding: float) -> float:
    """Seconds per query if no label came from the score cache.

    In an experiment, labels come from the score cache, and a query is encoded once for all conditions. So the seconds
    of search and update are taken from the run, and measured seconds for labels and encoding are added.

    Args:
        costs: the costs of the run.
        label: seconds per label.
        encoding: seconds to encode a query.
    """
    other_stages = sum(seconds for stage, seconds in costs.seconds.items() if stage not in ("label", "encode"))
    return (other_stages + costs.pairs * label) / max(costs.queries, 1) + encoding


def encoding_seconds(runs: Sequence[MeasuredRun]) -> float:
    """Seconds to encode a query: the largest value among runs of the same collection and encoder.

    Only the first of these runs encoded the queries; the others used its vectors.
    """
    known = [run.costs for run in runs if run.costs is not None]
    return max((costs.seconds.get("encode", 0.0) / max(costs.queries, 1) for costs in known), default=0.0)


def read_label_time(setup: Setup, locations: Locations) -> LabelTime | None:
    """The measured time of labels for the collection and re-ranker of a setup; None if it was not measured."""
    path = _path(setup, locations)
    if not path.is_file():
        return None
    try:
        value = read_json_object(path)
        return LabelTime(int(value["pairs"]), float(value["seconds"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise TourError(
            f"{path} does not have the time of labels ({error}); remove it, and use --time-labels."
        ) from error


def time_labels(experiment: Experiment, setup: Setup, locations: Locations) -> LabelTime:
    """Score the first hits of some topics without a score cache, and save how long it took.

    Raises:
        TourError: if the setup has no run.
    """
    request = _search_request(experiment, setup, locations)
    queries, hits = _hits(experiment, setup, locations)
    phrases = is_phrase_index(request.index)
    pairs = _phrase_pairs(request, queries) if phrases else _passage_pairs(request, queries, hits)
    reranker: Any = load_reranker(request.reranker, **reranker_options(request))
    reranker.predict(pairs[:WARM_UP])
    started = time.perf_counter()
    reranker.predict(pairs)
    measured = LabelTime(len(pairs), time.perf_counter() - started)
    with atomic_write(_path(setup, locations)) as file:
        file.write(json.dumps({"pairs": measured.pairs, "seconds": round(measured.seconds, 3)}) + "\n")
    return measured


def _search_request(experiment: Experiment, setup: Setup, locations: Locations) -> SearchRequest:
    """The search of the first condition of a setup, for its re-ranker, index and corpus."""
    name, condition = next(iter(conditions_of(experiment, setup).items()))
    planned = plan_search(experiment, setup, condition, locations, output=locations.runs / "none", qrels=None)
    return planned.request(name)


def _hits(experiment: Experiment, setup: Setup, locations: Locations) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Some queries of a run by id, and their docids."""
    runs = [locations.run(setup, name) for name in conditions_of(experiment, setup)]
    run = next((run for run in runs if run.is_file()), None)
    if run is None:
        raise TourError(f"{setup.name} has no run yet; make one before --time-labels.")
    hits: dict[str, list[str]] = {}
    for hit in read_run(run):
        hits.setdefault(hit.query_id, []).append(hit.doc_id)
    chosen = list(hits)[:: max(1, len(hits) // TOPICS)][:TOPICS]
    topics = read_topics(locations.expanded(experiment.collections[setup.collection].topics), only=set(chosen))
    queries = {str(qid): text for qid, text in topics if str(qid) in hits}
    return {qid: queries[qid] for qid in chosen}, {qid: hits[qid][:HITS] for qid in chosen}


def _passage_pairs(request: SearchRequest, queries: Mapping[str, str], hits: Mapping[str, list[str]]) -> list[Pair]:
    texts = open_texts(str(request.corpus))
    return [(queries[qid], texts[docid]) for qid, docids in hits.items() for docid in docids]


def _phrase_pairs(request: SearchRequest, queries: Mapping[str, str]) -> list[Pair]:
    searcher, reranker_text = phrase_searcher(request, Opener()), phrase_input(request)
    vectors = encode_queries(searcher.query_encoder, list(queries.values()), list(queries), searcher.dimension)
    results = searcher.batch_search(vectors, list(queries), HITS)
    spans = [(qid, PhraseSpan(hit.docid, hit.begin, hit.end)) for qid, hits in results.items() for hit in hits]
    return [
        (queries[qid], reranker_text(*title_and_text(searcher.texts, span), span.begin, span.end))
        for qid, span in spans
    ]


def _path(setup: Setup, locations: Locations) -> Path:
    return locations.runs / f"{setup.collection}.{setup.reranker}.seconds.json"
