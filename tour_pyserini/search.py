# PYTHON_ARGCOMPLETE_OK
"""Search topics and write a run."""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from tour_pyserini.command import run
from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.run_records import record_path, write_record
from tour_pyserini.data.runs import open_run
from tour_pyserini.data.topics import read_topics
from tour_pyserini.encoders.query_vectors import write_encoded_queries
from tour_pyserini.errors import TourError
from tour_pyserini.flags import add_config_flags, request_parser, words
from tour_pyserini.opening import Opener
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.stores.signals import signal_files
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write, check_output, is_stream

log = logging.getLogger(__name__)

_FORMAT = "{n_fmt}/{total_fmt} {unit}{postfix} {remaining} {bar}"
"""Counts and the time left come first: where the terminal is narrow, the end of the line is cut off."""
_Batch = tuple[list[Any], list[Any]]  # ids and queries
LOG_EVERY = 60.0
"""Seconds between two lines of a log, where standard error is not a terminal."""


@contextlib.contextmanager
def search_bar(
    queries: int, *, reranker: Any = None, most_labels: int = 0, show: bool = True
) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on the terminal while a search runs; in a log, write a line now and then.

    Args:
        queries: number of queries to search.
        reranker: what labels come from, or None. If it has an attribute `on_progress`, the bar moves while it works.
        most_labels: most labels of a query. The total is this number for each query that is not done, and what they
            really took for those that are.
        show: False for nothing at all.

    Yields:
        A function to call after each batch with the number of queries done and of labels bought so far.
    """
    from tqdm import tqdm

    counted: dict[str, Any] = {"total": queries, "unit": "queries"}
    if reranker is not None:
        counted = {"total": queries * most_labels, "unit": "labels", "postfix": f"0/{queries} queries"}
    # disable=None: a bar on a terminal only. miniters=1: labels from the cache come much faster than others.
    with tqdm(**counted, disable=None if show else True, dynamic_ncols=True, miniters=1, bar_format=_FORMAT) as bar:
        logged = time.monotonic()

        def report(done: int, labels: int) -> None:
            nonlocal logged
            if reranker is not None:
                bar.total = labels + (queries - done) * most_labels
                bar.set_postfix_str(f"{done}/{queries} queries", refresh=False)
            bar.n = done if reranker is None else labels
            bar.refresh()
            if show and bar.disable and time.monotonic() - logged >= LOG_EVERY:
                sys.stderr.write(f"{done}/{queries} queries, {labels} labels\n")
                logged = time.monotonic()

        listens = hasattr(reranker, "on_progress") and not bar.disable
        if listens:
            reranker.on_progress = bar.update
        try:
            yield report
        finally:
            if listens:
                reranker.on_progress = None


class _RunSummary(NamedTuple):
    """What a search did.

    Attributes:
        output: the run file; its record is beside it.
        config: the method and its settings.
        costs: what it cost.
    """

    output: Path
    config: TourConfig
    costs: Costs


def search(request: SearchRequest, *, opener: Opener | None = None, progress: bool = False) -> _RunSummary:
    """Search topics and write a run.

    Args:
        request: what to search, and how.
        opener: opens models, indexes and texts; give the same one to several searches, and each is opened once.
        progress: whether a bar is shown on a terminal.
    """
    opener, request, shard = opener or Opener(), request.completed(), None
    flags = _recorded_flags(request)
    if request.shard:
        from tour_pyserini.merge import Shard

        shard = Shard.parse(request.shard)
        request = shard.named(request)
    _check_outputs(request)
    topics = _read_topics(request)
    opener.check_runs(request, topics.order)
    if shard:
        topics = shard.part_of(topics, request.batch_size)
    batches = _batches(topics, request.batch_size)
    most_labels = request.config.most_labels
    reranker = opener.reranker(request) if most_labels else None
    vectors: list[np.ndarray] = []

    def record(run: Path) -> None:
        service = getattr(getattr(reranker, "reranker", reranker), "identity", None)  # a service tells about itself
        write_record(
            str(request.output),
            run,
            command=["search", *words(flags)],
            config=request.config,
            files={name: getattr(request, name) for name in ("topics", "index", "corpus", "qrels", "adapter")}
            | _signal_files(request),
            models={"reranker": getattr(reranker, "fingerprint", None)},
            found={**searcher.index_record, **({"service": service} if service else {})},
            costs=searcher.costs,
            shard=shard.record(flags, request) if shard else None,
        )

    with (
        open_run(  # the run appears last: whatever a full disk does, no run is without what belongs to it
            str(request.output),
            output_format=request.output_format,
            hits=request.hits,
            tag=request.tag or f"Tour-{request.config.method}",
            topics=topics.topics,
            finish=None if is_stream(request.output) else record,
        ) as write_hits,
        atomic_write(request.trace) if request.trace else contextlib.nullcontext() as trace,
        atomic_write(request.predictions) if request.predictions else contextlib.nullcontext() as predictions,
        _open_searcher(opener, request, batches, reranker, trace=trace, predictions=predictions) as searcher,
        search_bar(len(topics), reranker=reranker, most_labels=most_labels, show=progress) as report,
    ):
        done = nothing = 0
        for ids, queries in batches:
            optimised, hits = searcher.batch_run(queries, [*map(str, ids)], request.hits, request.threads)
            with searcher.costs.stage("write"):
                for qid in ids:
                    write_hits(qid, hits[str(qid)])
            if request.output_queries:
                vectors.append(optimised)
            done += len(ids)
            nothing += sum(getattr(hits[str(qid)], "nothing", None) is not None for qid in ids)
            report(done, searcher.costs.pairs)
        if nothing:
            log.warning(
                "nothing found for %d of %d topics: no hit has the probability of --min-relevance", nothing, done
            )
        if request.output_queries:
            ids, queries = ([value for batch in batches for value in batch[column]] for column in (0, 1))
            write_encoded_queries(request.output_queries, ids, queries, np.concatenate(vectors))
    return _RunSummary(Path(str(request.output)), request.config, searcher.costs)


def _read_topics(request: SearchRequest) -> Any:
    """The topics, or those that are judged."""
    if not request.qrels:
        return read_topics(request.topics, request.topics_format)
    from tour_pyserini.data.judgements import read_qrels

    judged = {qrel.query_id for qrel in read_qrels(request.qrels)}
    topics = read_topics(request.topics, request.topics_format, only=judged)
    return topics.judged(judged, request.qrels)


def _batches(topics: Any, batch_size: int) -> list[_Batch]:
    """The ids and queries of each batch of topics, in their order."""
    try:
        pairs = list(topics)
    except KeyError as error:
        raise TourError(f"the topics have no field {error}; choose another --topics-format.") from error
    starts = range(0, len(pairs), batch_size)
    return [tuple(map(list, zip(*pairs[start : start + batch_size], strict=True))) for start in starts]  # type: ignore[misc]


def _open_searcher(
    opener: Opener, request: SearchRequest, batches: Sequence[_Batch], reranker: Any, **files: IO[str] | None
) -> contextlib.AbstractContextManager[Any]:
    """What searches the batches of a request: TouR in this process, or the workers of a Ray cluster."""
    if not request.ray:
        return contextlib.nullcontext(opener.searcher(request, reranker, **files))
    from tour_pyserini.ray_search import ray_searcher

    return ray_searcher(request, batches, reranker=reranker, **files)


def _recorded_flags(request: SearchRequest) -> dict[str, Any]:
    """The flags that make the same run again, without a password."""
    flags = request.flags()
    if request.cache:
        from tour_pyserini.rerankers.postgres_scores import without_password

        flags["cache"] = without_password(request.cache)
    return flags


def _signal_files(request: SearchRequest) -> dict[str, str | None]:
    """The files of further signals by role: `sparse`, `sparse 2`, ..., `index2`, ..., `run`, ..."""
    files = {f"sparse {number}": signal_files(spec) for number, spec in enumerate(request.sparse, 1)}
    files |= {f"index2 {number}": index for number, index in enumerate(request.index2, 1)}
    files |= {f"run {number}": path for number, path in enumerate(request.run, 1)}
    return {role.removesuffix(" 1"): path for role, path in files.items()}


def _check_outputs(request: SearchRequest) -> None:
    """Find out before the search, not after it, that everything can be written."""
    queries = f"{request.output_queries}/embedding.pkl" if request.output_queries else None
    record = None if is_stream(request.output) else record_path(str(request.output))
    given = (request.output, record, request.trace, request.predictions, queries)
    outputs = [Path(path).resolve() for path in given if path and not is_stream(path)]
    for number, path in enumerate(outputs):
        if path in outputs[:number]:
            raise TourError(f"the run, its record, the trace and the predictions cannot share {path.name}.")
        check_output(path, [request.topics, request.corpus, request.qrels, request.adapter, *request.run])


DESCRIPTION = """\
Search topics and write a run. Labels are kept in the score cache, so the same command continues an interrupted search
without paying for them again."""

EXAMPLES = """examples:
  python -m tour_pyserini.search --topics demo
  python -m tour_pyserini.search --topics scifact/queries.jsonl \\
      --index indexes/scifact --corpus scifact/corpus.jsonl --budget 30
  python -m tour_pyserini.search ... --method rerank --depth 30"""


def search_request(argv: Sequence[str] | None) -> SearchRequest:
    """The request that the command line describes; the command line of this process if `argv` is None."""
    parser = request_parser("search", SearchRequest, description=DESCRIPTION, epilog=EXAMPLES)
    add_config_flags(parser, "settings of TouR")
    return SearchRequest.from_flags(vars(parser.parse_args(argv)))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    summary = search(search_request(argv), progress=True)
    sys.stderr.write(f"{summary.output}: {summary.costs}\n")


if __name__ == "__main__":
    run(main)
