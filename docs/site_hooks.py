"""What mkdocs does besides rendering: `<!-- help: search -->` becomes what `python -m tour_pyserini.search --help` says."""

import os
import re
import subprocess
import sys
from typing import Any

HELP = re.compile(r"<!-- help: ([a-z_ -]+) -->")


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Put the help texts into a page."""
    return HELP.sub(lambda match: f"```text\n{_help(match[1])}```", markdown)


def _help(command: str) -> str:
    name, *words = command.split()
    done = subprocess.run(
        [sys.executable, "-m", f"tour_pyserini.{name}", *words, "--help"],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
