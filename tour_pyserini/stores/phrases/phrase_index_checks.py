"""Whether a phrase index belongs together with a corpus and with an encoder."""

import os
from pathlib import Path
from typing import Any

from tour_pyserini.data.beir_texts import corpus_file
from tour_pyserini.errors import TourError
from tour_pyserini.stores.phrases.phrase_index import read_settings
from tour_pyserini.support.files import sha256


def check_corpus(folder: str | os.PathLike[str], corpus: str | os.PathLike[str]) -> None:
    """Refuse a file of passages that the index was not made from: its phrases would be other words there.

    Passages that are no file, such as those of a Lucene index, are taken as they are.
    """
    file = corpus_file(Path(corpus))
    if file is not None and sha256(file) != read_settings(folder)["corpus_sha256"]:
        raise TourError(f"{folder} was made from another corpus than {corpus}; give that one, or build it again.")


def fits(folder: str | os.PathLike[str], encoder: Any) -> bool:
    """Whether a phrase encoder is the one that made the index; query encoders alone fit any."""
    return encoder.fingerprint() in (None, read_settings(folder)["encoder_fingerprint"])


def check_encoder(folder: str | os.PathLike[str], encoder: Any, name: str) -> None:
    """Refuse to learn from an index that another phrase encoder made."""
    if not fits(folder, encoder):
        raise TourError(f"{folder} was not built with {name}; give the encoder that built it.")
