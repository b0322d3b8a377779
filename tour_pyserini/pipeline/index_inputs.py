"""What the index command is given, opened and checked."""

from pathlib import Path

from tour_pyserini.data.beir_texts import BeirTexts, corpus_file
from tour_pyserini.encoders.model_folder import DEFAULT
from tour_pyserini.errors import TourError


def open_corpus(path: Path) -> BeirTexts:
    """The corpus at a path, whose ids a run file can hold."""
    file = corpus_file(path)
    if file is None:
        raise TourError(f"there is no corpus {path}; give a corpus.jsonl, or a folder that holds one.")
    corpus = BeirTexts(file)
    for docid in corpus:
        if docid.split() != [docid]:
            raise TourError(f"{file} has white space in the document id {docid!r}, which no run file can hold.")
    return corpus


def findable(encoder: str) -> str:
    """A folder by its absolute path, which holds wherever the index is searched from; a name as it is."""
    folder = Path(encoder)
    return str(folder.resolve()) if encoder != DEFAULT and folder.is_dir() else encoder
