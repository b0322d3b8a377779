"""Writers of run files, with the interface and the bytes of Pyserini's own writers."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Self

from tour_pyserini.support.java import ensure_java


class TextWriter:
    """Opens and closes the file, and numbers the hits of a topic; a format of lines adds `write`."""

    _file: IO[str]

    def __init__(self, path: str | os.PathLike[str], *, hits: int, tag: str, topics: Mapping[Any, Any] | None) -> None:
        self._path, self._hits, self._tag = path, hits, tag

    def __enter__(self) -> Self:
        self._file = open(self._path, "w", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _ranked(self, hits: Sequence[Any]) -> Iterator[tuple[int, str, float]]:
        """Rank, docid and score of the hits that are written."""
        return ((rank, hit.docid.strip(), hit.score) for rank, hit in enumerate(hits[: self._hits], start=1))


class TrecWriter(TextWriter):
    """Writes lines `topic Q0 docid rank score tag`."""

    def write(self, topic: Any, hits: Sequence[Any]) -> None:
        """Write the hits of a topic, best first."""
        for rank, docid, score in self._ranked(hits):
            self._file.write(f"{topic} Q0 {docid} {rank} {score:.6f} {self._tag}\n")


class MsMarcoWriter(TextWriter):
    """Writes lines `topic docid rank`, separated by tabs."""

    def write(self, topic: Any, hits: Sequence[Any]) -> None:
        """Write the hits of a topic, best first."""
        for rank, docid, _ in self._ranked(hits):
            self._file.write(f"{topic}\t{docid}\t{rank}\n")


def kilt_writer(path: str | os.PathLike[str], *, hits: int, tag: str, topics: Mapping[Any, Any] | None) -> Any:
    """Pyserini's writer, which adds the hits to KILT's topics."""
    ensure_java()
    from pyserini.output_writer import OutputFormat, get_output_writer

    return get_output_writer(str(path), OutputFormat.KILT, "w", max_hits=hits, tag=tag, topics=topics)
