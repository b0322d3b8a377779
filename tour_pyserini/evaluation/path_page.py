"""The page of one query path: the files of the service's page and the events of the path in one HTML file."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILES = Path(__file__).resolve().parents[1] / "service" / "static"
"""The page that the service shows: HTML, style and modules of JavaScript."""

_IMPORT = re.compile(r'^import .* from "\./(.*)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_POLICY = re.compile(r"(?<=Content-Security-Policy\" content=\").*?(?=\">)")


def as_page(recorded: Mapping[str, Any]) -> str:
    """A self-contained HTML page that shows a recorded search.

    Args:
        recorded: `query`; `events`, in the order in which the service sends them; `relevant`, docids judged relevant;
            `texts`, docid to whole passage.
    """
    style, script = _read("page.css"), _one_module("main.js", set())
    # "<" could end the element; JSON may write it as an escape.
    data = json.dumps(recorded, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    page = _read("index.html")
    for old, new in (
        ('<link rel="stylesheet" href="page.css">', f"<style>{style}</style>"),
        (
            '<script type="module" src="main.js"></script>',
            f'<script type="application/json" id="recorded">{data}</script>\n<script type="module">{script}</script>',
        ),
    ):
        before, _, after = page.partition(old)
        page = before + new + after
    return _POLICY.sub(
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "require-trusted-types-for 'script'",
        page,
        count=1,
    )


def _one_module(name: str, done: set[str]) -> str:
    """A module with all that it imports before it. Names at the top level are unique among the page's modules."""
    done.add(name)
    source = _read(name)
    before = "".join(_one_module(other, done) for other in _IMPORT.findall(source) if other not in done)
    return before + _EXPORT.sub("", _IMPORT.sub("", source))


def _read(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A source of a content security policy: exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
