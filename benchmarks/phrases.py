"""Time and memory of phrase searches, compared with scoring every phrase: `python -m benchmarks.phrases`."""

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timings import describe_machine, run_module
from tour_pyserini.command import FlagParser, run
from tour_pyserini.data.topics import read_questions
from tour_pyserini.evaluation.tables import FORMATS, Table
from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder
from tour_pyserini.phrases.phrase_index import read_settings

MIB = 2**20


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = FlagParser(prog="python -m benchmarks.phrases", description=__doc__)
    add = parser.add_argument
    add("--index", nargs="+", required=True, metavar="DIR", help="phrase indexes of one corpus, an exact one first")
    add("--topics", required=True, metavar="FILE", help="questions with answers")
    add("--questions", type=int, default=20, metavar="N", help="how many of the questions are searched")
    add("--k", type=int, nargs="+", default=[10, 100], metavar="K", help="phrases per question")
    args = parser.parse_args(argv)
    machine = describe_machine()
    encoder = load_phrase_encoder(read_settings(args.index[0])["encoder"])
    questions = [question.text for question in read_questions(args.topics)[: args.questions]]
    with tempfile.TemporaryDirectory() as folder:
        vectors = Path(folder) / "queries.npy"
        np.save(vectors, encoder.encode_batch(questions), allow_pickle=False)
        table = _table(args.index, vectors, args.k)
    sys.stdout.write(f"{FORMATS['markdown'](table)}\n\n{len(questions)} questions. {machine}\n")


def _table(indexes: Sequence[str], vectors: Path, ks: Sequence[int]) -> Table:
    lines = []
    for k in ks:
        brute = _point(indexes[0], vectors, k, "--brute-force")
        points = {"every phrase is scored": brute} | {_kind(index): _point(index, vectors, k) for index in indexes}
        lines += [_line(name, k, point, brute) for name, point in points.items()]
    settings = read_settings(indexes[0])
    head = ["search", "k", "ms per query", "times as fast", "ms, all together"]
    head += ["open, MiB", "peak MiB", "of the best k"]
    title = f"{settings['rows']:,} token vectors of {settings['dimension']} dimensions, one thread"
    return Table([head, *lines], title=title)


def _line(name: str, k: int, point: Mapping[str, Any], brute: Mapping[str, Any]) -> list[str]:
    pairs = zip(point["found"], brute["found"], strict=True)
    shared = float(np.mean([len(set(ids) & set(best)) / max(1, len(best)) for ids, best in pairs]))
    speed = [f"{1000 * point['seconds']:.1f}", f"{brute['seconds'] / point['seconds']:.1f}"]
    speed.append(f"{1000 * point['together']:.1f}" if "together" in point else "-")
    return [name, str(k), *speed, *(f"{point[what] / MIB:.0f}" for what in ("opened", "memory")), f"{shared:.3f}"]


def _point(index: str, vectors: Path, k: int, *more: str) -> dict[str, Any]:
    arguments = ["--index", index, "--vectors", vectors, "--k", k, *more]
    output = run_module("benchmarks.phrase_point", arguments).output
    return json.loads(output.splitlines()[-1])


def _kind(index: str) -> str:
    settings = read_settings(index)
    return f"{settings['index'].get('factory', 'flat')} {settings['dtype']}"


if __name__ == "__main__":
    run(main)
