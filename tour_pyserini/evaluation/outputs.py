"""Where a command writes, checked before it computes."""

import os
from collections.abc import Iterable

from tour_pyserini.errors import TourError
from tour_pyserini.files import check_place


def check_output(output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str] | None]) -> None:
    """Refuse an output that cannot be written, or that is one of the inputs; an input of None was not given."""
    for path in inputs:
        if path is not None and os.path.exists(path) and os.path.exists(output) and os.path.samefile(path, output):
            raise TourError(f"{output} would be written over the input {path}; choose another output.")
    check_place(output)
