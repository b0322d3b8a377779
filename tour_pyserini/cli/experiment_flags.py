"""What the experiment command can be told."""

import argparse

from tour_pyserini.cli.parser import CommandParser

ABOUT = """\
Run an experiment: every condition on every collection, encoder, index and re-ranker of a YAML file. Runs that are there
already, made with the same settings from the same files, are not made again, so an interrupted experiment goes on."""

EXAMPLES = """examples:
  python -m tour_pyserini.experiment demo
  python -m tour_pyserini.experiment --list
  python -m tour_pyserini.experiment results --data collections --dry-run
  python -m tour_pyserini.experiment results --data collections --collection cacm --condition dense mix
  python -m tour_pyserini.experiment results --data collections --report --output report"""


def experiment_parser() -> argparse.ArgumentParser:
    """The parser of `python -m tour_pyserini.experiment`."""
    parser = CommandParser("experiment", description=ABOUT, epilog=EXAMPLES, allow_abbrev=False)
    add = parser.add_argument
    add("experiment", nargs="?", help="a YAML file, or the name of one that comes with the package")
    what = parser.add_argument_group("what is done").add_mutually_exclusive_group()
    add = what.add_argument
    add("--list", action="store_true", help="list what the file names, or the files that come with the package")
    add("--dry-run", action="store_true", help="print the commands and do nothing")
    add("--report", action="store_true", help="measure the runs that are there, search nothing, write the report")
    add(
        "--write-expected",
        action="store_true",
        help="measure the runs that are there and write their scores as expected",
    )
    add("--pack", action="store_true", help="put each cell's runs into one small file, as a repository keeps them")
    add("--unpack", action="store_true", help="write TREC runs from such files, where there are none")
    add("--time-labels", action="store_true", help="measure what a label costs, for seconds per query in the report")

    group = parser.add_argument_group("which part (everything, if not given)")
    for flag in ("--condition", "--collection", "--encoder", "--index", "--reranker"):
        more = "; a sweep's name is all its values" if flag == "--condition" else ""
        group.add_argument(flag, nargs="+", default=[], metavar="NAME", help=f"only these{more}")

    places = parser.add_argument_group("where things are")
    add = places.add_argument
    add("--data", metavar="DIR", help="what ${DATA} in the file stands for: the folder of collections and models")
    add("--runs", metavar="DIR", default="runs", help="runs go to DIR/EXPERIMENT")
    add("--indexes", metavar="DIR", default="indexes", help="indexes are looked for, and built, here")
    add("--cache", metavar="FILE", help="where re-ranker scores are kept (default: as the search command)")
    add("--output", metavar="DIR", help="the report's folder (default: RUNS/EXPERIMENT/report)")
    return parser
