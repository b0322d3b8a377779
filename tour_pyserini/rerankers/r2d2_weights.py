"""R2-D2's weights: as they were published, or as safetensors with the same names."""

from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.checkpoint import is_checkpoint
from tour_pyserini.rerankers.optional import imported

ENCODER, HEAD = "encoder.", "vt.weight"
"""How weights are called: those of the encoder, and the row [1, hidden] that makes its pooled output a score."""


def has_weights(folder: Path) -> bool:
    """Whether there is a published checkpoint and no other, or safetensors with R2-D2's head."""
    return bool(published(folder)) or any(HEAD in _names(path) for path in folder.glob("*.safetensors"))


def published(folder: Path) -> list[Path]:
    """The files `*.ckpt`; beside weights of the usual names they are a training's left-overs and do not count."""
    return [] if is_checkpoint(folder) else sorted(folder.glob("*.ckpt"))


def read_weights(folder: Path) -> dict[str, Any]:
    """Tensors by name, the head among them."""
    files = published(folder)
    if len(files) > 1:
        raise TourError(f"{folder} holds {len(files)} files *.ckpt; leave one.")
    try:
        if files:
            weights = _tensors(files[0])
        else:
            read = imported("safetensors.torch").load_file
            weights = {name: value for path in folder.glob("*.safetensors") for name, value in read(path).items()}
    except TourError:
        raise
    except Exception as error:  # whatever a damaged file provokes
        reason = first_line(error)
        raise TourError(f"the weights in {folder} cannot be read ({reason[:200]}); fetch them again.") from error
    if HEAD not in weights:
        raise TourError(f"{folder} is no R2-D2 re-ranker: its checkpoint lacks {HEAD}.")
    return weights


def _tensors(path: Path) -> dict[str, Any]:
    """The tensors of a published checkpoint, which is pickled together with objects of its training's.

    Whatever classes it names are replaced by one that does nothing, so no code of theirs runs.
    """
    torch = imported("torch")
    named = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    with torch.serialization.safe_globals([(_Nothing, name) for name in named]):
        content = torch.load(path, map_location="cpu", weights_only=True)
    weights = content.get("model", content)
    return {name: value for name, value in weights.items() if isinstance(value, torch.Tensor)}


class _Nothing:
    """Takes what any other object would be made of, and keeps none of it."""

    def __new__(cls, *_: object) -> "_Nothing":
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        pass


def _names(path: Path) -> set[str]:
    try:
        with imported("safetensors").safe_open(path, framework="np") as file:
            return set(file.keys())
    except Exception:  # damaged: whoever loads it will say so
        return set()
