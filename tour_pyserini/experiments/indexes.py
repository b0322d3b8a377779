"""The indexes of an experiment: built, or checked where they are there."""

import argparse
import json
from pathlib import Path
from typing import Any

from tour_pyserini.data.records import PASSAGE_INDEX, PHRASE_INDEX
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.archive import digests
from tour_pyserini.stores.phrases.phrase_index import read_settings


def make_index(folder: Path, argv: list[str]) -> None:
    """Build an index, or see that the one which is there is the one that the words describe."""
    from tour_pyserini.cli.index_flags import index_arguments
    from tour_pyserini.index import main as build

    args = index_arguments(argv)
    if not (folder / (PHRASE_INDEX if args.phrases else PASSAGE_INDEX)).is_file():
        build(argv)
        return
    made = read_settings(folder) if args.phrases else _passage_settings(folder)
    if made["corpus_sha256"] != digests({"corpus": Path(args.corpus)})["corpus"]:
        raise TourError(f"{folder} was built from another corpus than {args.corpus}; remove it, or give --indexes DIR.")
    wanted = _phrase_wishes(args) if args.phrases else _passage_wishes(args)
    for name, value in wanted.items():
        if made[name] != value:
            what = "kind of index" if name == "index" else name
            raise TourError(f"{folder} was built with another {what}; remove it, or give --indexes DIR.")


def _passage_settings(folder: Path) -> dict[str, Any]:
    made = json.loads((folder / PASSAGE_INDEX).read_text(encoding="utf-8"))
    return {**made["settings"], "index": made["index"]}


def _passage_wishes(args: argparse.Namespace) -> dict[str, Any]:
    from tour_pyserini.encoders.encoder_loading import encoder_fingerprint
    from tour_pyserini.index import index_kind

    given = ("pooling", "l2_norm", "max_length")
    wanted = {"encoder_fingerprint": encoder_fingerprint(args.encoder), "prefix": args.prefix}
    wanted |= {name: getattr(args, name) for name in given if getattr(args, name) is not None}
    return {**wanted, "index": index_kind(args)}


def _phrase_wishes(args: argparse.Namespace) -> dict[str, Any]:
    from tour_pyserini.pipeline.index_inputs import open_corpus
    from tour_pyserini.pipeline.phrase_indexing import phrase_index_encoder, phrase_index_kind, phrase_index_settings

    settings = phrase_index_settings(args, open_corpus(args.corpus), phrase_index_encoder(args))
    # Where the encoder's folder lies, and how many passages were encoded at once, change nothing.
    wanted = {name: value for name, value in settings.items() if name not in ("encoder", "chunk")}
    return {**wanted, "index": phrase_index_kind(args)}
