"""Queries are encoded as the passages of the index were."""

import logging
import os
from typing import Any

from tour_pyserini.encoders.encoder_loading import encoder_fingerprint
from tour_pyserini.stores.index_settings import read_index_settings

log = logging.getLogger(__name__)


def encoder_options(
    index: str | os.PathLike[str], encoder: str | None, *, pooling: str | None, l2_norm: bool | None
) -> dict[str, Any]:
    """The encoder's `spec`, `pooling` and `l2_norm` for searching an index: what was said, else what built the index.

    Forgetting the pooling that built an index gives vectors of the right size and the wrong meaning.
    """
    made = read_index_settings(index)
    if made is None:
        return {"spec": encoder or "default", "pooling": pooling, "l2_norm": l2_norm}
    spec = encoder or made.encoder
    if encoder_fingerprint(spec) != made.fingerprint:
        log.warning("%s was built with %s and is searched with %s: do they belong together?", index, made.encoder, spec)
    elif made.encoder_class.startswith("Auto"):
        pooling = made.pooling if pooling is None else pooling
        l2_norm = made.l2_norm if l2_norm is None else l2_norm
    return {"spec": spec, "pooling": pooling, "l2_norm": l2_norm}
