"""Static embeddings in a folder of model2vec: a table of token vectors, without a transformer."""

from pathlib import Path
from typing import Any

from tour_pyserini.encoders.sentence_model import ModelOptions, is_modular
from tour_pyserini.encoders.text_runner import FunctionRunner
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.support.devices import does_not_fit
from tour_pyserini.support.optional import import_optional

TENSORS = {"embeddings", "weights", "mapping"}
"""Names of all that such a model consists of."""


def is_static(folder: Path) -> bool:
    """Whether the folder holds a model of model2vec alone; with `modules.json`, sentence-transformers runs it."""
    path = folder / "model.safetensors"
    if is_modular(folder) or not path.is_file() or not (folder / "tokenizer.json").is_file():
        return False
    try:
        with import_optional("safetensors").safe_open(path, "np") as weights:
            return "embeddings" in weights.keys() and set(weights.keys()) <= TENSORS  # noqa: SIM118 (not a mapping)
    except Exception:  # a damaged file: whoever loads the folder says what is wrong
        return False


def static_runner(folder: Path, options: ModelOptions) -> FunctionRunner:
    """The model as a function; model2vec itself runs it.

    Raises:
        TourError: if something is asked for that static embeddings do not have.
    """
    for name in ("pooling", "l2_norm", "tokenizer"):
        if getattr(options, name) is not None:
            raise TourError(f"the static embeddings in {folder} have no {name} to choose; leave it out.")
    model = import_optional("model2vec", extra="static").StaticModel.from_pretrained(
        str(folder), dimensionality=options.truncate_dim
    )

    def encode(texts: list[str]) -> Any:
        try:
            return model.encode(texts)
        except IndexError as error:
            raise does_not_fit(folder, first_line(error)) from error

    return FunctionRunner(encode, pooling="mean", l2_norm=bool(model.normalize), truncate_dim=options.truncate_dim)
