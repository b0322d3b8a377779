"""Whether Pyserini may have a prebuilt index of some name, found out without importing Pyserini and starting Java."""

import importlib.util
import re
from pathlib import Path

# Pyserini's files that contain the names of its prebuilt indexes, and their older names.
_FILES = ("prebuilt_index_info.py", "search/faiss/_searcher.py")
_LOOP = re.compile(r"\bfor \w+(, ?\w+)* in ")


def may_be_prebuilt(name: str) -> bool:
    """Whether the installed Pyserini may know a prebuilt index with this name; true if that cannot be found out.

    The names are string literals in Pyserini's source, so a name that is not among them is not one of Pyserini's. If
    the source computes names in a loop, Pyserini itself has to be asked.
    """
    spec = importlib.util.find_spec("pyserini")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        try:
            texts = [(Path(folder) / file).read_text(encoding="utf-8") for file in _FILES]
        except (OSError, UnicodeDecodeError):
            return True
        listed = any(f"{quote}{name}{quote}" in text for text in texts for quote in "'\"")
        return listed or _LOOP.search(texts[0]) is not None or "FAISS_INDEX_INFO" not in texts[0]
    return True
