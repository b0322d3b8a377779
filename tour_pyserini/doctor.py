# PYTHON_ARGCOMPLETE_OK
"""Check this installation and say what to do about problems.

The exit code is 0 if everything needed is there and 1 if not.
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
    """One line of the report. What is not `needed` may be missing without failing the report."""

    name: str
    look: Callable[[str], Finding]
    needed: bool = True


def _package(module: str, install: str) -> Callable[[str], Finding]:
    return partial(machine.package, module=module, install=install)


CHECKS = (
    Check("Python", machine.python),
    Check("tour_pyserini", machine.this_package),
    Check("Java", machine.java),
    Check("Pyserini", machine.pyserini),
    Check("FAISS", _package("faiss", "faiss-cpu")),
    Check("torch", _package("torch", "torch")),
    Check("transformers", _package("transformers", "transformers")),
    Check("onnxruntime", _package("onnxruntime", "onnxruntime")),
    Check("ir-measures", _package("ir_measures", "ir-measures")),
    Check("sentence-transformers", _package("sentence_transformers", "sentence-transformers"), needed=False),
    Check("default encoder", machine.default_encoder),
    Check("default re-ranker", machine.default_reranker),
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
        return Finding(check.name, False, problem or remedy, remedy.removeprefix("run: ") if problem else "")
    except Exception as error:  # a report that stops half-way helps nobody
        return Finding(check.name, False, f"the check itself failed: {machine.one_line(error)}")


def report(findings: Sequence[Finding], *, healthy: bool) -> str:
    """The findings as lines to read, with what is to be done below each that needs it."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{'ok' if finding.ok else '--'}  {finding.name:{width}}  {finding.found}")
        if finding.remedy:
            lines.append(f"    {'':{width}}  -> {finding.remedy}")
    lines.append("Everything needed is here." if healthy else "Something needed is missing: see the lines with --.")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; 0 if everything needed is there, 1 if not."""
    parser = CommandParser("doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(arguments)
    with redirect_stdout(sys.stderr):  # what libraries say while they load is no part of the report
        findings = [examine(check) for check in CHECKS]
    healthy = all(found.ok for check, found in zip(CHECKS, findings, strict=True) if check.needed)
    if options.json:
        text = json.dumps({"ok": healthy, "findings": [finding._asdict() for finding in findings]}, indent=2)
    else:
        text = report(findings, healthy=healthy)
    sys.stdout.write(text + "\n")
    return 0 if healthy else 1


if __name__ == "__main__":
    run(main)
