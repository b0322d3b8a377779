# PYTHON_ARGCOMPLETE_OK
"""Search topics and write a run."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from tour_pyserini.batches import Batch, search_topics, told_by_index
from tour_pyserini.command import run
from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.records import is_phrase_index, write_record
from tour_pyserini.data.runs import write_run
from tour_pyserini.data.topics import judged_only, read_topics
from tour_pyserini.encoders.query_vectors import write_encoded_queries
from tour_pyserini.errors import TourError
from tour_pyserini.flags import add_config_flags, request_parser, words
from tour_pyserini.opening import (
    Opener,
    open_request_searcher,
    open_reranker,
    open_worker_searcher,
    reranker_options,
)
from tour_pyserini.ray_search import RaySearcher, ray_searcher
from tour_pyserini.rerankers import load_reranker_later
from tour_pyserini.rerankers.remote import RemoteReranker
from tour_pyserini.rerankers.score_cache import without_password
from tour_pyserini.search_request import (
    OUTPUTS,
    SearchRequest,
    Shard,
    check_inputs,
    completed,
    output_digest,
    whole_or_shard,
)
from tour_pyserini.searchers.searcher import TourSearcher
from tour_pyserini.stores.signals import signal_files
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write, check_output, is_stream

FORMAT = "{n_fmt}/{total_fmt} {unit}{postfix} {remaining} {bar}"
"""Counts and the time left come first: where the terminal is narrow, the end of the line is cut off."""


@contextlib.contextmanager
def search_bar(
    queries: int, *, reranker: Any = None, most_labels: int = 0, show: bool = True
) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on the terminal while a search runs; nothing is shown if standard error is not a terminal.

    Args:
        queries: number of queries to search.
        reranker: what labels come from, or None. If it has an attribute `on_progress`, the bar moves while it works.
        most_labels: most labels of a query. The total is this number for each query that is not done, and what they
            really took for those that are.
        show: False for no bar at all.

    Yields:
        A function to call after each batch with the number of queries done and of labels bought so far.
    """
    from tqdm import tqdm

    counted: dict[str, Any] = {"total": queries, "unit": "queries"}
    if reranker is not None:
        counted = {"total": queries * most_labels, "unit": "labels", "postfix": f"0/{queries} queries"}
    # disable=None: a bar on a terminal only. miniters=1: labels from the cache come much faster than others.
    with tqdm(**counted, disable=None if show else True, dynamic_ncols=True, miniters=1, bar_format=FORMAT) as bar:
        if reranker is None:
            yield lambda done, labels: _move(bar, done)
            return

        def report(done: int, labels: int) -> None:
            bar.total = labels + (queries - done) * most_labels
            bar.set_postfix_str(f"{done}/{queries} queries", refresh=False)
            _move(bar, labels)

        listens = hasattr(reranker, "on_progress") and not bar.disable
        if listens:
            reranker.on_progress = bar.update
        try:
            yield report
        finally:
            if listens:
                reranker.on_progress = None


def _move(bar: Any, count: int) -> None:
    bar.n = count
    bar.refresh()


class RunSummary(NamedTuple):
    """What a search did.

    Attributes:
        output: the run file; its record is beside it.
        config: the method and its settings.
        costs: what it cost.
    """

    output: Path
    config: TourConfig
    costs: Costs


def search(request: SearchRequest, *, opener: Opener | None = None, progress: bool = False) -> RunSummary:
    """Search topics and write a run.

    Args:
        request: what to search, and how.
        opener: opens models, indexes and texts; give the same one to several searches, and each is opened once.
        progress: whether a bar is shown on a terminal.
    """
    opener = opener or Opener()
    request = completed(request)
    flags = request.flags() | ({"cache": without_password(request.cache)} if request.cache else {})
    shard = Shard.parse(request.shard) if request.shard else None
    request = replace(request, **{name: whole_or_shard(shard, getattr(request, name)) for name in OUTPUTS})
    assert request.output is not None and request.index is not None
    phrases = is_phrase_index(request.index)
    check_inputs(request)
    _check_outputs(request)
    judged = {qrel.query_id for qrel in read_qrels(request.qrels)} if request.qrels else None
    topics = read_topics(request.topics, request.topics_format, only=judged)
    if judged is not None:
        topics = judged_only(topics, judged, source=str(request.qrels))
    if shard:
        topics = shard.part_of(topics, request.batch_size)
    reranker = _reranker(request, opener) if request.config.most_labels else None
    kept: list[Batch] = []
    with (
        _open_file(request.trace) as trace,
        _open_file(request.predictions) as predictions,
        _searcher(request, reranker, trace, predictions, opener) as searcher,
    ):
        write_run(
            _batches(searcher, topics, request, kept, reranker=reranker, progress=progress),
            request.output,
            output_format=request.output_format,
            hits=request.hits,
            tag=request.tag or f"Tour-{request.config.method}",
            topics=topics.topics,
        )
    if request.output_queries:
        _write_queries(request.output_queries, kept)
    if is_stream(request.output):
        return RunSummary(Path(request.output), request.config, searcher.costs)
    write_record(
        request.output,
        command=["search", *words(flags)],
        config=request.config,
        files={
            "topics": request.topics,
            "index": request.index,
            "corpus": request.corpus,
            "qrels": request.qrels,
            "adapter": request.adapter,
            **_signal_files(request),
        },
        models={"reranker": getattr(reranker, "fingerprint", None)},
        found={
            **_index_record(searcher, phrases=phrases),
            **_service_record(reranker),
        },
        costs=searcher.costs,
        shard=_shard_record(shard, flags, request) if shard else None,
    )
    return RunSummary(Path(request.output), request.config, searcher.costs)


def _reranker(request: SearchRequest, opener: Opener) -> Any:
    """The re-ranker of a request; with Ray, only what tells about it, because the workers open their own."""
    if not request.ray:
        return open_reranker(request, opener)
    return opener.open(load_reranker_later, request.reranker, **reranker_options(request))


@contextlib.contextmanager
def _searcher(
    request: SearchRequest,
    reranker: Any,
    trace: IO[str] | None,
    predictions: IO[str] | None,
    opener: Opener,
) -> Iterator[Any]:
    """What searches the batches of a request: TouR in this process, or the workers of a Ray cluster."""
    if request.ray:
        with ray_searcher(
            request, open_worker_searcher, reranker=reranker, trace=trace, predictions=predictions
        ) as searcher:
            yield searcher
    else:
        yield open_request_searcher(request, reranker, trace, predictions, opener)


def _service_record(reranker: Any) -> dict[str, Any]:
    """What a re-ranking service told about itself, for the record."""
    service = getattr(reranker, "reranker", reranker)  # without its score cache
    return {"service": service.identity} if isinstance(service, RemoteReranker) else {}


def _index_record(searcher: TourSearcher | RaySearcher, *, phrases: bool) -> dict[str, Any]:
    """What the index told, here or in the workers of a Ray cluster, for the record; one of phrases tells nothing."""
    if phrases:
        return {}
    return searcher.told if isinstance(searcher, RaySearcher) else told_by_index(searcher)


def _signal_files(request: SearchRequest) -> dict[str, str | None]:
    """The files of further signals by role: `sparse`, `sparse 2`, ..., `index2`, ..."""
    files = {f"sparse {number}": signal_files(spec) for number, spec in enumerate(request.sparse, 1)}
    files |= {f"index2 {number}": index for number, index in enumerate(request.index2, 1)}
    return {role.removesuffix(" 1"): path for role, path in files.items()}


def _batches(
    searcher: Any, topics: Any, request: SearchRequest, kept: list[Batch], *, reranker: Any, progress: bool
) -> Iterator[Batch]:
    """Search in batches with a bar; what --output-queries needs is kept."""
    most_labels, done = request.config.most_labels, 0
    with search_bar(len(topics), reranker=reranker, most_labels=most_labels, show=progress) as report:
        # The workers of a Ray cluster search several batches at a time.
        search_all = searcher.search_topics if isinstance(searcher, RaySearcher) else partial(search_topics, searcher)
        for batch in search_all(topics, hits=request.hits, batch_size=request.batch_size, threads=request.threads):
            with searcher.costs.stage("write"):  # until the writer asks for the next batch
                yield batch
            if request.output_queries:
                kept.append(batch._replace(hits={}))
            done += len(batch.ids)
            report(done, searcher.costs.pairs)


def _shard_record(shard: Shard, flags: Mapping[str, Any], request: SearchRequest) -> dict[str, Any]:
    """What `merge` needs to know: which shard it is, of which search, and the checksums of its files beside the run."""
    written = {name.replace("_", "-"): getattr(request, name) for name in OUTPUTS if name != "output"}
    checksums = {flag: output_digest(path) for flag, path in written.items() if path}
    return {"number": shard.number, "count": shard.count, "flags": _as_json(flags), "sha256": checksums}


def _as_json(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Flags for a record; objects, such as a re-ranker, become text."""
    plain = (str, int, float, list, tuple)
    return {name: value if isinstance(value, plain) else str(value) for name, value in flags.items()}


def _write_queries(folder: str, batches: Sequence[Batch]) -> None:
    write_encoded_queries(
        folder,
        [id_ for batch in batches for id_ in batch.ids],
        [query for batch in batches for query in batch.queries],
        np.concatenate([batch.vectors for batch in batches]),
    )


def _check_outputs(request: SearchRequest) -> None:
    """Find out before the search, not after it, that everything can be written."""
    queries = f"{request.output_queries}/embedding.pkl" if request.output_queries else None
    given = (request.output, request.trace, request.predictions, queries)
    outputs = [Path(path).resolve() for path in given if path and not is_stream(path)]
    for number, path in enumerate(outputs):
        if path in outputs[:number]:
            raise TourError(f"the run, the trace and the predictions cannot share {path.name}; give each a name.")
    for path in outputs:
        check_output(path, [request.topics, request.corpus, request.qrels, request.adapter])


@contextlib.contextmanager
def _open_file(path: str | os.PathLike[str] | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
    else:
        with atomic_write(path) as file:
            yield file


DESCRIPTION = """\
Search topics and write a run, with Pyserini's own flags and one for each setting of TouR. Labels are kept in the score
cache, so the same command continues an interrupted search without paying for them again."""

EXAMPLES = """examples:
  python -m tour_pyserini.search --topics demo
  python -m tour_pyserini.search --topics scifact/queries.jsonl --qrels scifact/qrels/test.tsv \\
      --index indexes/scifact --corpus scifact/corpus.jsonl --output runs/scifact.trec
  python -m tour_pyserini.search ... --method rerank --depth 40
  python -m tour_pyserini.search ... --preset paper-passages-dpr --reranker cross-encoder/ms-marco-MiniLM-L-6-v2"""


def search_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.search`."""
    parser = request_parser("search", SearchRequest, description=DESCRIPTION, epilog=EXAMPLES)
    add_config_flags(parser.add_argument_group("settings of TouR"))
    return parser


def search_request(argv: Sequence[str] | None) -> SearchRequest:
    """The request that the command line describes; the command line of this process if `argv` is None."""
    return SearchRequest.from_flags(vars(search_parser().parse_args(argv)))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    summary = search(search_request(argv), progress=True)
    sys.stderr.write(f"{summary.output}: {summary.costs}\n")


if __name__ == "__main__":
    run(main)
