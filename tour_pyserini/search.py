"""Search topics and write a run: `python -m tour_pyserini.search`."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import QUERY_LENGTH, config_from
from tour_pyserini.cli.search_flags import reranker_options, search_parser
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.methods import METHODS
from tour_pyserini.data.records import predictions_path, write_record
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.phrase_searching import Opener, anew, check_phrase_flags, phrase_searcher
from tour_pyserini.support.files import atomic_write, cache_home, check_output


def main(argv: Sequence[str] | None = None, *, once: Opener = anew) -> None:
    """Run the command.

    Args:
        argv: the command's words; those of this process if not given.
        once: opens models, indexes and texts, as `once(make, *args, **options)`; a process that searches many times
            gives one that opens each of them once.
    """
    args = search_parser().parse_args(argv)
    config = config_from(args)
    if args.topics == "demo":
        _use_demo(args)
    _check_flags(args)
    if not args.index:
        raise TourError("--index is missing: give a FAISS index folder or the name of a prebuilt index.")
    phrases = check_phrase_flags(args)
    if METHODS[config.method].labels and not args.corpus:
        raise TourError(f"--corpus is missing: the method {config.method} reads the passages it labels.")
    output = args.output or f"runs/{_name(args.topics)}.{config.method}.trec"
    if phrases:
        args.predictions = args.predictions or str(predictions_path(output))
    _check_outputs(args, output)

    from tour_pyserini.data.qrels_file import read_qrels
    from tour_pyserini.data.runs import write_run
    from tour_pyserini.data.topics import judged_only, read_topics
    from tour_pyserini.encoders.encoded_queries import write_encoded_queries
    from tour_pyserini.pipeline.batches import Batch

    judged = {qrel.query_id for qrel in read_qrels(args.qrels)} if args.qrels else None
    topics = read_topics(args.topics, args.topics_format, only=judged)
    if judged is not None:
        topics = judged_only(topics, judged, source=args.qrels)
    reranker = _reranker(args, once) if METHODS[config.method].labels else None
    with _open_whole(args.trace) as trace, _open_whole(args.predictions) as predictions:
        if phrases:
            searcher = phrase_searcher(args, config, reranker, trace, predictions, once)
        else:
            searcher = _searcher(args, config, reranker, trace, once)
        kept: list[Batch] = []
        write_run(
            _batches(searcher, topics, args, kept),
            output,
            output_format=args.output_format,
            hits=args.hits,
            tag=args.tag or f"Tour-{config.method}",
            topics=topics.topics,
        )
    if args.output_queries:
        write_encoded_queries(
            args.output_queries,
            [id_ for batch in kept for id_ in batch.ids],
            [query for batch in kept for query in batch.queries],
            np.concatenate([batch.vectors for batch in kept]),
        )
    write_record(
        output,
        arguments={**vars(args), "output": output},
        config=config,
        files={"topics": args.topics, "index": args.index, "corpus": args.corpus, "qrels": args.qrels},
        models={"reranker": getattr(reranker, "fingerprint", None)},
        found={"similarity_scale": searcher.similarity_scale},
        costs=searcher.costs,
    )
    sys.stderr.write(f"{output}: {searcher.costs}\n")


def _name(topics: str) -> str:
    """A run's name from its topics: `scifact` for scifact/queries.jsonl, `nq` for nq.tsv."""
    path = Path(topics)
    first, *others = path.name.split(".")[: -1 if path.suffix else None]
    return ".".join([path.resolve().parent.name if first in ("queries", "topics") else first, *others])


def _check_flags(args: argparse.Namespace) -> None:
    """Refuse what contradicts itself."""
    if args.cache and args.no_cache:
        raise TourError("--cache and --no-cache contradict each other; give one of them.")
    if args.encoder and args.encoded_queries:
        raise TourError("--encoder and --encoded-queries both give the queries' vectors; give one of them.")
    if args.trace_vectors and not args.trace:
        raise TourError("--trace-vectors adds to the trace; give --trace FILE too.")
    if args.tag is not None and args.tag.split() != [args.tag]:
        raise TourError(f"--tag {args.tag!r} does not fit a run file: give one word.")
    if args.output_format == "kilt" and args.topics_format != "kilt":
        raise TourError("--output-format kilt adds to KILT's topics: give them with --topics-format kilt.")


def _check_outputs(args: argparse.Namespace, output: str) -> None:
    """Find out before the search, not after it, that everything can be written."""
    places = [
        output,
        args.trace,
        args.predictions,
        f"{args.output_queries}/embedding.pkl" if args.output_queries else None,
    ]
    given = [Path(place).resolve() for place in places if place]
    for number, place in enumerate(given):
        if place in given[:number]:
            raise TourError(f"the run, the trace and the predictions cannot share {place.name}; give each a name.")
    for place in given:
        check_output(place, [args.topics, args.corpus, args.qrels, args.config])


def _use_demo(args: argparse.Namespace) -> None:
    """The embedded collection in place of what was not given."""
    from tour_pyserini.demo import collection

    args.topics = str(collection.QUERIES)
    args.corpus = args.corpus or str(collection.CORPUS)
    args.output = args.output or f"runs/demo.{config_from(args).method}.trec"
    args.index = args.index or str(collection.demo_index())


def _reranker(args: argparse.Namespace, once: Opener) -> Any:
    from tour_pyserini.rerankers import CachedReranker, load_reranker

    reranker = once(load_reranker, args.reranker, **reranker_options(args))
    if args.no_cache:
        return reranker
    return once(CachedReranker, reranker, str(args.cache or cache_home() / "scores.sqlite"))


def _searcher(args: argparse.Namespace, config: TourConfig, reranker: Any, trace: Any, once: Opener) -> Any:
    from tour_pyserini.data.texts import open_texts
    from tour_pyserini.encoders.document_vectors import PassageVectors
    from tour_pyserini.encoders.encoded_queries import load_encoded_queries
    from tour_pyserini.encoders.encoder_loading import load_document_encoder, load_query_encoder
    from tour_pyserini.pipeline.encoder_options import encoder_options
    from tour_pyserini.searchers.opening import open_searcher
    from tour_pyserini.searchers.searcher import TourSearcher
    from tour_pyserini.stores.index_settings import check_vectors, read_index_settings

    chosen = once(encoder_options, args.index, args.encoder, pooling=args.pooling, l2_norm=args.l2_norm)
    options = {**chosen, "encoder_class": args.encoder_class, "device": args.device}
    if args.encoded_queries:
        encoder = once(load_encoded_queries, args.encoded_queries)
    else:
        options_of_queries = {"query_prefix": args.query_prefix, "max_length": args.max_length or QUERY_LENGTH}
        encoder = once(load_query_encoder, tokenizer=args.tokenizer, **options_of_queries, **options)
    inner = once(open_searcher, args.index, encoder, ef_search=args.ef_search)
    texts = once(open_texts, args.corpus) if args.corpus else None
    vectors = args.vectors
    if vectors == "encode":
        if texts is None:
            raise TourError("--corpus is missing: --vectors encode reads the passages it encodes.")
        made = read_index_settings(args.index)
        built: dict[str, Any] = {"max_length": made.max_length, "fields": made.fields} if made else {}
        encode = load_document_encoder(prefix=made.prefix if made else None, **options)
        vectors = PassageVectors(encode, docids=inner.docids, texts=texts, dimension=inner.dimension, **built)
    elif vectors is not None:
        check_vectors(args.index, vectors)
    return TourSearcher(
        inner,
        reranker,
        texts,
        config,
        vectors=vectors,
        remove_query=args.remove_query,
        observe=_observer(args, trace, inner.docids, labelled=METHODS[config.method].labels),
    )


def _observer(args: argparse.Namespace, file: Any, docids: Sequence[str], *, labelled: bool) -> Any:
    from tour_pyserini.searchers.trace import Trace

    return Trace(file, docids, labelled=labelled, vectors=args.trace_vectors) if file else None


def _batches(searcher: Any, topics: Any, args: argparse.Namespace, kept: list[Any]) -> Iterator[Any]:
    """Search in batches with a bar; what --output-queries needs is kept."""
    from tqdm import tqdm

    from tour_pyserini.pipeline.batches import search_topics

    with tqdm(total=len(topics), unit="query", disable=None) as bar:
        for batch in search_topics(searcher, topics, hits=args.hits, batch_size=args.batch_size, threads=args.threads):
            with searcher.costs.stage("write"):  # until the writer comes back for more
                yield batch
            if args.output_queries:
                kept.append(batch._replace(hits={}))
            bar.update(len(batch.ids))


@contextlib.contextmanager
def _open_whole(path: str | None) -> Iterator[Any]:
    if path is None:
        yield None
    else:
        with atomic_write(path) as file:
            yield file


if __name__ == "__main__":
    run(main)
