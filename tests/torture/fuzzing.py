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
import struct
import time
import warnings
from pathlib import Path
from random import Random
from typing import Any

from results import Area
from workload import Step, Workload

LONGEST = 20.0  # seconds of one case

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


def fuzzed(workload: Workload, seed: int, cases: int) -> list[Area]:
    """The same number of cases for every file; each case has its own seed."""
    areas = []
    for file, name, kind in TARGETS:
        started = time.monotonic()
        area = Area(f"fuzz {file} ({name})")
        step = next(step for step in workload.steps if step.name == name)
        workload.reset()
        valid = (workload.case / file).read_bytes()
        seeds = [f"{seed} {file} {case}" for case in range(-(-cases // len(TARGETS)))]
        _fuzz(area, workload, step, workload.case / file, valid, kind, seeds)
        area.seconds = time.monotonic() - started
        areas.append(area)
    return areas


def _fuzz(area: Area, workload: Workload, step: Step, file: Path, valid: bytes, kind: str, seeds: list[str]) -> None:
    """Run cases in a process; if it dies or hangs, that is a failure, and another process goes on after it."""
    done = 0
    while done < len(seeds):
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read)
            _work(workload, step, file, valid, kind, seeds[done:], write)
        os.close(write)
        with open(read, encoding="utf-8") as lines:
            while select.select([lines], [], [], LONGEST)[0] and (line := lines.readline()):
                area.add(seeds[done], line.strip() or None)
                done += 1
            if done < len(seeds):
                os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if done < len(seeds):
            area.add(seeds[done], f"the process hung, or ended with exit code {code}")
            done += 1


def _work(workload: Workload, step: Step, file: Path, valid: bytes, kind: str, seeds: list[str], pipe: int) -> None:
    try:
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        main = importlib.import_module(f"tour_pyserini.{step.name.split()[0]}").main
        for seed in seeds:
            workload.reset()
            file.write_bytes(damaged(valid, kind, Random(seed)))
            silent = io.StringIO()
            with (
                contextlib.redirect_stdout(silent),
                contextlib.redirect_stderr(silent),
                contextlib.suppress(Exception, SystemExit),
            ):
                main(step.arguments)
            left = workload.temporaries()
            os.write(pipe, f"{f'left {left}' if left else ''}\n".encode())
    finally:
        os._exit(0)


def damaged(content: bytes, kind: str, random: Random) -> bytes:
    """A copy with one to three faults; the kind is `bytes`, `lines` (columns become odd too) or `json` (values too)."""
    faults = [*BYTES, *([odd_column] * 4 if kind != "bytes" else []), *([odd_value] * 6 if kind == "json" else [])]
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        content = random.choice(faults)(content, random)
    return content


def flip(content: bytes, random: Random) -> bytes:
    """One bit, half of the time in the first 128 bytes, where headers are."""
    if not content:
        return content
    changed = bytearray(content)
    changed[random.randrange(random.choice((len(changed), min(128, len(changed)))))] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut(content: bytes, random: Random) -> bytes:
    """The end, the beginning or a part is missing, or a part is there twice."""
    start, length = random.randrange(len(content) + 1), random.choice((1, 8, 100, 10_000))
    return random.choice(
        (
            content[:start],
            content[start:],
            content[:start] + content[start + length :],
            content[: start + length] + content[start:],
        )
    )


def insert(content: bytes, random: Random) -> bytes:
    """A few bytes that many parsers stumble over."""
    start = random.randrange(len(content) + 1)
    return content[:start] + random.choice((*ODD, random.randbytes(8))) + content[start:]


def huge(content: bytes, random: Random) -> bytes:
    """A binary number becomes very large, negative or odd; headers have the numbers that memory is allocated by."""
    start = random.randrange(random.choice((len(content) + 1, min(200, len(content) + 1))))
    number = random.choice((2**31 - 1, 2**31, 2**40, 2**62, 2**63, 2**64 - 1, 0, 1))
    raw = random.choice((struct.pack("<Q", number), struct.pack("<Q", number)[:4], struct.pack("<d", math.nan)))
    return content[:start] + raw + content[start + len(raw) :]


BYTES = (flip, flip, cut, insert, huge)


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
