"""Queries are encoded as the passages of the index were."""

import logging
import os
from pathlib import Path
from typing import Any

from tour_pyserini.encoders.loading import encoder_fingerprint, needs_pooling
from tour_pyserini.encoders.model_folder import DEFAULT
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline.request import flag_name
from tour_pyserini.stores.index_folder import IndexSettings, read_index_settings

log = logging.getLogger(__name__)


def encoder_options(
    index: str | os.PathLike[str],
    encoder: str | None,
    *,
    encoder_class: str | None = None,
    pooling: str | None = None,
    l2_norm: bool | None = None,
    truncate_dim: int | None = None,
    trust_remote_code: bool = False,
    flag: str = "--encoder",
) -> dict[str, Any]:
    """The encoder of queries for an index, as `load_query_encoder` takes it: what was said, else what built the index.

    Forgetting the pooling that built an index gives vectors of the right size and the wrong meaning. An index may come
    from anyone: the encoder that it names is used without being asked for only if it is the default encoder, or a local
    folder with the recorded content. Messages name `flag`, by which the encoder is said.

    Raises:
        TourError: if the index's own encoder may not be used, or if an option contradicts what built the index.
    """
    said = {"pooling": pooling, "l2_norm": l2_norm, "truncate_dim": truncate_dim}
    made = read_index_settings(index)
    if made is None:
        return {"spec": encoder or DEFAULT, "encoder_class": encoder_class, **said}
    encoder_class = encoder_class or made.encoder_class
    if encoder is None and made.encoder != DEFAULT and not Path(made.encoder).is_dir():
        raise TourError(
            f"{index} was built with the encoder {made.encoder!r}, which is not a folder of this machine; "
            f"if you trust it, say {flag} {made.encoder}."
        )
    spec = encoder or made.encoder
    found = encoder_fingerprint(spec, encoder_class, trust_remote_code=trust_remote_code)
    # Older records hold the name of an encoder on the model hub; it proves nothing about the content of a folder.
    same = made.fingerprint == found or (encoder is not None and made.fingerprint == encoder)
    if not same and encoder is None and made.encoder != DEFAULT:
        raise TourError(
            f"the encoder {made.encoder} is not the one that {index} was built with: its files have changed; "
            f"say {flag} {made.encoder} to use it all the same, or build the index again."
        )
    if not same:
        log.warning("%s was built with %s and is searched with %s: do they belong together?", index, made.encoder, spec)
        return {"spec": spec, "encoder_class": encoder_class, **said}
    _refuse_contradictions(index, made, said)
    asked = {name: made.asked.get(name) for name in said}
    if asked["pooling"] is None and needs_pooling(spec, encoder_class, trust_remote_code=trust_remote_code):
        asked["pooling"] = made.pooling  # an earlier version did not ask for it
    return {"spec": spec, "encoder_class": encoder_class, **asked}


def _refuse_contradictions(index: str | os.PathLike[str], made: IndexSettings, said: dict[str, Any]) -> None:
    for name, value in said.items():
        built = getattr(made, name)
        if value is not None and value != built and (built is not None or name == "truncate_dim"):
            flag = flag_name(name) if value is not False else flag_name(f"no_{name}")
            raise TourError(
                f"{index} was built with {name} {built}, which {flag} contradicts: its queries would be encoded "
                f"differently from its passages; leave {flag} out, or build the index again."
            )
