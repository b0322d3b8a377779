"""What this installation has, and what to do about what it lacks.

Libraries are found but not loaded, which takes a moment; --load also loads each of them and starts Java, which takes
half a minute and finds libraries that are installed but broken. The exit code is 0 if everything needed is there and 1
if not.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import NamedTuple

from tour_pyserini.cli.command import run
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline import installation as machine
from tour_pyserini.pipeline.installation import Finding


class Check(NamedTuple):
    """One line of the report.

    Attributes:
        name: what is checked.
        look: the check.
        needed: whether the report fails if it is missing.
        quick: the check without loading anything heavy; None if `look` is quick itself.
    """

    name: str
    look: Callable[[str], Finding]
    needed: bool = True
    quick: Callable[[str], Finding] | None = None


def _package(name: str, module: str, install: str, *, needed: bool = True) -> Check:
    look = partial(machine.package, module=module, install=install)
    return Check(name, look, needed, partial(machine.installed_package, module=module, install=install))


CHECKS = (
    Check("Python", machine.python),
    Check("tour_pyserini", machine.this_package),
    Check("Java", machine.java, quick=machine.installed_java),
    Check("Pyserini", machine.pyserini, quick=_package("Pyserini", "pyserini", "pyserini").quick),
    _package("FAISS", "faiss", "faiss-cpu"),
    _package("torch", "torch", "torch"),
    _package("transformers", "transformers", "transformers"),
    _package("onnxruntime", "onnxruntime", "onnxruntime"),
    _package("ir-measures", "ir_measures", "ir-measures"),
    _package("sentence-transformers", "sentence_transformers", "sentence-transformers", needed=False),
    Check("default encoder", machine.default_encoder),
    Check("default re-ranker", machine.default_reranker),
    Check("processor", machine.processor),
    Check("cache folder", machine.cache_folder),
)


def examine(check: Check, *, quick: bool = False) -> Finding:
    """Run one check; whatever goes wrong inside it is a finding too."""
    look = check.quick if quick and check.quick else check.look
    try:
        return look(check.name)
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
    parser = argparse.ArgumentParser(prog="python -m tour_pyserini.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--load", action="store_true", help="load each library and start Java, too")
    options = parser.parse_args(arguments)
    with redirect_stdout(sys.stderr):  # what libraries say while they load is no part of the report
        findings = [examine(check, quick=not options.load) for check in CHECKS]
    healthy = all(found.ok for check, found in zip(CHECKS, findings, strict=True) if check.needed)
    if options.json:
        text = json.dumps({"ok": healthy, "findings": [finding._asdict() for finding in findings]}, indent=2)
    else:
        text = report(findings, healthy=healthy)
    sys.stdout.write(text + "\n")
    return 0 if healthy else 1


if __name__ == "__main__":
    run(main)
