"""Damaged files, read by the commands in forked processes: none may crash, hang or leave a torn file.

A command that refuses a file raises an exception, which `command.run` turns into one sentence; that is tested once, in
tests/commands.
"""

import contextlib
import importlib
import io
import json
import logging
import math
import os
import re
import select
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from forked import Area
from workload import Step, Workload

LONGEST = 120.0  # seconds of one case, also on a busy machine

# A file of the workload, the step that reads it, and what it consists of.
TARGETS = (
    *(("topics.tsv", "search", "lines"), ("topics.jsonl", "answers", "json"), ("list.json", "convert splits", "json")),
    *(("corpus.jsonl", "answers", "json"), ("qrels.trec", "compare", "lines"), ("a.trec", "compare", "lines")),
    *(("trace.jsonl", "page", "json"), ("encoded/embedding.pkl", "search", "bytes")),
    *(("index/docid", "search", "lines"), ("tiny/tour-index.json", "search text", "json")),
    *(("phrases/tour-phrases.json", "search phrases", "json"), ("tiny/index", "search text", "bytes")),
    *(("phrases/rows", "search phrases", "bytes"), ("phrases/vectors", "search phrases", "bytes")),
    *(("phrases/docid", "search phrases", "lines"), ("phrases/index", "search phrases", "bytes")),
    *(("scores.sqlite", "cache stats", "bytes"), ("scores.sqlite", "cache prune", "bytes")),
)

ODD = (
    *(b"", b" ", b"-", b"NaN", b"inf", b"1e400", b"-1", b"9" * 5000, b"true", b"\xc2\xa0", b"\xed\xa0\x80", b"\x00"),
    *(b"../../x", b"(a+)+$", b"[" * 3000, b'"', b"\\", b"%s", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\xe2\x80\xa8"),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**64, 10**400, 0.5, math.inf, math.nan, [], {}, [None], {"": None}),
    *(part.decode(errors="replace") for part in ODD),
)


def fuzzed(target: tuple[str, str, str], area: Area, workload: Workload, random: Random, cases: int) -> None:
    """Damage a file and run a command, in one process; if it dies or hangs, that is a failure, and another goes on."""
    name, command, kind = target
    step = next(step for step in workload.steps if step.name == command)
    workload.reset()
    file = workload.case / name
    valid, seeds = file.read_bytes(), [str(random.getrandbits(64)) for _ in range(cases)]
    while seeds:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read)
            _work(workload, step, file, lambda seed: damaged(valid, kind, Random(seed)), seeds, write)
        os.close(write)
        with open(read, encoding="utf-8") as lines:
            while select.select([lines], [], [], LONGEST)[0] and (line := lines.readline()):
                area.add(seeds.pop(0), line.strip() or None)
            if seeds:
                os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if seeds:
            area.add(seeds.pop(0), f"the process hung, or ended with exit code {code}")


def _work(
    workload: Workload, step: Step, file: Path, content: Callable[[str], bytes], seeds: list[str], pipe: int
) -> None:
    try:
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        main = importlib.import_module(f"tour_pyserini.{step.name.split()[0]}").main
        for seed in seeds:
            workload.reset()
            file.write_bytes(content(seed))
            silent = io.StringIO()
            with (
                contextlib.redirect_stdout(silent),
                contextlib.redirect_stderr(silent),
                contextlib.suppress(Exception, SystemExit),
            ):
                main(step.arguments)
            os.write(pipe, f"{workload.left() or ''}\n".encode())
    finally:
        os._exit(0)


def damaged(content: bytes, kind: str, random: Random) -> bytes:
    """A copy with one to three faults; the kind is `bytes`, `lines` (columns become odd too) or `json` (values too)."""
    faults = [flip, flip, cut, insert, *([odd_column] * 4 if kind != "bytes" else [])]
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        content = random.choice([*faults, *([odd_value] * 6 if kind == "json" else [])])(content, random)
    return content


def _place(content: bytes, random: Random, beginning: int) -> int:
    """A position; half of the time in the beginning, where headers are."""
    return random.randrange(random.choice((len(content), min(beginning, len(content)))) + 1)


def flip(content: bytes, random: Random) -> bytes:
    """One bit is another one."""
    place = _place(content, random, 128)
    return (
        content[:place]
        + bytes(byte ^ 1 << random.randrange(8) for byte in content[place : place + 1])
        + content[place + 1 :]
    )


def cut(content: bytes, random: Random) -> bytes:
    """The end, the beginning or a part is missing, or a part is there twice."""
    start, length = _place(content, random, len(content)), random.choice((1, 8, 100, 10_000))
    parts = (content[:start], b""), (b"", content[start:]), (content[:start], content[start + length :])
    return b"".join(random.choice((*parts, (content[: start + length], content[start:]))))


def insert(content: bytes, random: Random) -> bytes:
    """A few bytes that many parsers stumble over."""
    start = _place(content, random, len(content))
    return content[:start] + random.choice((*ODD, random.randbytes(8))) + content[start:]


def odd_column(content: bytes, random: Random) -> bytes:
    """A word becomes something odd, or a line is elsewhere."""
    if random.random() < 0.3:
        lines = content.split(b"\n")
        lines.insert(random.randrange(len(lines)), lines.pop(random.randrange(len(lines))))
        return b"\n".join(lines)
    found = [match.span() for match in re.finditer(rb"[^\s,:=\[\]{}]+", content)] or [(0, 0)]
    start, end = random.choice(found)
    return content[:start] + random.choice(ODD) + content[end:]


def odd_value(content: bytes, random: Random) -> bytes:
    """A value of a JSON file, or of one of its lines, becomes another one of any type, or is missing."""
    lines = content.split(b"\n")
    number = random.randrange(len(lines))
    try:
        value = json.loads(lines[number])
    except (ValueError, RecursionError):
        return content
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        if isinstance(holder, dict | list):
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            places += [(holder, key) for key in keys]
            waiting += [holder[key] for key in keys]
    if places:
        holder, key = random.choice(places)
        if random.random() < 0.3:
            del holder[key]
        else:
            holder[key] = random.choice(ODD_VALUES)
    lines[number] = json.dumps(value).encode()
    return b"\n".join(lines)
