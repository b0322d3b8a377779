"""What mkdocs does besides rendering.

`<!-- help: search -->` in a page becomes what `python -m tour_pyserini.search --help` says, and
`<!-- file: SECURITY.md -->` the content of that file of the repository. With the plugin `offline`
the theme loads a script from a server; the site has its own instead.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "assets/iframe-worker.js"
FOREIGN_SCRIPT = re.compile(r"""<script src=["']?https://[^>]*/iframe-worker/shim["']?></script>""")
FILE = re.compile(r"<!-- file: ([A-Z]+\.md) -->")
HELP = re.compile(r"<!-- help: ([a-z_ -]+) -->")


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Put the help texts and the files of the repository into a page."""
    markdown = FILE.sub(lambda match: (ROOT / match[1]).read_text(encoding="utf-8"), markdown)
    return HELP.sub(lambda match: f"```text\n{_help(match[1])}```", markdown)


def on_post_page(output: str, page: Page, **kwargs: Any) -> str:
    """Load the site's own script in the place of the foreign one."""
    return FOREIGN_SCRIPT.sub(f'<script src="{get_relative_url(SCRIPT, page.url)}"></script>', output)


def on_post_template(output_content: str, **kwargs: Any) -> str:
    """The page for addresses that do not exist needs no script."""
    return FOREIGN_SCRIPT.sub("", output_content)


def _help(command: str) -> str:
    """What --help-all says, or --help where a command has no other."""
    text = _said(command, "--help")
    return _said(command, "--help-all") if "--help-all" in text else text


def _said(command: str, flag: str) -> str:
    name, *words = command.split()
    program = [sys.executable, "-m", f"tour_pyserini.{name}", *words, flag]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout
