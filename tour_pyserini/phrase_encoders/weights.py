"""The weights of a phrase encoder, under the names that DensePhrases gives them now."""

from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line

SAFE, OLD = "model.safetensors", "pytorch_model.bin"
PARTS = ("phrase_encoder", "query_start_encoder", "query_end_encoder", "filter_linear")
# Names of earlier checkpoints.
RENAMED = {"bert_start": "phrase_encoder", "bert_q_start": "query_start_encoder", "bert_q_end": "query_end_encoder"}


def has_phrase_weights(folder: Path) -> bool:
    """Whether a folder has a file that weights can be in."""
    return (folder / "config.json").is_file() and any((folder / name).is_file() for name in (SAFE, OLD))


def read_parts(folder: Path) -> dict[str, dict[str, Any]]:
    """The weights of each part by name; a part that the checkpoint lacks is not there.

    What else a checkpoint has, such as the teacher it was distilled from, is passed over.

    Raises:
        TourError: if the file cannot be read, or has no query encoders.
    """
    parts: dict[str, dict[str, Any]] = {}
    for name, value in _read(folder).items():
        head, _, rest = name.removeprefix("module.").partition(".")
        part = RENAMED.get(head, head)
        if part in PARTS:
            parts.setdefault(part, {})[rest] = value
    if "query_start_encoder" not in parts or "query_end_encoder" not in parts:
        raise TourError(
            f"{folder} is no phrase encoder: its checkpoint has no query_start_encoder and query_end_encoder; "
            "train one with python -m tour_pyserini.train phrase-encoder."
        )
    return parts


def _read(folder: Path) -> dict[str, Any]:
    try:
        if (folder / SAFE).is_file():
            from safetensors.torch import load_file

            return load_file(folder / SAFE)
        import torch

        return torch.load(folder / OLD, map_location="cpu", weights_only=True)
    except Exception as error:
        raise TourError(f"the weights in {folder} cannot be read ({first_line(error)}); fetch them again.") from error
