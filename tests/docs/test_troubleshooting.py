"""Every message of docs/troubleshooting.md exists in the source, word for word."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
FENCED = re.compile(r"^```text\n(.*?)\n^```", re.MULTILINE | re.DOTALL)


def as_message(node):
    """The text of a string of the source, with `…` for each part that is filled in; None if it is not a string."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%(\.\d)?[sdrfg]", "…", node.value)
    return None


@pytest.fixture(scope="module")
def messages():
    files = (ROOT / "tour_pyserini").rglob("*.py")
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    return {message for message in map(as_message, nodes) if message}


@pytest.mark.parametrize("message", FENCED.findall(PAGE.read_text(encoding="utf-8")))
def test_the_message_exists_in_the_source(message, messages):
    assert " ".join(message.split("\n")) in messages  # a long message fills two lines of the page
