"""Loading a phrase encoder from a folder or from the model hub."""

import os
import re
from pathlib import Path

from tour_pyserini.encoders.phrases.phrase_encoder import PhraseEncoder
from tour_pyserini.encoders.phrases.phrase_model import has_phrase_weights, read_phrase_model
from tour_pyserini.encoders.phrases.phrase_settings import read_encoder_settings
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.checkpoints import read_tokenizer
from tour_pyserini.support.model_files import OLD_WEIGHTS, SAFE_WEIGHTS, SMALL_FILES

TOKENIZER = "SpanBERT/spanbert-base-cased"
"""The tokenizer of DensePhrases, for its published folders that contain none."""
HUB_NAME = re.compile(r"([\w-][\w.-]*/)?[\w-][\w.-]*")
"""`roberta-large` or `owner/name`; not a path with several slashes, or one that begins with a dot or a tilde."""


def load_phrase_encoder(
    spec: str | os.PathLike[str], *, device: str = "cpu", tokenizer: str | None = None
) -> PhraseEncoder:
    """Load a phrase encoder.

    Args:
        spec: a folder made by `python -m tour_pyserini.train phrase-encoder`, or a checkpoint of DensePhrases: its
            folder, or its name on the model hub (`princeton-nlp/densephrases-multi-query-multi`).
        device: `cpu`, `cuda:0`, ...
        tokenizer: folder or name of the tokenizer, if the model's folder has none.

    Example:
        load_phrase_encoder("models/phrases").encode("who wrote hamlet")  # float32 [768]
    """
    folder = find_model(spec)
    if not has_phrase_weights(folder):
        raise TourError(f"{folder} is not a phrase encoder: config.json or the weights are missing.")
    tokens = read_tokenizer(find_model(tokenizer or (folder if _has_tokenizer(folder) else TOKENIZER)))
    return PhraseEncoder(read_phrase_model(folder), tokens, read_encoder_settings(folder), device=device)


def find_model(spec: str | os.PathLike[str]) -> Path:
    """The folder of a model; a model with this name on the model hub is downloaded if there is no such folder.

    Raises:
        TourError: if there is no such folder, and the model cannot be downloaded or `spec` is not a name.
    """
    folder = Path(spec).expanduser()
    if folder.is_dir():
        return folder
    if isinstance(spec, os.PathLike) or folder.exists() or not HUB_NAME.fullmatch(spec) or spec == "default":
        raise TourError(f"there is no model {spec}; give the folder of a model, or its name on the model hub.")
    from huggingface_hub import snapshot_download

    try:
        patterns = [*SMALL_FILES, *SAFE_WEIGHTS, *OLD_WEIGHTS]
        return Path(snapshot_download(str(spec), allow_patterns=patterns, ignore_patterns=["*/*"]))
    except Exception as error:
        raise TourError(
            f"{str(spec)!r} is not a folder, and no model of this name can be downloaded ({first_line(error)}); "
            "check the name and the connection."
        ) from error


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt", "tokenizer_config.json"))
