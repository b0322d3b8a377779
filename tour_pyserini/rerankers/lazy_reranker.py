"""A re-ranker whose model is loaded when the first pair is scored; its fingerprint is remembered from the last time."""

import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.remote import is_service_address
from tour_pyserini.rerankers.reranker import Pair, Part, Reranker, checked_parts
from tour_pyserini.rerankers.reranker_loading import has_registered_kinds, load_reranker, model_folder
from tour_pyserini.support.hardware import cpu_flags
from tour_pyserini.support.model_files import module_files
from tour_pyserini.support.optional import version_of
from tour_pyserini.support.remembered import content_hash, recall, remember

_LIBRARIES = ("torch", "transformers", "tokenizers", "onnx", "onnxruntime", "sentence-transformers")
_VERSION = 2  # change it when fingerprints are computed in another way


def load_reranker_later(spec: Any, **options: Any) -> Reranker:
    """A re-ranker with a fingerprint whose model is loaded when it is needed, if it was loaded on this machine before.

    With a score cache around it, a search whose labels are all stored loads no model at all. The first time, and for
    objects, services and registered kinds of re-rankers, the model is loaded at once, as `load_reranker` does.

    Args:
        spec: as in `load_reranker`.
        options: as in `load_reranker`.
    """
    if not isinstance(spec, str | os.PathLike) or is_service_address(spec) or has_registered_kinds():
        return load_reranker(spec, **options)
    folder = model_folder(spec, code=bool(options.get("trust_remote_code")))
    # The name of a model can say which prompt it reads, and a prompt can be a file.
    state = [*_state(folder), Path(spec).name, *_prompt_state(options.get("prompt"))]
    name = f"{folder.resolve()} {sorted(options.items())}"

    def load() -> Any:
        reranker = load_reranker(spec, **options)
        fingerprint = getattr(reranker, "fingerprint", None)
        # A re-ranker with `reads` decides itself what the keys of the score cache are made of.
        if isinstance(fingerprint, str) and not hasattr(reranker, "reads"):
            remember("re-ranker", name, state, fingerprint)
        return reranker

    known = recall("re-ranker", name, state)
    return LazyReranker(os.fspath(spec), known, load) if known else load()


class LazyReranker:
    """Loads a re-ranker when the first pair is scored.

    Args:
        name: the name of the re-ranker, for messages.
        fingerprint: what its fingerprint was the last time that it was loaded.
        load: loads it.
    """

    def __init__(self, name: str, fingerprint: str, load: Callable[[], Any]) -> None:
        self.name, self.fingerprint = name, fingerprint
        self.on_progress: Callable[[int], None] | None = None
        self._load = load
        self._loaded: Any = None

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Compute raw logits, float64 [len(pairs)]; higher is more relevant.

        Raises:
            TourError: if the fingerprint is no longer the remembered one, for example because ONNX Runtime was removed.
        """
        return self._reranker().predict(pairs)

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Compute the same logits part by part, as the loaded re-ranker yields them."""
        yield from checked_parts(self._reranker(), pairs)

    def _reranker(self) -> Any:
        if self._loaded is None:
            reranker = self._load()
            if reranker.fingerprint != self.fingerprint:
                raise TourError(
                    f"the re-ranker {self.name} is not the one that was loaded before: its files or the libraries "
                    "that run it have changed; run the command again."
                )
            self._loaded = reranker
        self._loaded.on_progress = self.on_progress
        return self._loaded


def _prompt_state(prompt: str | None) -> list[str]:
    return [content_hash(prompt)] if prompt is not None and Path(prompt).is_file() else []


def _state(folder: Path) -> list[str | int]:
    """Everything that decides about the fingerprint: the model's files, and what can run the model here."""
    paths = (*folder.iterdir(), *(folder / "onnx").glob("*"), *module_files(folder))
    files = sorted({path for path in paths if path.is_file()})
    contents = [f"{path.relative_to(folder).as_posix()} {content_hash(path)}" for path in files]
    packages = [f"{name} {version_of(name)}" for name in _LIBRARIES]
    return [_VERSION, *contents, *packages, *(cpu_flags() or ("unknown processor",))]
