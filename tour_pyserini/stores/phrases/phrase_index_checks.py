"""Checks that a phrase index was built from the given corpus and with the given encoder."""

import os
from pathlib import Path
from typing import Any

from tour_pyserini.data.beir_texts import corpus_file
from tour_pyserini.data.packed_files import plain_file
from tour_pyserini.errors import TourError
from tour_pyserini.stores.phrases.phrase_index import read_settings
from tour_pyserini.support.memo import content_hash


def check_corpus(folder: str | os.PathLike[str], corpus: str | os.PathLike[str]) -> None:
    """Check that a corpus file is the one that the index was built from; otherwise phrases would be the wrong words.

    A corpus that is not a file, such as a Lucene index, is not checked.

    Raises:
        TourError: if the file has another checksum.
    """
    file = corpus_file(Path(corpus))
    if file is not None and content_hash(plain_file(file)) != read_settings(folder)["corpus_sha256"]:
        raise TourError(
            f"the index {folder} was made from another corpus than {corpus}; "
            "give the corpus of the index, or build the index again."
        )


def fits(folder: str | os.PathLike[str], encoder: Any) -> bool:
    """Whether a phrase encoder built the index; a checkpoint with only query encoders fits every index."""
    return encoder.fingerprint() in (None, read_settings(folder)["encoder_fingerprint"])


def check_encoder(folder: str | os.PathLike[str], encoder: Any, name: str) -> None:
    """Check that a phrase encoder built the index.

    Raises:
        TourError: if another one built it; `name` is the encoder's name in the message.
    """
    if not fits(folder, encoder):
        raise TourError(f"{folder} was not built with {name}; give the encoder that built it.")
