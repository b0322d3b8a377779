# PYTHON_ARGCOMPLETE_OK
"""Check the installation, or how a model would be run.

Libraries are found but not loaded, which takes a moment; --load also loads each of them and starts Java, which takes
half a minute and finds libraries that are installed but broken.

Each line starts with `ok`, `missing`, `problem` or `optional`. What is optional is not installed and not needed; the
line names the extra that installs it. The exit code is 1 if something is missing or does not work, and 0 otherwise.

With --model, one model is loaded instead, as a search would load it: the report says whether it is an encoder or a
re-ranker, how it is run, and what it gives for two passages; or why it cannot be run, with exit code 1.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from tour_pyserini.cli.command import run
from tour_pyserini.cli.flags import add_request_flags
from tour_pyserini.cli.parser import CommandParser
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.installation import InstallationReport, check_installation
from tour_pyserini.pipeline.model_check import ModelReport, ModelRequest, check_model


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; 0 if everything that is needed was found, or the model can be run, 1 otherwise."""
    parser = CommandParser("doctor", description=__doc__, argument_default=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", default=False, help="print the report as JSON")
    parser.add_argument("--load", action="store_true", default=False, help="load each library and start Java, too")
    add_request_flags(parser, ModelRequest)
    flags = vars(parser.parse_args(argv))
    as_json, load = flags.pop("json"), flags.pop("load")
    if flags and load:
        raise TourError("--load checks the libraries and --model a model; give one of them.")
    report: InstallationReport | ModelReport
    with redirect_stdout(sys.stderr):  # libraries may print while they load, which must not be in the report
        report = check_model(ModelRequest.from_flags(flags)) if flags else check_installation(load=load)
    sys.stdout.write((json.dumps(report.as_json(), indent=2) if as_json else report.as_text()) + "\n")
    return 0 if report.ok else 1


if __name__ == "__main__":
    run(main)
