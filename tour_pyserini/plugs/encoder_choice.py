"""Which files an encoder is loaded from, and how its token vectors become one."""

import os
from pathlib import Path
from typing import NamedTuple

from tour_pyserini.errors import TourError
from tour_pyserini.plugs.default_encoder import verify_default_encoder
from tour_pyserini.plugs.model_folder import read_model_folder

DEFAULT = "default"


class EncoderChoice(NamedTuple):
    """What to load; `is_folder` where the class is `auto` and Pyserini must not guess it from the path."""

    name: str
    is_folder: bool
    pooling: str
    l2_norm: bool


def choose_encoder(
    spec: str | os.PathLike[str], encoder_class: str | None, pooling: str | None, l2_norm: bool | None
) -> EncoderChoice:
    """Where to load from, and with which pooling and norm; see `load_query_encoder` for the arguments.

    Raises:
        TourError: if there is no such folder, or it needs what Pyserini's encoders do not have.
    """
    folder = verify_default_encoder() if spec == DEFAULT else Path(spec)
    if not folder.is_dir() and (isinstance(spec, os.PathLike) or folder.is_absolute() or str(spec).startswith(".")):
        raise TourError(f"there is no encoder folder {folder}.")
    if not folder.is_dir() or encoder_class not in (None, "auto"):
        name = str(folder) if folder.is_dir() else str(spec)
        return EncoderChoice(name, False, pooling or "cls", bool(l2_norm))
    if pooling not in (None, "cls", "mean"):
        raise TourError(f"the encoder class auto has pooling cls and mean, not {pooling!r}.")
    if pooling is not None and l2_norm is not None:
        return EncoderChoice(str(folder), True, pooling, l2_norm)
    declared = read_model_folder(folder)
    return EncoderChoice(
        str(declared.weights), True, pooling or declared.pooling, declared.l2_norm if l2_norm is None else l2_norm
    )
