"""Flags that several commands share: Pyserini's own, and one for each setting."""

import argparse
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from tour_pyserini.core.config import TourConfig
from tour_pyserini.core.presets import PRESETS, preset_for
from tour_pyserini.errors import TourError

QUERY_LENGTH = 256
PRF_METHODS = {"avg": "average", "rocchio": "rocchio"}


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps an example's lines and shows defaults that are worth showing."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        shown = action.default not in (None, argparse.SUPPRESS, False, [])
        return f"{text} (default: %(default)s)" if shown and "default" not in text else text


def positive(text: str) -> int:
    """The type of a flag that counts something."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value


def settle(args: argparse.Namespace, own: Mapping[str, Any], others: Iterable[str], *, why: str) -> None:
    """Give flags that were not given (None) their defaults, and refuse those that would be ignored.

    Args:
        args: what was given; is changed.
        own: the defaults of the flags that count here, by name.
        others: the flags that do not.
        why: the rest of the sentence that begins with such a flag.
    """
    for name in others:
        if getattr(args, name) is not None:
            raise TourError(f"--{name.replace('_', '-')} {why}")
    for name, default in own.items():
        if getattr(args, name) is None:
            setattr(args, name, default)


def add_encoder_flags(parser: argparse._ArgumentGroup) -> None:
    """The query encoder, with Pyserini's names and meanings."""
    parser.add_argument(
        "--encoder",
        metavar="NAME",
        help="query encoder: a name, a folder, or `default`; if not given, what built the index",
    )
    parser.add_argument("--encoder-class", metavar="CLASS", help="Pyserini's encoder class; inferred if not given")
    parser.add_argument("--tokenizer", metavar="NAME", help="tokenizer, if not the encoder's own")
    parser.add_argument("--pooling", choices=["cls", "mean", "last", "eos"], help="pooling of an encoder of class auto")
    parser.add_argument("--l2-norm", action=argparse.BooleanOptionalAction, help="normalise vectors to unit length")
    parser.add_argument("--query-prefix", metavar="TEXT", help="put before each query when it is encoded")
    parser.add_argument("--max-length", type=positive, metavar="N", help=f"tokens of a query (default: {QUERY_LENGTH})")
    parser.add_argument(
        "--encoded-queries", metavar="DIR", help="vectors of queries instead of an encoder: a folder or a name"
    )
    parser.add_argument("--device", default="cpu", help="device of encoder and re-ranker: cpu, cuda:0, ...")


def add_config_flags(parser: argparse._ArgumentGroup) -> None:
    """`--preset`, `--config`, and one flag for each field of TourConfig."""
    parser.add_argument("--preset", choices=list(PRESETS), help="start from these settings")
    parser.add_argument("--config", metavar="FILE", help="start from a TOML file of settings")
    for field in dataclasses.fields(TourConfig):
        flag, text = "--" + field.name.replace("_", "-"), f"{field.metadata['help']} (default: {field.default})"
        if isinstance(field.default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            parser.add_argument(flag, metavar=field.name.split("_")[-1].upper(), help=text)
    parser.add_argument(
        "--prf-depth",
        type=int,
        default=0,
        metavar="N",
        help="Pyserini's: feedback from this many passages; sets --depth",
    )
    parser.add_argument("--prf-method", choices=list(PRF_METHODS), default="avg", help="Pyserini's, with --prf-depth")
    parser.add_argument("--rocchio-topk", type=int, metavar="N", help="Pyserini's name for --positives")


def config_from(args: argparse.Namespace) -> TourConfig:
    """The settings that the flags of `add_config_flags` describe."""
    if args.prf_depth and args.depth is not None:
        raise TourError("--depth and --prf-depth are two names of one setting; give one of them.")
    if args.preset and args.config:
        raise TourError("--preset and --config both say where to start; give one of them.")
    given: dict[str, Any] = {"depth": args.prf_depth or None, "positives": args.rocchio_topk}
    if args.prf_depth and not (args.preset or args.config):
        given["method"] = PRF_METHODS[args.prf_method]
    given |= {
        field.name: value
        for field in dataclasses.fields(TourConfig)
        if (value := getattr(args, field.name)) is not None
    }
    if args.config:
        base = TourConfig.load(args.config)
    elif args.preset:
        base = TourConfig.preset(args.preset)
    else:
        base = preset_for(str(given.get("method", TourConfig.method)))
    return base.replace(**{name: value for name, value in given.items() if value is not None})
