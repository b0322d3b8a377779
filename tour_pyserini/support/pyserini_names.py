"""Names that Pyserini knows, found out without importing Pyserini and starting Java.

The names are string literals in Pyserini's source. Where the source looks different from what is expected here, every
name may be one of Pyserini's, and Pyserini itself has to be asked.
"""

import importlib.util
import re
from pathlib import Path

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
