"""The examples of README.md and docs/*.md: shell commands and Python code, in the order of the page."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# An indented block is shell if its first line begins like this.
SHELL = re.compile(r"(python|ir_measures|make|pip|for) |[A-Z]+=")
FENCE = re.compile(r'```(\w*)(?: title="(.+)")?$')


class Example(NamedTuple):
    """One block of a page: `shell`, or `python` with the name of the file to save it in, if it has one."""

    kind: str
    text: str
    file: str | None
    line: int


def examples(page):
    """The examples of a page, in its order."""
    lines = page.read_text(encoding="utf-8").split("\n")
    found, start = [], 0
    while start < len(lines):
        if fence := FENCE.match(lines[start]):
            end = lines.index("```", start + 1)
            kind = {"python": "python", "bash": "shell", "sh": "shell", "shell": "shell"}.get(fence[1])
            if kind:
                found.append(Example(kind, "\n".join(lines[start + 1 : end]), fence[2], start + 1))
        elif lines[start].startswith("    ") and not lines[start - 1].strip():
            end = next(i for i in range(start, len(lines)) if not lines[i].startswith("    "))
            block = [line[4:] for line in lines[start:end]]
            if SHELL.match(block[0]):
                found.append(Example("shell", "\n".join(block), None, start + 1))
        else:
            end = start
        start = end + 1
    return found
