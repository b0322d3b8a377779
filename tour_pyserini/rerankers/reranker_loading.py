"""From what a user names to a re-ranker."""

import os
from pathlib import Path
from typing import Any, Protocol

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import onnx_folder as onnx
from tour_pyserini.rerankers import r2d2, seq2seq, sequence_classification
from tour_pyserini.rerankers.cross_encoder import CrossEncoderReranker, is_cross_encoder
from tour_pyserini.rerankers.default_reranker import verify_default_reranker
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.reranker import Reranker
from tour_pyserini.support.checkpoints import downloaded


class Kind(Protocol):
    """A module that knows one kind of model folder, and the back ends that run it."""

    BACKENDS: tuple[str, ...]

    def accepts(self, folder: Path) -> bool:
        """Whether the folder looks like this kind."""
        ...

    def load(self, folder: Path, options: Options, *, name: str) -> Reranker:
        """The re-ranker in it."""
        ...


KINDS: tuple[Kind, ...] = (
    seq2seq,
    r2d2,
    sequence_classification,
    onnx,
)
"""Asked in this order; a new kind is a new module and a line here."""


def load_reranker(
    spec: Any,
    *,
    max_length: int = 512,
    batch_size: int | None = None,
    device: str = "cpu",
    threads: int | None = None,
    backend: str = "auto",
    precision: str | None = None,
) -> Reranker:
    """The re-ranker that `spec` names.

    Args:
        spec: "default"; a folder or a Hugging Face name with a cross-encoder, a monoT5-like or an R2-D2 checkpoint; a
            folder with `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`; or an object with `predict`, used as
            it is (a `sentence_transformers.CrossEncoder` loses its sigmoid). A folder with both is read as a
            checkpoint.
        max_length: tokens per pair, special ones included. The passage is cut and the query kept, unless the query
            alone does not fit; then the longer of the two is cut.
        batch_size: pairs per batch at most; by default as many as fit a number of padded tokens. ONNX Runtime always
            gets one pair per call on a CPU.
        device: "cpu", or what torch or ONNX Runtime call another one ("cuda").
        threads: CPU threads; by default all cores.
        backend: what runs a checkpoint: "onnx" (from a graph that is made once and kept in the cache folder), "torch",
            or "auto", the faster of the two here.
        precision: "fp32", or "int8" for 8-bit weights: faster, with other scores. By default fp32 for checkpoints; ONNX
            models are run as they are.

    Raises:
        TourError: when there is no such model, it is damaged, or it is no re-ranker.

    Example:
        >>> reranker = load_reranker("default")  # doctest: +SKIP
        >>> reranker.predict([("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare.")])  # doctest: +SKIP
        array([9.1084156])
    """
    options = Options(
        max_length=max_length,
        batch_size=batch_size,
        device=device,
        threads=threads,
        backend=backend,
        precision=precision,
    )
    if hasattr(spec, "predict"):
        return CrossEncoderReranker(spec, batch_size=batch_size) if is_cross_encoder(spec) else spec
    if not isinstance(spec, str | os.PathLike):
        raise TourError(f"a re-ranker is a name, a folder or an object with predict, not {type(spec).__name__}.")
    folder = verify_default_reranker() if spec == "default" else _folder(spec)
    for kind in KINDS:
        if kind.accepts(folder):
            _check_backend(kind, options, os.fspath(spec))
            return kind.load(folder, options, name=os.fspath(spec))
    raise TourError(
        f"{folder} holds no re-ranker: neither config.json with weights (*.safetensors), "
        "nor model.onnx with tokenizer.json."
    )


def _check_backend(kind: Kind, options: Options, name: str) -> None:
    wanted = "onnx" if options.precision == "int8" else options.backend
    if wanted not in ("auto", *kind.BACKENDS):
        told = " in int8" if options.precision == "int8" else ""
        raise TourError(f"{name} cannot be run by {wanted}{told}, only by {' or '.join(kind.BACKENDS)}.")


def _folder(spec: str | os.PathLike[str]) -> Path:
    """The folder of that path, or else the download of the model of that name."""
    name = os.fspath(spec)
    path = Path(name).expanduser()
    if name and path.is_dir():
        return path
    if name and path.exists():
        raise TourError(f"the re-ranker {name} is a file; give the folder that holds the model.")
    only_a_path = not isinstance(spec, str) or path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1
    if only_a_path or not name:
        raise TourError(f"there is no re-ranker folder {name!r}; check the path.")
    return downloaded(name)
