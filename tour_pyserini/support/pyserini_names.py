"""Names that Pyserini knows, found out without importing Pyserini and starting Java.

The names are string literals in Pyserini's source. Where the source looks different from what is expected here, every
name may be one of Pyserini's, and Pyserini itself has to be asked.
"""

import contextlib
import importlib.util
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line

_LOOP = re.compile(r"\bfor \w+(, ?\w+)* in ")


def may_be_prebuilt(name: str) -> bool:
    """Whether the installed Pyserini may have a prebuilt index with this name."""
    text = _source("prebuilt_index_info.py")
    # A loop in this file would compute names.
    known_layout = text is not None and "FAISS_INDEX_INFO" in text and not _LOOP.search(text)
    # The searcher translates older names.
    return not known_layout or _quotes(text, name) or _quotes(_source("search/faiss/_searcher.py"), name)


def may_be_topics(name: str) -> bool:
    """Whether the installed Pyserini may have topics with this name."""
    text = _source("search/_base.py")
    return text is None or "topics_mapping = {" not in text or _quotes(text, name)


def open_prebuilt(name: str, open_index: Callable[[], Any]) -> Any:
    """Open one of Pyserini's prebuilt indexes; it is downloaded the first time.

    Args:
        name: its name.
        open_index: Pyserini's function, which prints why it failed and returns None.

    Returns:
        What Pyserini returned; None if it does not know the name.

    Raises:
        TourError: if it knows the name, but the index cannot be downloaded or opened.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            opened = open_index()
        reason = (printed.getvalue().strip().splitlines() or ["no reason is given"])[-1]
    except Exception as error:  # Pyserini and Java raise errors of many types
        opened, reason = None, first_line(error)
    if opened is None and "Unrecognized index name" not in reason:
        raise TourError(
            f"the prebuilt index {name!r} cannot be opened ({reason.rstrip('.')}); it is downloaded the first time: "
            "check the network, or give a local folder."
        )
    return opened


def _source(file: str) -> str | None:
    """The text of one of Pyserini's files; None if there is no such file."""
    spec = importlib.util.find_spec("pyserini")  # does not import Pyserini
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        try:
            return (Path(folder) / file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
    return None


def _quotes(text: str | None, name: str) -> bool:
    return text is not None and any(f"{quote}{name}{quote}" in text for quote in "'\"")
