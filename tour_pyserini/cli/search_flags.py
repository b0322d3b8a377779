"""What the search command can be told."""

import argparse
from typing import Any

from tour_pyserini.cli.flags import Help, add_config_flags, add_encoder_flags, positive
from tour_pyserini.pipeline.phrase_searching import add_phrase_flags

ABOUT = """\
Search topics and write a run, with Pyserini's own flags and one for each setting of TouR. Scores of the re-ranker are
kept, so an interrupted search goes on where it was when the same command is given again."""

EXAMPLES = """examples:
  python -m tour_pyserini.search --topics demo
  python -m tour_pyserini.search --topics scifact/queries.jsonl --qrels scifact/qrels/test.tsv \\
      --index indexes/scifact --corpus scifact/corpus.jsonl --output runs/scifact.trec
  python -m tour_pyserini.search ... --method rerank --depth 40
  python -m tour_pyserini.search ... --preset paper-passages-dpr --reranker cross-encoder/ms-marco-MiniLM-L-6-v2"""


def reranker_options(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags say of how a re-ranker is run, as `load_reranker` takes it."""
    return {
        "max_length": args.reranker_max_length,
        "device": args.device,
        "threads": args.reranker_threads,
        "backend": args.backend,
        "precision": args.precision,
    }


def search_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.search`."""
    result = argparse.ArgumentParser(
        prog="python -m tour_pyserini.search",
        description=ABOUT,
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
    inputs.add_argument("--ef-search", type=positive, metavar="N", help="efSearch of an HNSW index")
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
    outputs.add_argument(
        "--trace-vectors",
        action="store_true",
        help="the trace holds query vectors too, for python -m tour_pyserini.page",
    )
    outputs.add_argument("--hits", type=positive, default=1000, metavar="N", help="hits per topic")
    outputs.add_argument("--tag", help="the run's tag (default: Tour-METHOD)")

    work = result.add_argument_group("how it works")
    work.add_argument("--batch-size", type=positive, default=64, metavar="N", help="topics that advance together")
    work.add_argument("--threads", type=positive, default=1, metavar="N", help="threads of search")
    add_encoder_flags(work)

    labels = result.add_argument_group("where labels come from")
    labels.add_argument(
        "--reranker", default="default", help="a cross-encoder's name or folder, or `default` (ms-marco-MiniLM-L-12-v2)"
    )
    labels.add_argument(
        "--reranker-threads", type=positive, metavar="N", help="threads of the re-ranker (default: all cores)"
    )
    labels.add_argument(
        "--reranker-max-length", type=positive, default=512, metavar="N", help="tokens of a query and a passage"
    )
    labels.add_argument(
        "--backend", default="auto", choices=["auto", "onnx", "torch"], help="what runs a cross-encoder's checkpoint"
    )
    labels.add_argument(
        "--precision", choices=["fp32", "int8"], help="int8 is faster and gives other scores (default: the model's own)"
    )
    labels.add_argument(
        "--cache", metavar="FILE", help="where scores are kept (default: scores.sqlite in the cache folder)"
    )
    labels.add_argument("--no-cache", action="store_true", help="keep no scores")

    add_phrase_flags(result.add_argument_group("phrases", "For an index made with --phrases, which is recognised."))
    add_config_flags(result.add_argument_group("settings of TouR"))
    return result
