"""Formats of run files: a writer for each name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from tour_pyserini.data.run_writers import MsMarcoWriter, TrecWriter, kilt_writer
from tour_pyserini.errors import TourError


class RunWriter(Protocol):
    """Writes the hits of one topic after the other; a context manager that closes its file."""

    def __enter__(self) -> Any:
        """Open the file."""
        ...

    def __exit__(self, *error: Any) -> Any:
        """Close the file."""
        ...

    def write(self, topic: Any, hits: list[Any]) -> Any:
        """Write the hits of a topic, given by its id; hits have `docid` and `score` and are in order."""
        ...


OpenWriter = Callable[..., RunWriter]
"""Called as `open_writer(path, hits=..., tag=..., topics=...)`: the path as text, the most hits per topic, the run's
tag, and the topics by id (None if unknown)."""


_formats: dict[str, OpenWriter] = {
    "trec": TrecWriter,
    "msmarco": MsMarcoWriter,
    "kilt": kilt_writer,
}
# To add a format, write a writer in a new file (a subclass of `TextWriter` in data/run_writers.py, if the format has
# lines), import it, and add a line above.

JOINABLE = ("trec", "msmarco", "kilt")
"""Formats in which the file of all topics is the files of some topics, one after the other."""

RUN_FORMATS: Mapping[str, OpenWriter] = MappingProxyType(_formats)
"""The function that opens a writer, by the name of the format; `--output-format` has these names."""


def register_run_format(name: str, open_writer: OpenWriter) -> None:
    r"""Add a format of run files, which `write_run`, `SearchRequest` and `--output-format` then know by its name.

    Args:
        name: one word.
        open_writer: called as `open_writer(path, hits=..., tag=..., topics=...)`; returns a `RunWriter`.

    Raises:
        TourError: if the name is not one word or already in use, or `open_writer` is not callable.

    Example:
        class CsvWriter:
            def __init__(self, path, *, hits, tag, topics):
                self.path, self.hits = path, hits

            def __enter__(self):
                self.file = open(self.path, "w")
                return self

            def __exit__(self, *error):
                self.file.close()

            def write(self, topic, hits):
                for rank, hit in enumerate(hits[: self.hits], start=1):
                    self.file.write(f"{topic},{hit.docid},{rank},{hit.score}\n")

        register_run_format("my-csv", CsvWriter)
    """
    if not isinstance(name, str) or name.split() != [name]:
        raise TourError(f"{name!r} cannot name a run format; use one word.")
    if name in _formats:
        raise TourError(f"the run format {name!r} is already registered; choose another name.")
    if not callable(open_writer):
        raise TourError(f"the run format {name!r} needs a function that opens a writer, not {open_writer!r}.")
    _formats[name] = open_writer
