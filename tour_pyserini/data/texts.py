"""Texts from whatever names them."""

import os
from collections.abc import Mapping
from pathlib import Path

from tour_pyserini.data.beir_texts import BeirTexts, corpus_file
from tour_pyserini.data.lucene_texts import LuceneTexts
from tour_pyserini.errors import TourError


def open_texts(spec: Mapping[str, str] | str | os.PathLike[str]) -> Mapping[str, str]:
    """Open a mapping from docid to passage text.

    Args:
        spec: a mapping (returned as it is); a BEIR `corpus.jsonl`, or a folder that holds one; the folder of a
            Pyserini Lucene index that stores its documents; or the name of a prebuilt one.

    Example:
        texts = open_texts("collections/scifact")
        texts["4983"]
    """
    if isinstance(spec, Mapping):
        return spec
    path = Path(spec)
    if file := corpus_file(path):
        return BeirTexts(file)
    if path.is_dir():
        if not any(path.glob("segments_*")):
            raise TourError(f"{path} holds neither a corpus.jsonl nor a Lucene index; name the file or another folder.")
        return LuceneTexts.from_folder(path)
    # What looks like a path was meant as one: asking Pyserini to download it would end in an obscure message.
    if isinstance(spec, os.PathLike) or path.is_absolute() or path.suffix in {".jsonl", ".json", ".gz", ".tsv"}:
        raise TourError(f"there is no corpus {path}; give a BEIR corpus.jsonl or a Lucene index.")
    return LuceneTexts.from_prebuilt(spec)
