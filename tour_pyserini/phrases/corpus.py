"""Whether a phrase index and a corpus belong together."""

import os
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.files import sha256
from tour_pyserini.phrases.index import read_settings
from tour_pyserini.texts.beir import corpus_file


def check_corpus(folder: str | os.PathLike[str], corpus: str | os.PathLike[str]) -> None:
    """Refuse a file of passages that the index was not made from: its phrases would be other words there.

    Passages that are no file, such as those of a Lucene index, are taken as they are.
    """
    file = corpus_file(Path(corpus))
    if file is not None and sha256(file) != read_settings(folder)["corpus_sha256"]:
        raise TourError(f"{folder} was made from another corpus than {corpus}; give that one, or build it again.")


def check_encoder(folder: str | os.PathLike[str], encoder: Any, name: str) -> None:
    """Refuse to learn from an index that another phrase encoder made; query encoders alone fit any."""
    if encoder.fingerprint() not in (None, read_settings(folder)["encoder_fingerprint"]):
        raise TourError(f"{folder} was not built with {name}; give the encoder that built it.")
