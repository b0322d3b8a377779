"""Seconds per query as they would be without kept scores."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tour_pyserini.data.runs import read_run
from tour_pyserini.data.texts import open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.encoders.queries import encode_queries
from tour_pyserini.errors import TourError
from tour_pyserini.evaluation.measures import MeasuredRun
from tour_pyserini.experiments.definition import Cell, Experiment, conditions_of, expanded
from tour_pyserini.experiments.locations import Places
from tour_pyserini.experiments.planning import plan_search
from tour_pyserini.pipeline.opener import Opener
from tour_pyserini.pipeline.phrase_searching import phrase_input, phrase_searcher
from tour_pyserini.pipeline.search_request import SearchRequest
from tour_pyserini.pipeline.searching import reranker_options
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.stores.phrases.phrase_ids import PhraseSpan, title_and_text
from tour_pyserini.stores.phrases.phrase_index import is_phrase_index
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write

TOPICS, HITS, WARM_UP = 8, 10, 10


class LabelTime(NamedTuple):
    """What a label costs: pairs that were scored, and the seconds they took."""

    pairs: int
    seconds: float


def seconds_per_query(costs: Costs, label: float, encoding: float, *, labels: int | None = None) -> float:
    """What a query takes where every label is paid for.

    An experiment takes labels from the cache and encodes a query once for all conditions. What remains in a run's
    costs is search and update; labels and encoding are added at what they were measured to cost.

    Args:
        costs: what the run cost.
        label: seconds per label.
        encoding: seconds per query.
        labels: labels paid for by all queries; what the run paid, if not given.
    """
    own = sum(seconds for stage, seconds in costs.seconds.items() if stage not in ("label", "encode"))
    paid = costs.pairs if labels is None else labels
    return (own + paid * label) / max(costs.queries, 1) + encoding


def encoding_seconds(rows: Sequence[MeasuredRun]) -> float:
    """Seconds per query of the run that encoded the queries: others of the same collection and encoder found them."""
    runs = [row.costs for row in rows if row.costs is not None]
    return max((costs.seconds.get("encode", 0.0) / max(costs.queries, 1) for costs in runs), default=0.0)


def read_label_time(cell: Cell, places: Places) -> LabelTime | None:
    """What was measured for the collection and re-ranker of a cell; None where nothing was."""
    path = _path(cell, places)
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return LabelTime(int(value["pairs"]), float(value["seconds"]))
    except (ValueError, KeyError, TypeError) as error:
        raise TourError(
            f"{path} does not say what a label costs ({error}); remove it, and use --time-labels."
        ) from error


def time_labels(experiment: Experiment, cell: Cell, places: Places) -> LabelTime:
    """Score the first hits of some topics, without a cache, and keep what a label cost.

    Raises:
        TourError: if the cell has no run whose hits could be scored.
    """
    request = _search_request(experiment, cell, places)
    queries, hits = _hits(experiment, cell, places)
    phrases = is_phrase_index(request.index)
    pairs = _phrase_pairs(request, queries) if phrases else _passage_pairs(request, queries, hits)
    reranker: Any = load_reranker(request.reranker, **reranker_options(request))
    reranker.predict(pairs[:WARM_UP])
    started = time.perf_counter()
    reranker.predict(pairs)
    measured = LabelTime(len(pairs), time.perf_counter() - started)
    with atomic_write(_path(cell, places)) as file:
        file.write(json.dumps({"pairs": measured.pairs, "seconds": round(measured.seconds, 3)}) + "\n")
    return measured


def _search_request(experiment: Experiment, cell: Cell, places: Places) -> SearchRequest:
    """A search in the cell."""
    name, condition = next(iter(conditions_of(experiment, cell).items()))
    planned = plan_search(experiment, cell, condition, places, output=places.runs / "none", qrels=None)
    return planned.request(name)


def _hits(experiment: Experiment, cell: Cell, places: Places) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Some queries of a run by id, and the docids it found for them."""
    runs = [places.run(cell, name) for name in conditions_of(experiment, cell)]
    run = next((run for run in runs if run.is_file()), None)
    if run is None:
        raise TourError(f"{cell.name} has no run yet; make one before --time-labels.")
    hits: dict[str, list[str]] = {}
    for hit in read_run(run):
        hits.setdefault(hit.query_id, []).append(hit.doc_id)
    every = list(hits)[:: max(1, len(hits) // TOPICS)][:TOPICS]
    topics = read_topics(expanded(experiment.collections[cell.collection].topics, places.variables), only=set(every))
    queries = {str(qid): text for qid, text in topics if str(qid) in hits}
    return {qid: queries[qid] for qid in every}, {qid: hits[qid][:HITS] for qid in every}


def _passage_pairs(request: SearchRequest, queries: Mapping[str, str], hits: Mapping[str, list[str]]) -> list[Pair]:
    texts = open_texts(str(request.corpus))
    return [(queries[qid], texts[docid]) for qid, docids in hits.items() for docid in docids]


def _phrase_pairs(request: SearchRequest, queries: Mapping[str, str]) -> list[Pair]:
    searcher, shown = phrase_searcher(request, Opener()), phrase_input(request)
    vectors = encode_queries(searcher.query_encoder, list(queries.values()), list(queries), searcher.dimension)
    found = searcher.batch_search(vectors, list(queries), HITS)
    spans = [(qid, PhraseSpan(hit.docid, hit.begin, hit.end)) for qid, hits in found.items() for hit in hits]
    return [(queries[qid], shown(*title_and_text(searcher.texts, span), span.begin, span.end)) for qid, span in spans]


def _path(cell: Cell, places: Places) -> Path:
    return places.runs / f"{cell.collection}.{cell.reranker}.seconds.json"
