"""(d) How far a run is from what its labels must cost."""

import json

from benchmarks.flops import flops, token_counts
from benchmarks.peak import peak
from benchmarks.report import Bars, Report
from benchmarks.searching import NQ, tour, trace_of
from benchmarks.setting import Setting
from tour_pyserini.data.texts import open_texts
from tour_pyserini.evaluation.tables import Table


def measure(setting: Setting) -> Report:
    """Distinct pairs times their work, over the peak, against the seconds that were needed."""
    run, pairs = tour(setting), _labelled(setting)
    work, top = flops(setting.model, token_counts(setting.model, pairs)), peak(quick=setting.quick)
    least = work / top
    needed = {
        "the bound": least,
        "labelling": run.costs.seconds["label"],
        "the search": run.searching,
        "the whole command": run.seconds,
    }
    body = [[name, f"{seconds:.2f}", f"{seconds / least:.2f}"] for name, seconds in needed.items()]
    note = (
        f"{len(pairs)} distinct pairs of {work / len(pairs) / 1e9:.2f} GFLOP each, from their real lengths; peak "
        f"{top / 1e9:.0f} GFLOP/s in fp32, measured in the same run."
    )
    return Report(
        "d",
        "Distance to the bound",
        Table([["", "s", "times the bound"], *body]),
        note,
        [Bars("times the bound", {name: seconds / least for name, seconds in needed.items()})],
    )


def _labelled(setting: Setting) -> list[tuple[str, str]]:
    """The distinct pairs of the run, from its trace."""
    texts = open_texts(setting.corpus(NQ[0]))
    lines = setting.topics(*NQ).queries.read_text(encoding="utf-8").splitlines()
    questions = {record["_id"]: record["text"] for record in map(json.loads, lines)}
    steps = map(json.loads, trace_of(setting).read_text(encoding="utf-8").splitlines())
    met = dict.fromkeys((step["qid"], docid) for step in steps for docid in step["docids"])
    return [(questions[qid], texts[docid]) for qid, docid in met]
