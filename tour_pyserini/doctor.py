"""Check the installation, and show how to install what is missing.

The exit code is 0 if everything that is needed was found, and 1 otherwise.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from tour_pyserini.cli.command import run
from tour_pyserini.pipeline.installation import check_installation


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; 0 if everything that is needed was found, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tour_pyserini.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    args = parser.parse_args(argv)
    with redirect_stdout(sys.stderr):  # libraries may print while they load, which must not be in the report
        report = check_installation()
    if args.json:
        findings = [finding._asdict() for finding in report.findings]
        sys.stdout.write(json.dumps({"ok": report.ok, "findings": findings}, indent=2) + "\n")
    else:
        sys.stdout.write(report.as_text() + "\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    run(main)
