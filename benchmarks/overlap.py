"""Whether labelling one part of a batch while another is searched would pay."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.pairs import mixed_pairs
from benchmarks.report import Report
from benchmarks.searching import NQ, tour
from benchmarks.setting import Setting
from benchmarks.turns import in_turns
from tour_pyserini.evaluation.tables import Table

BATCH = 64


def measure(setting: Setting) -> Report:
    """Labelling and searching one after the other, and at once on two threads."""
    label, search = _label(setting), _search(setting)

    def both() -> None:
        with ThreadPoolExecutor(1) as other:
            searched = other.submit(search)
            label()
            searched.result()

    turns = in_turns({"label": label, "search": search, "at once": both}, rounds=setting.rounds)
    one, other, at_once = (turns.best(name) for name in ("label", "search", "at once"))
    run = tour(setting)
    most = run.searching / run.costs.seconds["label"]
    body = [
        ["labelling alone", f"{one:.2f}", ""],
        ["encoding and searching alone", f"{other:.2f}", ""],
        ["one after the other", f"{one + other:.2f}", "1.00"],
        ["at once", f"{at_once:.2f}", f"{(one + other) / at_once:.2f}"],
        ["at best, in the run of (c)", "", f"{most:.3f}"],
    ]
    note = (
        f"{len(mixed_pairs(setting).texts)} pairs labelled, {BATCH} questions encoded and searched; the last line is "
        "what a run could gain if all that is not the cross-encoder cost nothing."
    )
    return Report("overlap", "Overlap", Table([["", "s", "times as fast"], *body]), note)


def _label(setting: Setting) -> Callable[[], object]:
    from tour_pyserini.rerankers import load_reranker

    reranker, pairs = load_reranker(setting.model), mixed_pairs(setting).texts
    return lambda: reranker.predict(pairs)


def _search(setting: Setting) -> Callable[[], object]:
    from tour_pyserini import FaissSearcher, TourConfig, TourSearcher, load_query_encoder

    lines = setting.topics(*NQ).queries.read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["text"] for line in lines][:BATCH]
    inner = FaissSearcher(str(setting.index(NQ[0])), load_query_encoder(setting.encoder))
    searcher = TourSearcher(inner, config=TourConfig.preset("dense"))
    ids = [str(place) for place in range(len(questions))]
    return lambda: searcher.batch_search(questions, ids, k=100)
