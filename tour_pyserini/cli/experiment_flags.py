"""The flags of the experiment command."""

import argparse

from tour_pyserini.command import CommandParser

DESCRIPTION = """\
Run an experiment: every condition on every collection, encoder, index and re-ranker of a YAML file. Runs that exist and
were made with the same settings from the same files are not made again, so the same command continues an interrupted
experiment. The exit code is 1 if a score differs from the expected one."""

EXAMPLES = """examples:
  python -m tour_pyserini.experiment demo
  python -m tour_pyserini.experiment --list
  python -m tour_pyserini.experiment results --data collections --dry-run
  python -m tour_pyserini.experiment results --data collections --collection cacm --condition dense mix
  python -m tour_pyserini.experiment results --data collections --report --output report"""

_ACTIONS = {
    "--list": "list the parts of the file; without a file, the experiments that come with the package",
    "--dry-run": "print the equivalent commands, and do nothing",
    "--report": "measure existing runs and write tables and figures; search nothing",
    "--write-expected": "measure existing runs and write their scores into the file, as expected scores",
    "--pack": "write the runs of each setup into one small file, to store in a repository",
    "--unpack": "write TREC runs from the files that --pack wrote, if they do not exist",
    "--time-labels": "measure the time of a label, for seconds per query in the report",
}

_PARTS = {
    "--condition": "conditions; the name of a sweep chooses all its values",
    "--collection": "collections",
    "--encoder": "encoders",
    "--index": "kinds of index",
    "--reranker": "re-rankers",
}


def experiment_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.experiment`."""
    parser = CommandParser("experiment", description=DESCRIPTION, epilog=EXAMPLES, allow_abbrev=False)
    parser.add_argument("experiment", nargs="?", help="a YAML file, or the name of one that comes with the package")
    actions = parser.add_argument_group("action (default: make the missing runs, then measure all)")
    exclusive = actions.add_mutually_exclusive_group()
    for flag, text in _ACTIONS.items():
        exclusive.add_argument(flag, action="store_true", help=text)
    parts = parser.add_argument_group("parts of the experiment (default: all)")
    for flag, text in _PARTS.items():
        parts.add_argument(flag, nargs="+", default=[], metavar="NAME", help=f"only these {text}")
    add = parser.add_argument_group("paths").add_argument
    add("--data", metavar="DIR", help="the folder of collections and models: the value of ${DATA} in the file")
    add("--runs", metavar="DIR", default="runs", help="runs are written to DIR/EXPERIMENT")
    add("--indexes", metavar="DIR", default="indexes", help="the folder of indexes; missing ones are built")
    add("--cache", metavar="FILE", help="the score cache (default: scores.sqlite in the cache folder)")
    add("--output", metavar="DIR", help="the folder of the report (default: RUNS/EXPERIMENT/report)")
    return parser
