"""Open a collection of passages: a BEIR corpus or a Lucene index."""

import os
from collections.abc import Mapping
from pathlib import Path

from tour_pyserini.data.beir_texts import BeirTexts, corpus_file
from tour_pyserini.data.lucene_texts import LuceneTexts, open_lucene
from tour_pyserini.data.packed_files import PACKED
from tour_pyserini.errors import TourError
from tour_pyserini.support.pyserini_names import may_be_prebuilt


def open_texts(spec: Mapping[str, str] | str | os.PathLike[str]) -> Mapping[str, str]:
    """Open a mapping from docid to passage text.

    Args:
        spec: a mapping (returned unchanged); the path of a BEIR `corpus.jsonl`, or of the folder that contains it; the
            folder of a Pyserini Lucene index that stores its documents; or the name of a prebuilt Lucene index.

    Example:
        texts = open_texts("collections/scifact")
        texts["4983"]
    """
    if isinstance(spec, Mapping):
        return spec
    if not isinstance(spec, str | os.PathLike):
        raise TourError(
            "the passages must be a mapping from docid to text, a corpus file or a Lucene index, "
            f"not {type(spec).__name__}."
        )
    path = Path(spec)
    if file := corpus_file(path):
        return BeirTexts(file)
    if path.is_dir():
        if not is_lucene_index(path):
            raise TourError(
                f"{path} contains neither a corpus.jsonl nor a Lucene index; give the corpus file or another folder."
            )
    else:
        check_texts(spec)
    return LuceneTexts(open_lucene(os.fspath(spec)), os.fspath(spec))


def is_lucene_index(folder: Path) -> bool:
    """Whether a folder holds a Lucene index."""
    return any(folder.glob("segments_*"))


def check_texts(spec: str | os.PathLike[str]) -> None:
    """Refuse a corpus that does not exist, without opening it and without importing Pyserini.

    Args:
        spec: a path or a name, as in `open_texts`.
    """
    path = Path(spec)
    if path.exists():
        return
    # Something that looks like a path is not sent to Pyserini, whose error message would be about a failed download.
    if isinstance(spec, os.PathLike) or path.is_absolute() or path.suffix in {".jsonl", ".json", ".tsv", *PACKED}:
        raise TourError(f"corpus not found: {path}; give a BEIR corpus.jsonl or a Lucene index.")
    if not may_be_prebuilt(str(spec)):
        raise TourError(f"not found: {spec!r} is not a file, a folder or one of Pyserini's prebuilt Lucene indexes.")
