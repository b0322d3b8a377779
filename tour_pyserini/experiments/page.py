"""One query's path as a page that needs nothing but itself."""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from html import escape
from pathlib import Path
from string import Template

from tour_pyserini.experiments.path import Stop

TEMPLATE = Path(__file__).with_name("page.html")
LENGTH = 160  # characters of a passage

_MAP = """<h2>The query's movement</h2>
<p>Directions of vectors: to the right is where the query went; up and down, how candidates differ most otherwise. The
darker a dot, the better the re-ranker's score; a ring marks what is judged relevant.</p>
"""


def as_page(
    path: Sequence[Stop],
    query: str,
    texts: Mapping[str, str],
    relevant: Set[str],
    *,
    shown: int = 10,
    svg: str | None = None,
) -> str:
    """An HTML page with the lists of each round side by side.

    Args:
        path: the query's retrievals.
        query: its text.
        texts: passages of the candidates.
        relevant: docids judged relevant.
        shown: candidates per round.
        svg: the map, if there is one.
    """
    labelled = len({docid for stop in path for docid in stop.docids})
    about = (
        f"{len(path)} retrievals, {labelled} candidates in all, {len(relevant)} judged relevant. Scores are the "
        "re-ranker's; point at a passage to find it in the other rounds."
    )
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(query),
        query=escape(query),
        about=about,
        rounds="\n".join(_rounds(path, texts, relevant, shown)),
        map=_MAP + svg if svg else "",
    )


def _rounds(path: Sequence[Stop], texts: Mapping[str, str], relevant: Set[str], shown: int) -> Iterator[str]:
    met: set[str] = set()
    for t, stop in enumerate(path):
        before = path[t - 1].docids if t else []
        items = [
            _item(rank, docid, score, before, t > 0 and docid not in met, docid in relevant, texts[docid])
            for rank, (docid, score) in enumerate(zip(stop.docids[:shown], stop.scores, strict=False), start=1)
        ]
        fresh = len(set(stop.docids) - met) if t else 0
        facts = [f"cosine to the first query {stop.cosine:.3f}"] if t and stop.cosine is not None else []
        facts += [f"{fresh} new candidates"] if t else []
        facts += [f"stopped: {escape(stop.stopped)}"] if stop.stopped else []
        yield (
            f'<section class="round"><h2>t = {t}</h2><p class="facts">{"; ".join(facts) or "the first retrieval"}</p>'
            f"<ol>{''.join(items)}</ol></section>"
        )
        met.update(stop.docids)


def _item(
    rank: int, docid: str, score: float, before: Sequence[str], is_new: bool, is_relevant: bool, text: str
) -> str:
    marks = '<span class="mark relevant">relevant</span>' if is_relevant else ""
    if is_new:
        marks += '<span class="mark new">new</span>'
    elif docid in before and (moved := before.index(docid) + 1 - rank):
        marks += f'<span class="mark moved">{"↑" if moved > 0 else "↓"}{abs(moved)}</span>'
    value = "–" if math.isnan(score) else f"{score:.2f}"
    short = text if len(text) <= LENGTH else text[:LENGTH].rsplit(" ", 1)[0] + " ..."
    return (
        f'<li class="{"relevant" if is_relevant else ""}" data-doc="{escape(docid)}"><div class="top">'
        f'<span class="rank">{rank}</span><span class="docid">{escape(docid)}</span>{marks}'
        f'<span class="score">{value}</span></div><div class="text">{escape(short)}</div></li>'
    )
