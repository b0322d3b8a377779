"""Which tokens are worth a place in the index."""

import numpy as np
from numpy.typing import NDArray

from tour_pyserini.phrases.rows import ENDS, STARTS, Rows


def filtered(rows: Rows, logits: NDArray[np.floating], threshold: float) -> tuple[Rows, NDArray[np.int64]]:
    """The rows of one passage that keep a role, and where they were.

    A token keeps a role if the filter's logit for it is above the threshold. The best start and the best end are kept
    in any case, so that every passage that has words has a phrase when one end follows the other.

    Args:
        rows: [r] rows of one passage.
        logits: [r, 2] how likely an answer begins and ends with each of them.
        threshold: minus infinity keeps everything.

    Returns:
        rows [k] and their positions [k].
    """
    rows = rows.copy()
    for column, role in enumerate((STARTS, ENDS)):
        able = np.flatnonzero(rows["roles"] & role)
        if len(able):
            lost = able[~(logits[able, column] > threshold)]
            rows["roles"][np.setdiff1d(lost, able[logits[able, column].argmax()])] &= ~np.uint8(role)
    kept = np.flatnonzero(rows["roles"])
    return rows[kept], kept
