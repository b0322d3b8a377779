"""From a classifier's logits to one score per pair."""

import numpy as np

from tour_pyserini.errors import TourError


def relevance(logits: np.ndarray, name: str) -> np.ndarray:
    """One raw logit per pair.

    Args:
        logits: [n] or [n, 1], taken as they are; or [n, 2] (not relevant, relevant), whose difference is the
            log-odds of relevance.
        name: the model, for the message.

    Returns:
        float64 [n].
    """
    logits = np.asarray(logits, dtype=np.float64)
    if logits.ndim == 1:
        return logits
    if logits.ndim == 2 and logits.shape[1] == 1:
        return logits[:, 0]
    if logits.ndim == 2 and logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    raise wrong_outputs(name, logits.shape[1] if logits.ndim == 2 else "no row of")


def wrong_outputs(name: str, count: object) -> TourError:
    """The complaint about a model that is no re-ranker."""
    return TourError(f"{name} gives {count} outputs per pair; a re-ranker has one or two, choose another model.")
