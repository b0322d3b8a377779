"""The part of a document in which answers are looked for: its text on one line, without the title."""

from collections.abc import Iterator, Mapping

from tour_pyserini.errors import TourError
from tour_pyserini.texts.beir import BeirTexts
from tour_pyserini.texts.passage import Passage


def title_and_text(passage: str) -> tuple[str, str]:
    """Both on one line each, as the passages of DPR's Wikipedia are; a plain string is all text.

    Pyserini's evaluation reads `title`, a line break and `text`, and nothing after a second line break.
    """
    title, text = passage.parts if isinstance(passage, Passage) else ("", str(passage))
    return title.replace("\n", " "), text.replace("\n", " ")


def answer_text(passage: str) -> str:
    """The text in which answers are looked for."""
    return title_and_text(passage)[1]


def all_answer_texts(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Docid and text of every document of a corpus, in its order."""
    if isinstance(texts, BeirTexts):  # reads the file from beginning to end, without look-ups
        found = ((document.docid, document.text.replace("\n", " ")) for document in texts.records())
    else:
        found = ((docid, answer_text(passage)) for docid, passage in texts.items())
    for docid, text in found:
        if docid.split() != [docid]:
            raise TourError(f"{texts!r} has white space in the document id {docid!r}, which no qrels file can hold.")
        yield docid, text
