"""A query's path through its rounds: read from a trace, told list by list, and shown as one HTML page.

The page is that of the service, with the events of the path inside.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from tour_pyserini.core.arrays import Floats, cosine
from tour_pyserini.data.input_files import read_lines
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.runs import best_first, read_run
from tour_pyserini.data.texts import first_words, one_line_parts, open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.errors import TourError
from tour_pyserini.stores.vectors import EncodedCorpus
from tour_pyserini.support.files import atomic_write

_Path = str | os.PathLike[str]

FILES = Path(__file__).resolve().parents[1] / "service" / "static"
"""The page that the service shows: HTML, style and modules of JavaScript."""
_WORDS = 240
"""Characters of a passage that a list shows."""
_IMPORT = re.compile(r'^import .* from "\./(.*)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_POLICY = re.compile(r"(?<=Content-Security-Policy\" content=\").*?(?=\">)")


class PathRound(NamedTuple):
    """One round on a query's path.

    Attributes:
        docids: the first hits of this round's retrieval, in order.
        labels: the re-ranker's score of each of them, from this round or an earlier one; None where it has none.
        cosine: cosine of the query vector and the first query vector; None for a vector of length 0.
        stop: why the query stopped after this round; None if it did not.
        query: the query vector, if the trace has it.
        similarities: similarity of each hit to the query vector; None where it is not known.
    """

    docids: list[str]
    labels: list[float | None]
    cosine: float | None
    stop: str | None
    query: list[float] | None = None
    similarities: Sequence[float | None] = ()


@dataclass(frozen=True)
class QueryPath:
    """A query and its way through a search.

    Attributes:
        qid: its id.
        query: its text.
        rounds: its retrievals.
        texts: docid to passage.
        relevant: docids judged relevant.
        final: docids and scores of the list that the search returned, best first.
        vectors: docid to vector [d] of every candidate, for the map; the rounds have the query vectors then.
    """

    qid: str
    query: str
    rounds: Sequence[PathRound]
    texts: Mapping[str, str]
    relevant: Set[str] = frozenset()
    final: Sequence[tuple[str, float]] = ()
    vectors: Mapping[str, Floats] | None = None

    @classmethod
    def read(
        cls,
        trace: _Path,
        topics: _Path,
        corpus: _Path,
        *,
        qrels: _Path | None = None,
        run: _Path | None = None,
        index: _Path | None = None,
        topic: str | None = None,
    ) -> Self:
        """The path of a topic of a trace; if none is named, that of the query whose relevant passage climbed most.

        An index with exact vectors gives those of the candidates, if the trace has those of the query.

        Raises:
            TourError: if one of the files does not have it.
        """
        relevant: dict[str, set[str]] = {}
        for judgement in read_qrels(qrels) if qrels else ():
            if judgement.relevance > 0:
                relevant.setdefault(judgement.query_id, set()).add(judgement.doc_id)
        paths = _read_rounds(trace)
        if not paths:
            raise TourError(f"{trace} is empty; make it with python -m tour_pyserini.search --trace.")
        qid = topic or _most_improved_query(paths, relevant)
        if qid not in paths:
            raise TourError(f"{trace} has no query {qid!r}; choose another --topic.")
        queries = {str(id_): text for id_, text in read_topics(topics, only={qid})}
        if qid not in queries:
            raise TourError(f"{topics} has no query {qid!r}, which the trace has; give the topics that were searched.")
        hits = best_first(hit for hit in read_run(run) if hit.query_id == qid) if run else []
        if run and not hits:
            raise TourError(f"{run} has no hits of the query {qid!r}; give the run of the same search as the trace.")
        final = [(hit.doc_id, hit.score) for hit in hits]
        vectors = None
        if index and (first := paths[qid][0].query):
            docids = list(dict.fromkeys(docid for one in paths[qid] for docid in one.docids))
            stored = EncodedCorpus(Path(index), docids=docids, dimension=len(first))
            vectors = dict(zip(docids, stored(np.arange(len(docids))), strict=True))
        return cls(qid, queries[qid], paths[qid], open_texts(corpus), relevant.get(qid, set()), final, vectors)


def _read_rounds(trace: _Path) -> dict[str, list[PathRound]]:
    """The rounds of every query in a trace, by query id."""
    paths: dict[str, list[PathRound]] = {}
    for line in read_lines(trace):
        try:
            record: dict[str, Any] = json.loads(line.text)
            shared = {name: record[name] for name in ("docids", "labels", "cosine", "stop", "similarities")}
            paths.setdefault(record["qid"], []).append(PathRound(**shared, query=record.get("query")))
        except (ValueError, KeyError, TypeError, RecursionError):
            line.refuse("is not a line of a trace; make it with --trace")
    return paths


def _most_improved_query(paths: Mapping[str, Sequence[PathRound]], relevant: Mapping[str, Set[str]]) -> str:
    """The query whose best relevant passage climbed the most ranks; queries where it ended at rank 1 come first.

    Of equal ones, the one with the most rounds is taken. A rank that is not known is one more than the last.
    """

    def climb(qid: str) -> tuple[bool, int, int]:
        wanted = relevant.get(qid, frozenset())
        first, last = (
            next((rank for rank, docid in enumerate(one.docids, start=1) if docid in wanted), len(one.docids) + 1)
            for one in (paths[qid][0], paths[qid][-1])
        )
        return last == 1, first - last, len(paths[qid])

    return max(sorted(paths), key=climb)


class PathLists:
    """The lists of one query, each as the page reads it: what is new in it, what moved, and the map of the query."""

    def __init__(self) -> None:
        self._number = 0
        self._queries: list[Floats] = []  # vectors [d] at t = 0, 1, ..., where they are known
        self._ranks: dict[str, int] = {}
        self._similarities: Mapping[str, float | None] = {}
        self._labelled: set[str] = set()

    def add(
        self,
        docids: Sequence[str],
        labels: Mapping[str, float],
        *,
        t: int,
        query: Floats | None = None,
        vectors: Mapping[str, Floats] | None = None,
        similarities: Mapping[str, float | None] | None = None,
    ) -> dict[str, Any]:
        """The next list, as fields of the service's message `Round`.

        Args:
            docids: what is in it, best first.
            labels: all labels so far, by docid.
            t: updates of the query vector before this list.
            query: the query's vector [d].
            vectors: docid to vector [d] of what is in the list or has a label.
            similarities: docid to similarity, where there are no vectors.
        """
        vectors, similarities, before = vectors or {}, similarities or {}, self._similarities
        if query is not None:
            earlier = self._queries[-1] if self._queries else None
            if len(self._queries) <= t:
                self._queries.append(query.astype(np.float64))
            similarities = {docid: _product(vectors.get(docid), self._queries[-1]) for docid in docids}
            before = {docid: _product(vectors.get(docid), earlier) for docid in docids}
        ranks = {docid: rank for rank, docid in enumerate(docids, start=1)}
        told = {
            "number": self._number,
            "t": t,
            "cosine": None if query is None else cosine(self._queries[0], query),
            "candidates": [
                {
                    "docid": docid,
                    "rank": rank,
                    "label": labels.get(docid),
                    "bought": docid in labels and docid not in self._labelled,
                    "rank_before": self._ranks.get(docid),
                    "similarity": similarities.get(docid),
                    "similarity_before": before.get(docid),
                }
                for docid, rank in ranks.items()
            ],
            "new": [docid for docid in docids if self._number and docid not in self._ranks],
            "gone": [docid for docid in self._ranks if docid not in ranks],
            "map": self._map({docid: vectors[docid] for docid in (*docids, *labels) if docid in vectors}),
        }
        self._number, self._ranks, self._similarities = self._number + 1, ranks, similarities
        self._labelled.update(labels)
        return told

    def _map(self, vectors: Mapping[str, Floats]) -> dict[str, Any] | None:
        if not vectors:
            return None
        places = _projected(np.stack(self._queries), np.stack(list(vectors.values())))
        queries, candidates = (part.round(6).tolist() for part in places)
        return {"queries": queries, "candidates": dict(zip(vectors, candidates, strict=True))}


def _product(vector: Floats | None, query: Floats | None) -> float | None:
    return None if vector is None or query is None else float(vector @ query)


def _projected(queries: Floats, candidates: Floats) -> tuple[Floats, Floats]:
    """The query vectors of each round [t, d] and the candidates [n, d] in two dimensions, [t, 2] and [n, 2].

    All vectors are scaled to unit length first; the first query vector is the origin. The first axis points from the
    first query vector to the last, so that the query moves to the right. The second axis is the direction, orthogonal
    to the first, in which the candidates differ most from each other. If the query did not move, the axes are the
    candidates' two main directions.
    """
    origin, *_ = moved = _unit(queries)
    moved, others = moved - origin, _unit(candidates) - origin
    axes, rest, away = list[Floats](), others - others.mean(axis=0), np.linalg.norm(moved[-1])
    if away > 1e-6:  # less is rounding: single-precision vectors
        axes = [moved[-1] / away]
        rest = rest - np.outer(rest @ axes[0], axes[0])
    _, lengths, directions = np.linalg.svd(rest, full_matrices=False)
    # Where vectors do not differ, directions are arbitrary, and not orthogonal to what was taken out of the vectors.
    for direction in directions[lengths > 1e-9]:
        # Either sign is right; the one that makes the largest component positive is always chosen.
        axes.append(np.sign(direction[np.abs(direction).argmax()]) * direction)
    plane = np.vstack([*axes, np.zeros((2, len(origin)))])[:2]  # missing axes are 0
    return moved @ plane.T, others @ plane.T


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float64) / np.where(lengths > 0, lengths, 1.0)


def _events(path: QueryPath, shown: int) -> Iterator[dict[str, Any]]:
    """The event `round` for each round of a path, and one for the final list.

    A trace tells neither times nor the scores that rank a list: these fields of the service's messages are left out,
    and the candidates of a round are in the order of similarity. `name` and `note` are what the page writes above.
    """
    lists, labels = PathLists(), dict[str, float]()
    note = "The retrieval: the passages most similar to the query's vector first."
    shows = [(f"After {t} update{'s' * (t > 1)}" if t else "First retrieval", note) for t in range(len(path.rounds))]
    if path.final:
        shows.append(("Final list", "What the search returns: similarities and labels combined."))
    for number, (name, note) in enumerate(shows):
        t = min(number, len(path.rounds) - 1)
        one, is_final = path.rounds[t], number > t
        labels |= {docid: label for docid, label in zip(one.docids, one.labels, strict=False) if label is not None}
        told = lists.add(
            [docid for docid, _ in path.final] if is_final else one.docids,
            labels,
            t=t,
            query=np.asarray(one.query) if path.vectors else None,
            vectors=path.vectors,
            similarities=dict(zip(one.docids, one.similarities, strict=False)),
        )
        del told["candidates"][shown:]
        for line in told["candidates"]:
            title, text = one_line_parts(path.texts[line["docid"]])
            line |= {"title": title, "words": first_words(text, _WORDS)}
        told |= {"name": name, "note": note, "cosine": one.cosine, "stop": one.stop}
        yield {"event": "round", "data": told | {"costs": {"labels": len(labels), "updates": t}}}


def write_path_page(output: _Path, path: QueryPath, *, shown: int = 10) -> None:
    """Write the path of a query as a self-contained HTML page, with so many candidates per list."""
    docids = dict.fromkeys(docid for one in path.rounds for docid in one.docids)
    docids |= dict.fromkeys(docid for docid, _ in path.final[:shown])
    recorded = {
        "query": path.query,
        "events": list(_events(path, shown)),
        "relevant": sorted(path.relevant),
        "texts": {docid: path.texts[docid] for docid in docids},
    }
    with atomic_write(output) as file:
        file.write(_as_page(recorded))


def _as_page(recorded: Mapping[str, Any]) -> str:
    """The page of a recorded search: its query, events, relevant docids, and whole passages by docid."""
    style, script = _read("page.css"), _one_module("main.js", set())
    # "<" could end the element; JSON may write it as an escape.
    data = json.dumps(recorded, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    page = _read("index.html").replace('<link rel="stylesheet" href="page.css">', f"<style>{style}</style>")
    page = page.replace(
        '<script type="module" src="main.js"></script>',
        f'<script type="application/json" id="recorded">{data}</script>\n<script type="module">{script}</script>',
    )
    return _POLICY.sub(
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "require-trusted-types-for 'script'",
        page,
        count=1,
    )


def _one_module(name: str, done: set[str]) -> str:
    """A module with all that it imports before it. Names at the top level are unique among the page's modules."""
    done.add(name)
    source = _read(name)
    before = "".join(_one_module(other, done) for other in _IMPORT.findall(source) if other not in done)
    return before + _EXPORT.sub("", _IMPORT.sub("", source))


def _read(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A source of a content security policy: exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
