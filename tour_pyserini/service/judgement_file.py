"""Judgements of those who search, kept as qrels: what is confirmed is on the disk."""

import hashlib
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from tour_pyserini.errors import TourError


class Judgements:
    """A file of judgements that only grows: a changed mind is one more line, and the last line of a pair counts.

    Lines are those of qrels, `qid 0 docid grade`; comments hold the queries, `# qid<TAB>query`. What was torn by the
    end of the process or of the disk is cut off when the file is opened again.
    """

    def __init__(self, path: str | os.PathLike[str], topics: Mapping[str, str]) -> None:
        """Open a file, or make it.

        Args:
            path: the file.
            topics: query to id, of queries that have an id already; others get one that their text gives.

        Raises:
            TourError: if it cannot be read and written, or holds something else.
        """
        self._grades: dict[tuple[str, str], int] = {}
        self._queries: dict[str, str] = {}
        self._topics = {_one_line(query): qid for query, qid in topics.items()}
        self._lock = threading.Lock()
        try:
            self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115
            data = Path(path).read_bytes()
            self._file.truncate(data.rfind(b"\n") + 1)
            lines = data[: data.rfind(b"\n") + 1].decode("utf-8").split("\n")[:-1]
        except (OSError, UnicodeDecodeError) as error:
            raise TourError(f"cannot keep judgements in {path}: {error}; choose another --judgements.") from error
        for number, line in enumerate(lines, start=1):
            try:
                if line.startswith("#"):
                    qid, query = line.removeprefix("#").strip().split("\t")
                    self._queries[qid] = query
                elif line.strip():
                    qid, _, docid, grade = line.split()
                    self._grades[qid, docid] = int(grade)
            except ValueError:
                raise TourError(f"{path}, line {number} is no judgement; choose another --judgements.") from None

    def grade(self, query: str, docid: str) -> int | None:
        """The grade of a document for a query; None where nobody has judged it."""
        return self._grades.get((self.qid(query), docid))

    def qid(self, query: str) -> str:
        """The id of a query: that of its topic, or one that its text gives."""
        query = _one_line(query)
        return self._topics.get(query) or f"q{hashlib.sha256(query.encode()).hexdigest()[:12]}"

    def add(self, query: str, docid: str, grade: int) -> None:
        """Keep a judgement; it is on the disk when this returns.

        Raises:
            OSError: if it cannot be written; the file is as before then.
        """
        qid, query = self.qid(query), _one_line(query)
        with self._lock:
            if self._grades.get((qid, docid)) == grade:
                return
            lines = "" if qid in self._queries else f"# {qid}\t{query}\n"
            data = f"{lines}{qid} 0 {docid} {grade}\n".encode()
            size = os.fstat(self._file.fileno()).st_size
            try:
                if self._file.write(data) != len(data):
                    raise OSError("the disk is full")
                os.fsync(self._file.fileno())
            except OSError:
                self._file.truncate(size)
                raise
            self._queries[qid] = query
            self._grades[qid, docid] = grade

    def qrels(self, finds: Callable[[str], bool] | None = None) -> str:
        """All judgements as qrels, each pair once; with a function from docids, of the documents that it finds."""
        return "".join(f"{qid} 0 {docid} {grade}\n" for qid, docid, grade in self._of(finds))

    def topics(self, finds: Callable[[str], bool] | None = None) -> str:
        """The judged queries as topics, `qid<TAB>query`."""
        judged = {qid for qid, _, _ in self._of(finds)}
        with self._lock:
            queries = list(self._queries.items())
        return "".join(f"{qid}\t{query}\n" for qid, query in queries if finds is None or qid in judged)

    def _of(self, finds: Callable[[str], bool] | None) -> list[tuple[str, str, int]]:
        with self._lock:
            grades = list(self._grades.items())
        return [(qid, docid, grade) for (qid, docid), grade in grades if finds is None or finds(docid)]


def _one_line(query: str) -> str:
    return " ".join(query.split())
