"""Somebody else's list of 100 passages, re-ranked with a budget of labels: by the default, and by cutting the list.

    python -m benchmarks.lists --topics T --qrels Q --index I --corpus C --cache scores.sqlite --output runs/cacm

The index has BM25 (`index --bm25`). For the lists of BM25 and of dense search, and for each budget, it writes the runs,
and prints nDCG@10 and labels per query as JSON. `cut` re-ranks the first passages alone, `mixed` does so by label and
first-stage score together, and `tour` labels what is promising. `moved` has the vectors of the list too, `still` does
not move the query by them, and `vectors` has no labels.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import ir_measures
from ir_measures import nDCG

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.topics import read_topics
from tour_pyserini.opening import Opener
from tour_pyserini.search import search
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.stores.signals import open_signal

BUDGETS = (10, 20, 30, 50, 100)
DEPTH = 100


def conditions(budget: int, list_name: str) -> dict[str, tuple[TourConfig, bool]]:
    """The searches of a list with a budget: their settings, and whether the query has vectors to move by."""
    every = TourConfig(budget=budget, early_stopping=False)
    # What a dense run says, its own vectors say too: they count alone, and then labels count twice.
    moved = every if list_name == "bm25" else every.replace(signal_weight=0.0, reranker_weight=0.8)
    return {
        "cut": (TourConfig("rerank", depth=budget), False),
        "mixed": (TourConfig.preset("mixed").replace(depth=budget), False),
        "tour": (every, False),
        "moved": (moved, True),
        "still": (moved.replace(step=0.0), True),
        "tour, early stop": (TourConfig(budget=budget), False),
    }


def write_lists(args: argparse.Namespace, request: SearchRequest, opener: Opener) -> dict[str, Path]:
    """The first-stage runs of BM25 and of dense search, 100 hits each."""
    lists = {name: Path(f"{args.output}.{name}.trec") for name in ("bm25", "dense")}
    topics = {str(qid): topic if isinstance(topic, str) else topic["title"] for qid, topic in read_topics(args.topics)}
    docids, scores = open_signal(args.index)(list(topics.values()), DEPTH)
    lines = [
        f"{qid} Q0 {docid} {rank} {score} bm25\n"
        for qid, names, values in zip(topics, docids, scores, strict=True)
        for rank, (docid, score) in enumerate(zip(names, values, strict=True), start=1)
    ]
    lists["bm25"].parent.mkdir(parents=True, exist_ok=True)
    lists["bm25"].write_text("".join(lines), encoding="utf-8")
    dense = replace(request, index=args.index, sparse=("none",), config=TourConfig("dense"), output=str(lists["dense"]))
    search(dense, opener=opener)
    return lists


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the lists of one collection."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("topics", "qrels", "index", "corpus", "cache", "output"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args(argv)
    opener = Opener()
    request = SearchRequest(
        topics=args.topics, corpus=args.corpus, cache=args.cache, hits=DEPTH, reranker_threads=1, output=args.output
    )
    lists = write_lists(args, request, opener)
    searched = {str(qid) for qid, _ in read_topics(args.topics)}
    qrels = [one for one in read_qrels(args.qrels) if one.query_id in searched]

    def run_list(list_name: str, condition: str, budget: int, config: TourConfig, *, vectors: bool) -> None:
        name = condition.replace(", ", "-").replace(" ", "-")
        output = f"{args.output}.{list_name}.{name}.{budget}.trec"
        asked = replace(request, run=(str(lists[list_name]),), config=config, output=output)
        done = search(replace(asked, vectors=args.index if vectors else None), opener=opener)
        report(list_name, condition, budget, Path(output), done.costs.pairs / max(done.costs.queries, 1))

    def report(list_name: str, condition: str, budget: int, run: Path, labels: float) -> None:
        by_query = {
            one.query_id: one.value
            for one in ir_measures.iter_calc([nDCG @ 10], qrels, ir_measures.read_trec_run(str(run)))
        }
        mean = sum(by_query.values()) / len(by_query)
        line = {"list": list_name, "condition": condition, "budget": budget, "labels": labels, "nDCG@10": mean}
        sys.stdout.write(json.dumps({**line, "queries": by_query}) + "\n")
        sys.stdout.flush()

    for list_name, run in lists.items():
        report(list_name, "first stage", 0, run, 0.0)
        weight = 0.5 if list_name == "bm25" else 0.0
        run_list(list_name, "vectors", 0, TourConfig("dense", signal_weight=weight), vectors=True)
        for budget in BUDGETS:
            for condition, (config, vectors) in conditions(budget, list_name).items():
                run_list(list_name, condition, budget, config, vectors=vectors)


if __name__ == "__main__":
    main()
