"""Search topics and write a run, with Pyserini's own flags and one for each setting of TouR.

Scores of the re-ranker are kept, so an interrupted search goes on where it was when the same command is given again.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.arguments import Help, add_config_flags, add_encoder_flags, config_from
from tour_pyserini.command import run
from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.methods import METHODS
from tour_pyserini.errors import TourError
from tour_pyserini.files import cache_home, written_whole
from tour_pyserini.record import write_record

EXAMPLES = """examples:
  python -m tour_pyserini.search --topics demo
  python -m tour_pyserini.search --topics scifact/queries.jsonl --qrels scifact/qrels/test.tsv \\
      --index indexes/scifact --corpus scifact/corpus.jsonl --output runs/scifact.hard.trec
  python -m tour_pyserini.search ... --method rerank --depth 40
  python -m tour_pyserini.search ... --preset paper-passages-dpr --reranker cross-encoder/ms-marco-MiniLM-L-6-v2"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = parser().parse_args(argv)
    config = config_from(args)
    if args.topics == "demo":
        _use_demo(args)
    if not args.index:
        raise TourError("--index is missing: give a FAISS index folder or the name of a prebuilt index.")
    if METHODS[config.method].labels and not args.corpus:
        raise TourError(f"--corpus is missing: the method {config.method} reads the passages it labels.")
    output = args.output or f"runs/{Path(args.topics).name.partition('.')[0]}.{config.method}.trec"

    from tour_pyserini.evaluation.files import read_qrels
    from tour_pyserini.plugs.encoded_queries import write_encoded_queries
    from tour_pyserini.plugs.run import Batch, write_run
    from tour_pyserini.topics import judged_only, read_topics

    topics = read_topics(args.topics, args.topics_format)
    if args.qrels:
        topics = judged_only(topics, {qrel.query_id for qrel in read_qrels(args.qrels)}, source=args.qrels)
    reranker = _reranker(args) if METHODS[config.method].labels else None
    with _open_trace(args.trace) as trace:
        searcher = _searcher(args, config, reranker, trace)
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
        costs=searcher.costs,
    )
    sys.stderr.write(f"{output}: {searcher.costs}\n")


def parser() -> argparse.ArgumentParser:
    """The command's flags."""
    result = argparse.ArgumentParser(
        prog="python -m tour_pyserini.search",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=Help,
        allow_abbrev=False,
    )
    inputs = result.add_argument_group("what is searched")
    inputs.add_argument(
        "--topics", required=True, help="topics: a file (TSV, DPR, BEIR queries.jsonl), a Pyserini name, or `demo`"
    )
    inputs.add_argument("--topics-format", default="default", metavar="FORMAT", help="Pyserini's format of topics")
    inputs.add_argument("--qrels", metavar="FILE", help="search only the topics judged in this TREC or BEIR file")
    inputs.add_argument("--index", metavar="DIR", help="FAISS index folder, or the name of a prebuilt index")
    inputs.add_argument(
        "--corpus", metavar="FILE", help="passages: BEIR corpus.jsonl, Lucene index folder or prebuilt name"
    )
    inputs.add_argument(
        "--vectors", metavar="DIR", help="exact vectors for an index that compresses: an encoded corpus, or `encode`"
    )
    inputs.add_argument("--ef-search", type=int, metavar="N", help="efSearch of an HNSW index")
    inputs.add_argument("--remove-query", action="store_true", help="never retrieve the document that is the query")

    outputs = result.add_argument_group("what is written")
    outputs.add_argument("--output", metavar="RUN", help="the run file (default: runs/TOPICS.METHOD.trec)")
    outputs.add_argument(
        "--output-format", default="trec", choices=["trec", "msmarco", "kilt"], help="format of the run"
    )
    outputs.add_argument(
        "--output-queries", metavar="DIR", help="optimised query vectors, for Pyserini's --encoded-queries"
    )
    outputs.add_argument(
        "--trace", metavar="FILE", help="JSON lines: candidates, scores, labels of each query and iteration"
    )
    outputs.add_argument("--hits", type=int, default=1000, metavar="N", help="hits per topic")
    outputs.add_argument("--tag", help="the run's tag (default: Tour-METHOD)")

    work = result.add_argument_group("how it works")
    work.add_argument("--batch-size", type=int, default=64, metavar="N", help="topics that advance together")
    work.add_argument("--threads", type=int, default=1, metavar="N", help="threads of search")
    add_encoder_flags(work)

    labels = result.add_argument_group("where labels come from")
    labels.add_argument(
        "--reranker", default="default", help="a cross-encoder's name or folder, or `default` (ms-marco-MiniLM-L-12-v2)"
    )
    labels.add_argument(
        "--reranker-threads", type=int, metavar="N", help="threads of the re-ranker (default: all cores)"
    )
    labels.add_argument(
        "--reranker-max-length", type=int, default=512, metavar="N", help="tokens of a query and a passage"
    )
    labels.add_argument(
        "--cache", metavar="FILE", help="where scores are kept (default: scores.sqlite in the cache folder)"
    )
    labels.add_argument("--no-cache", action="store_true", help="keep no scores")

    add_config_flags(result.add_argument_group("settings of TouR"))
    return result


def _use_demo(args: argparse.Namespace) -> None:
    """The embedded collection in place of what was not given."""
    from tour_pyserini.demo import collection

    args.topics = str(collection.QUERIES)
    args.corpus = args.corpus or str(collection.CORPUS)
    args.output = args.output or f"runs/demo.{config_from(args).method}.trec"
    args.index = args.index or str(collection.demo_index())


def _reranker(args: argparse.Namespace) -> Any:
    from tour_pyserini.rerankers import CachedReranker, load_reranker

    reranker = load_reranker(
        args.reranker, max_length=args.reranker_max_length, device=args.device, threads=args.reranker_threads
    )
    if args.no_cache:
        return reranker
    return CachedReranker(reranker, args.cache or cache_home() / "scores.sqlite")


def _searcher(args: argparse.Namespace, config: TourConfig, reranker: Any, trace: Any) -> Any:
    from tour_pyserini.plugs.encoded_queries import load_encoded_queries
    from tour_pyserini.plugs.encoders import load_document_encoder, load_query_encoder
    from tour_pyserini.plugs.index_settings import encoder_options, read_index_settings
    from tour_pyserini.plugs.opening import open_searcher
    from tour_pyserini.plugs.passage_vectors import PassageVectors
    from tour_pyserini.plugs.searcher import TourSearcher
    from tour_pyserini.plugs.trace import Trace
    from tour_pyserini.texts import open_texts

    options = encoder_options(args.index, args.encoder, pooling=args.pooling, l2_norm=args.l2_norm)
    options |= {"encoder_class": args.encoder_class, "device": args.device}
    if args.encoded_queries:
        encoder = load_encoded_queries(args.encoded_queries)
    else:
        encoder = load_query_encoder(
            query_prefix=args.query_prefix, max_length=args.max_length, tokenizer=args.tokenizer, **options
        )
    inner = open_searcher(args.index, encoder, ef_search=args.ef_search)
    texts = open_texts(args.corpus) if args.corpus else None
    vectors = args.vectors
    if vectors == "encode":
        if texts is None:
            raise TourError("--corpus is missing: --vectors encode reads the passages it encodes.")
        made = read_index_settings(args.index)
        vectors = PassageVectors(
            load_document_encoder(prefix=made.prefix if made else None, **options),
            docids=inner.docids,
            texts=texts,
            dimension=inner.dimension,
            max_length=made.max_length if made else 256,
        )
    return TourSearcher(
        inner,
        reranker,
        texts,
        config,
        vectors=vectors,
        remove_query=args.remove_query,
        observe=Trace(trace, inner.docids, labelled=METHODS[config.method].labels) if trace else None,
    )


def _batches(searcher: Any, topics: Any, args: argparse.Namespace, kept: list[Any]) -> Iterator[Any]:
    """Search in batches with a bar; what --output-queries needs is kept."""
    from tqdm import tqdm

    from tour_pyserini.plugs.run import search_topics

    with tqdm(total=len(topics), unit="query", disable=None) as bar:
        for batch in search_topics(searcher, topics, hits=args.hits, batch_size=args.batch_size, threads=args.threads):
            yield batch
            if args.output_queries:
                kept.append(batch._replace(hits={}))
            bar.update(len(batch.ids))


@contextlib.contextmanager
def _open_trace(path: str | None) -> Iterator[Any]:
    if path is None:
        yield None
    else:
        with written_whole(path) as file:
            yield file


if __name__ == "__main__":
    run(main)
