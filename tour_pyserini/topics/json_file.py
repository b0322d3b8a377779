"""A JSON file as a whole, with errors that name the line."""

import gzip
import json
import os
import zlib
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError


def load_json(path: str | os.PathLike[str]) -> Any:
    """The value that a UTF-8 JSON file, `.gz` or plain, holds."""
    path = Path(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            raw = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise TourError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TourError(f"{path}, line {line} is not UTF-8; convert the file.") from None
    except json.JSONDecodeError as error:
        raise TourError(f"{path}, line {error.lineno}, column {error.colno} is not JSON: {error.msg}.") from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise TourError(f"{path} is not JSON that can be read: {str(error).partition(';')[0]}.") from None
    except RecursionError:
        raise TourError(f"{path} is not JSON that can be read: it is nested too deeply.") from None
