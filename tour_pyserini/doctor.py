# PYTHON_ARGCOMPLETE_OK
"""Check the installation, and show how to install what is missing.

Libraries are found but not loaded, which takes a moment; --load also loads each of them and starts Java, which takes
half a minute and finds libraries that are installed but broken.

Each line starts with `ok`, `missing`, `problem` or `optional`. What is optional is not installed and not needed; the
line names the extra that installs it. The exit code is 1 if something is missing or does not work, and 0 otherwise.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from tour_pyserini.cli.command import run
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.pipeline.installation import check_installation


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; 0 if everything that is needed was found, 1 otherwise."""
    parser = CommandParser("doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--load", action="store_true", help="load each library and start Java, too")
    args = parser.parse_args(argv)
    with redirect_stdout(sys.stderr):  # libraries may print while they load, which must not be in the report
        report = check_installation(load=args.load)
    text = json.dumps(report.as_json(), indent=2) if args.json else report.as_text()
    sys.stdout.write(text + "\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    run(main)
