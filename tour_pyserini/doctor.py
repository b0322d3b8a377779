# PYTHON_ARGCOMPLETE_OK
"""Check this installation and say what to do about problems.

Each line starts with `ok`, `missing`, `problem` or `optional`. What is optional is not installed and not needed; the
line names the extra that installs it. The exit code is 1 if something is missing or does not work, and 0 if not.
"""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import NamedTuple

from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline import installation as machine
from tour_pyserini.pipeline.installation import Finding


class Check(NamedTuple):
    """One line of the report. If it is part of an `extra`, it is optional: it need not be installed."""

    name: str
    look: Callable[[str], Finding]
    extra: str | None = None


def _package(name: str, module: str, install: str, extra: str | None = None) -> Check:
    return Check(name, partial(machine.package, module=module, install=install, extra=extra), extra)


CHECKS = (
    Check("Python", machine.python),
    Check("tour_pyserini", machine.this_package),
    Check("Java", machine.java),
    Check("Pyserini", machine.pyserini),
    _package("FAISS", "faiss", "faiss-cpu"),
    _package("torch", "torch", "torch"),
    _package("transformers", "transformers", "transformers"),
    _package("onnxruntime", "onnxruntime", "onnxruntime"),
    _package("ir-measures", "ir_measures", "ir-measures"),
    Check("default encoder", machine.default_encoder, extra="models"),
    Check("default re-ranker", machine.default_reranker, extra="models"),
    _package("onnx", "onnx", "onnx", extra="onnx"),
    _package("sentence-transformers", "sentence_transformers", "sentence-transformers", extra="sentence-transformers"),
    _package("argcomplete", "argcomplete", "argcomplete", extra="completion"),
    Check("processor", machine.processor),
    Check("cache folder", machine.cache_folder),
)


def examine(check: Check) -> Finding:
    """Run one check; whatever goes wrong inside it is a finding too."""
    try:
        return check.look(check.name)
    except TourError as error:
        # The message says what is wrong and then, after the last semicolon, what to do.
        problem, _, remedy = str(error).rstrip(".").rpartition("; ")
        remedy = remedy.removeprefix("run: ").removeprefix("run ") if problem else remedy
        return Finding(check.name, False, problem or remedy, remedy if problem else "")
    except Exception as error:  # a report that stops half-way helps nobody
        return Finding(check.name, False, f"the check itself failed: {machine.one_line(error)}")


def status(check: Check, finding: Finding) -> str:
    """`ok`, `missing`, `problem`, or `optional` for what is not installed and not needed."""
    if finding.ok:
        return "ok"
    if not finding.absent:
        return "problem"
    return "optional" if check.extra else "missing"


def report(statuses: Sequence[str], findings: Sequence[Finding], *, healthy: bool) -> str:
    """The findings as lines to read, with what is to be done below each that needs it."""
    width = max(len(finding.name) for finding in findings)
    indent = max(map(len, statuses))
    lines = []
    for word, finding in zip(statuses, findings, strict=True):
        lines.append(f"{word:{indent}}  {finding.name:{width}}  {finding.found}")
        if finding.remedy:
            lines.append(f"{'':{indent}}  {'':{width}}  -> {finding.remedy}")
    problem = "Something needed is missing or does not work: see above."
    lines.append("Everything needed is here." if healthy else problem)
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 0 if everything needed is there, 1 if not."""
    parser = CommandParser("doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(arguments)
    with redirect_stdout(sys.stderr):  # what libraries say while they load is no part of the report
        findings = [examine(check) for check in CHECKS]
    statuses = [status(check, finding) for check, finding in zip(CHECKS, findings, strict=True)]
    healthy = not {"missing", "problem"} & set(statuses)
    if options.json:
        text = json.dumps({"ok": healthy, "findings": _as_json(statuses, findings)}, indent=2)
    else:
        text = report(statuses, findings, healthy=healthy)
    sys.stdout.write(text + "\n")
    return 0 if healthy else 1


def _as_json(statuses: Sequence[str], findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [
        {"name": finding.name, "status": word, "ok": finding.ok, "found": finding.found, "remedy": finding.remedy}
        for word, finding in zip(statuses, findings, strict=True)
    ]


if __name__ == "__main__":
    run(main)
