"""What 8 bits cost in ranking quality."""

from benchmarks.quality import MEASURE, qualities
from benchmarks.report import Report
from benchmarks.searching import NQ, searched
from benchmarks.setting import Setting
from tour_pyserini.evaluation.tables import Table

COLLECTIONS = (NQ, ("scifact", "test"))


def measure(setting: Setting) -> Report:
    """Re-rank ten passages with fp32 and with int8."""
    body = []
    for collection in COLLECTIONS:
        topics = setting.topics(*collection)
        runs = [
            searched(
                *(setting, precision, "--method", "rerank", "--depth", "10", "--no-cache", "--precision", precision),
                collection=collection,
            )
            for precision in ("fp32", "int8")
        ]
        exact, coarse = qualities(topics, [each.run for each in runs])
        body.append(
            [
                *(" ".join(collection), str(topics.count), f"{exact.mean:.4f}", f"{coarse.mean:.4f}"),
                *(f"{coarse.difference:+.4f}", f"{coarse.p:.3f}"),
                f"{runs[0].costs.seconds['label'] / runs[1].costs.seconds['label']:.2f}",
            ]
        )
    head = ["collection", "queries", f"fp32 {MEASURE}", "int8", "difference", "p", "times as fast"]
    note = "Ten passages re-ranked; p of the paired randomisation test; times of labelling."
    return Report("int8", "What int8 costs in quality", Table([head, *body]), note)
