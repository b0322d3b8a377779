# PYTHON_ARGCOMPLETE_OK
"""Join the shards of a search into one run."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from tour_pyserini.command import run
from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.data.run_records import record_path, rewrite_record
from tour_pyserini.data.topics import TopicIterator
from tour_pyserini.encoders.query_vectors import FILE, read_query_table, write_encoded_queries
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.flags import Request, option, request_parser, words
from tour_pyserini.support.costs import Costs
from tour_pyserini.support.files import atomic_write, check_output, sha256

_OUTPUTS = ("output", "output_queries", "trace", "predictions")
"""The fields of a search request that name what is written."""

# Flags that may differ between shards, and be in some only: where inputs are, which the record identifies by their
# content, and how many processes work. Of the outputs, the same ones are written by all.
_ANYWHERE = {
    *("topics", "qrels", "index", "corpus", "adapter", "sparse", "index2", "run", "reranker", "cache", "shard"),
    *("threads", "reranker-threads", "ray", "ray-workers"),
}
_PLACES = {name.replace("_", "-") for name in _OUTPUTS}


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1) of `count` parts.

    Example:
        >>> Shard.parse("2/3").name("runs/a.trec")
        'runs/a.trec.shard-2-of-3'
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `2/3`.

        Raises:
            TourError: if it is not a number from 1 to n, a slash and n.
        """
        match = re.fullmatch(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,8})", text, re.ASCII)
        if not match or int(match[1]) > int(match[2]):
            raise TourError(f"--shard must be i/n with i from 1 to n, for example 2/3, not {text!r}.")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def name(self, path: str | os.PathLike[str]) -> str:
        """The name of this shard of a file or folder."""
        return f"{os.fspath(path)}.shard-{self.number}-of-{self.count}"

    def part_of(self, topics: TopicIterator, batch_size: int) -> TopicIterator:
        """The topics of this shard.

        Raises:
            TourError: if there are fewer batches than shards.
        """
        batches = -(-len(topics) // batch_size)
        if batches < self.count:
            raise TourError(
                f"--shard {self} needs at least {self.count} batches, and {len(topics)} topics are {batches} of "
                f"{batch_size}; give fewer shards, or a smaller --batch-size."
            )
        first, end = (batches * number // self.count for number in (self.number - 1, self.number))
        return topics.part(topics.order[first * batch_size : end * batch_size])

    def named(self, request: Any) -> Any:
        """A search request that writes the files of this shard."""
        return replace(request, **{name: self.name(path) for name in _OUTPUTS if (path := getattr(request, name))})

    def record(self, flags: Mapping[str, Any], request: Any) -> dict[str, Any]:
        """What `merge` needs to know: which shard it is, of which search, and checksums of its files beside the run.

        Args:
            flags: those of the search; objects, such as a re-ranker, become text.
            request: what was searched, with the names of this shard's files.
        """
        plain = (str, int, float, list, tuple)
        told = {name: value if isinstance(value, plain) else str(value) for name, value in flags.items()}
        paths = {name.replace("_", "-"): getattr(request, name) for name in _OUTPUTS[1:]}
        checksums = {flag: _digest(path) for flag, path in paths.items() if path}
        return {"number": self.number, "count": self.count, "flags": told, "sha256": checksums}


@dataclass(frozen=True, kw_only=True)
class MergeRequest(Request):
    """Join shards; the fields are the arguments of `python -m tour_pyserini.merge`.

    Attributes:
        shards: the run files of all shards, in any order.
        output: the run file; None: what the shards' command calls it.
    """

    shards: tuple[str, ...] = option(MISSING, "the run files of all shards, in any order", positional=True)
    output: str | None = option(None, "the run file (default: as --output of the shards' search)")


class _MergeSummary(NamedTuple):
    """What a merge wrote: the run file, all files, and the sum of the shards' costs."""

    output: Path
    written: Sequence[Path]
    costs: Costs


class _ShardRun(NamedTuple):
    """A shard's run file and its record."""

    run: str
    shard: Shard
    flags: Mapping[str, Any]
    record: Mapping[str, Any]

    def file(self, flag: str) -> Path:
        """What the shard wrote for a flag: where its record says, or beside its run if it was moved there.

        Another file may have the same name: an older one, or the run itself.

        Raises:
            TourError: if neither is what the shard wrote.
        """
        named = Path(self.shard.name(self.flags[flag]))
        for path in (named, Path(self.run).parent / named.name):
            with contextlib.suppress(OSError):
                if _digest(path) == self.record["shard"]["sha256"][flag]:
                    return path
        raise TourError(
            f"{named} is not there, or is not the --{flag} that the shard {self.run} wrote; put it beside its run, or "
            f"search again with --shard {self.shard}."
        )


def merge(request: MergeRequest) -> _MergeSummary:
    """Write the run that one process would have written, and its record, trace, predictions and query vectors.

    Raises:
        TourError: if a shard is missing, is given twice, was changed, or is one of another search.
    """
    parts = _complete([_read(run) for run in request.shards])
    first = parts[0]
    flags = {name: value for name, value in first.flags.items() if name != "shard"}
    if request.output:
        flags["output"] = request.output
    output = Path(flags["output"])
    lines = [name for name in ("trace", "predictions") if name in flags]
    queries = flags.get("output-queries")
    for name in lines:
        if Path(flags[name]).resolve() in (output.resolve(), record_path(output).resolve()):
            raise TourError(f"{flags[name]} is the --{name} of this search; give another --output.")
    for path in (output, *(flags[name] for name in lines)):
        check_output(path, [part.run for part in parts])
    joined = {
        output: [Path(part.run) for part in parts],
        **{Path(flags[name]): [part.file(name) for part in parts] for name in lines},
    }
    tables = [read_query_table(part.file("output-queries")) for part in parts] if queries else []
    costs = Costs.total(Costs.from_record(part.record["costs"]) for part in parts)
    with contextlib.ExitStack() as stack:  # the run appears last, and none of them if one cannot be written
        files = {target: stack.enter_context(atomic_write(target, "wb")) for target in joined}
        for target, sources in joined.items():
            for source in sources:
                with open(source, "rb") as content:
                    shutil.copyfileobj(content, files[target])
            files[target].flush()
        if queries:
            ids, texts, vectors = ([value for table in tables for value in table[column]] for column in range(3))
            write_encoded_queries(queries, ids, texts, np.stack(vectors))
        rewrite_record(first.record, output, files[output].name, command=["search", *words(flags)], costs=costs)
    return _MergeSummary(output, [*joined, *map(Path, filter(None, [queries]))], costs)


def _read(run: str) -> _ShardRun:
    """A shard and its record, which must be that of this file."""
    path = record_path(run)
    if not os.path.isfile(run):
        raise TourError(f"the shard {run} does not exist; give the run files of all shards.")
    if not path.is_file():
        raise TourError(f"the shard {run} has no record {path.name} beside it; copy it there, or search again.")
    try:
        record = read_json_object(path)
        shard = record["shard"]
        found = _ShardRun(run, Shard.parse(f"{shard['number']}/{shard['count']}"), dict(shard["flags"]), record)
        same = record["run"]["sha256"] == sha256(run)
    except (ValueError, TypeError, KeyError, TourError) as error:
        raise TourError(f"{path} is not the record of a shard ({first_line(error)}); search with --shard.") from error
    if not same:
        raise TourError(f"the shard {run} was changed after it was written; search again with --shard {found.shard}.")
    return found


def _complete(parts: Sequence[_ShardRun]) -> list[_ShardRun]:
    """The shards in their order, checked to be all shards of one search."""
    first = parts[0]
    by_number: dict[int, _ShardRun] = {}
    for part in parts:
        mine, others = _identity(part), _identity(first)
        if unlike := [name for name in {**others, **mine} if mine.get(name) != others.get(name)]:
            raise TourError(f"{part.run} and {first.run} are shards of different searches: they differ in {unlike[0]}.")
        if part.shard.number in by_number:
            raise TourError(f"{by_number[part.shard.number].run} and {part.run} are both shard {part.shard}: give one.")
        by_number[part.shard.number] = part
    if missing := [str(number) for number in range(1, first.shard.count + 1) if number not in by_number]:
        raise TourError(
            f"shard {', '.join(missing)} of {first.shard.count} is missing; search it, and give its run too."
        )
    return [by_number[number] for number in sorted(by_number)]


def _identity(part: _ShardRun) -> dict[str, Any]:
    """What must be the same in all shards of a search."""
    record = part.record
    flags = {f"--{name}": name in _PLACES or value for name, value in part.flags.items() if name not in _ANYWHERE}
    versions = {f"the version of {name}": value for name, value in record["versions"].items()}
    files = {f"the {role}": _content(value) for role, value in record["files"].items()}
    found = {name: record[name] for name in ("algorithm", "models", "found")}
    number = {"the number of shards": part.shard.count}
    return {**number, "settings": record["config"], **found, **flags, **versions, **files}


def _content(identity: Any) -> Any:
    """What identifies an input, without its place."""
    if not isinstance(identity, dict):
        return identity
    return {name: _content(value) for name, value in identity.items() if name != "path"}


def _digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of what a search wrote: a file, or a folder of query vectors."""
    return sha256(Path(path) / FILE if os.path.isdir(path) else path)


DESCRIPTION = """\
Join the shards that `search --shard i/n` wrote into the run that one search of all topics would have written, with its
record, trace, predictions and query vectors where the shards have them. Their costs are added up."""

EXAMPLES = """examples:
  python -m tour_pyserini.merge runs/scifact.trec.shard-*-of-3
  python -m tour_pyserini.merge machine-1/run.shard-1-of-2 machine-2/run.shard-2-of-2 --output runs/all.trec"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = request_parser("merge", MergeRequest, description=DESCRIPTION, epilog=EXAMPLES)
    summary = merge(MergeRequest.from_flags(vars(parser.parse_args(argv))))
    sys.stderr.write(f"{', '.join(map(str, summary.written))}: {summary.costs}\n")


if __name__ == "__main__":
    run(main)
