"""The file `docid` of an index: one docid per line, in the order of the vectors."""

from pathlib import Path

from tour_pyserini.errors import TourError


def read_docids(path: Path) -> list[str]:
    """Read the docids; white space at the end of a line is ignored, as Pyserini ignores it.

    Raises:
        TourError: if the file cannot be read, or a docid is empty, not UTF-8 or has white space in it; the message
            names the line.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise TourError(f"cannot read {path}: {error.strerror}.") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TourError(f"{path}, line {line} is not UTF-8; build the index again.") from None
    lines = text.removesuffix("\n").split("\n") if text else []
    docids = text.split()
    if docids != lines:  # compared as a whole, because an index has millions of lines
        docids = [line.rstrip() for line in lines]
        for number, docid in enumerate(docids, start=1):
            if docid.split() != [docid]:
                what = f"has white space in the docid {docid!r:.100}" if docid else "has no docid"
                raise TourError(f"{path}, line {number} {what}, which no run file can hold; build the index again.")
    return docids
