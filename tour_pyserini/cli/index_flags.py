"""What the index command can be told."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tour_pyserini.cli.flags import settle
from tour_pyserini.errors import TourError

EXAMPLE = """\
example:
  python -m tour_pyserini.index --corpus collections/scifact --encoder default --index indexes/scifact

An interrupted run leaves INDEX.partial; the same command goes on from there. The index appears when it is complete,
and Pyserini reads it too: FaissSearcher("indexes/scifact", query_encoder).
"""


# The flags of one kind of index alone, with their defaults.
PASSAGES: dict[str, Any] = {"batch_size": 64, "M": 256, "efC": 256}
PHRASES: dict[str, Any] = {"kind": "flat", "nlist": 256, "nprobe": 16, "dtype": "float16", "filter_threshold": None}


def index_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The words of the command, read, with every default.

    Raises:
        TourError: if a flag was given that its kind of index would ignore.
    """
    args = index_parser().parse_args(argv)
    if not args.phrases:
        settle(args, PASSAGES, PHRASES, why="is for phrases alone: add --phrases, or leave it out.")
        return args
    settle(args, PHRASES, PASSAGES, why="is not for --phrases: leave it out.")
    if "text" not in args.fields:
        raise TourError("--fields title leaves no text that phrases could stand in; add text.")
    return args


def index_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.index`, with Pyserini's names and defaults where it has them."""
    parser = argparse.ArgumentParser(
        prog="python -m tour_pyserini.index",
        description="Encode a corpus into a FAISS index that this package and Pyserini search.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--corpus", type=Path, required=True, help="a BEIR corpus.jsonl (_id, title, text), or a folder that holds one")
    add("--index", type=Path, required=True, help="the folder of the index, made when it is complete")
    vectors = "an exact index of the same corpus and encoder, whose vectors are taken instead of encoding again"
    add("--vectors", type=Path, metavar="DIR", help=vectors)
    add("--overwrite", action="store_true", help="replace an index that is there, once the new one is complete")

    group = parser.add_argument_group("encoder")
    add = group.add_argument
    add("--encoder", default="default", help="default (all-MiniLM-L6-v2), a folder, or a name on the model hub")
    add("--encoder-class", help="Pyserini's keyword: auto, dpr, ance, tct_colbert, contriever, ...")
    add("--pooling", choices=["cls", "mean"], help="for the class auto (default: what the folder declares, or cls)")
    l2_norm = "vectors of unit norm, for the class auto (default: what the folder declares, or not)"
    add("--l2-norm", action=argparse.BooleanOptionalAction, help=l2_norm)
    add("--prefix", help='put before every document, e.g. "passage:"')
    add("--fields", nargs="+", choices=["title", "text"], default=["title", "text"], help="default: title text")
    max_length = "tokens of a document that are read (default: 256, or the model's positions where they are fewer)"
    add("--max-length", type=_positive, help=max_length)
    add("--batch-size", type=_positive, help="documents encoded at once (default: 64)")
    add("--device", default="cpu", help="cpu, cuda:0, ... (default: cpu)")
    add("--threads", type=_positive, help="at most this many (default: all processors)")

    group = parser.add_argument_group("index", "Without --hnsw or --pq the index is exact (flat inner product).")
    kinds = group.add_mutually_exclusive_group()
    kinds.add_argument("--hnsw", action="store_true", help="a graph: fast, approximate search")
    kinds.add_argument("--pq", action="store_true", help="product quantisation: small, with approximate vectors")
    add = group.add_argument
    add("--M", type=_positive, help="HNSW: neighbours of a node (default: 256)")
    add("--efC", type=_positive, help="HNSW: candidates considered for them (default: 256)")
    add("--pq-m", type=_positive, default=192, help="PQ: parts of a vector (default: 192)")
    add("--pq-nbits", type=_positive, default=8, help="PQ: bits of a part (default: 8)")
    _add_phrase_flags(parser)
    return parser


def _add_phrase_flags(parser: argparse.ArgumentParser) -> None:
    about = "One vector per token, for answers straight from the index; --encoder is then a phrase encoder's folder."
    add = parser.add_argument_group("phrases", about).add_argument
    add("--phrases", action="store_true", help="index phrases")
    kinds = "flat is exact; ivf looks into some lists alone; ivfpq keeps codes (--pq-m, --pq-nbits)"
    add("--kind", choices=["flat", "ivf", "ivfpq"], help=f"{kinds} (default: flat)")
    add("--nlist", type=_positive, help="lists of an inverted file (default: 256)")
    add("--nprobe", type=_positive, help="lists that a search looks into (default: 16)")
    add("--dtype", choices=["float16", "float32"], help="of token vectors (default: float16)")
    threshold = "filter logits above which tokens are kept; -inf keeps all (default: the encoder's own)"
    add("--filter-threshold", type=float, metavar="X", help=threshold)


def _positive(written: str) -> int:
    value = int(written)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{written} is not a positive number")
    return value
