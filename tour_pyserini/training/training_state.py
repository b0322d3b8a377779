"""The state of an unfinished training on disk, from which it continues after an interruption."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_write, remove_folder, writing_to
from tour_pyserini.support.resumable import LOCK, lock_folder, refuse_other_settings


class Checkpoints:
    """The folder of an unfinished training: its settings, its last state, and the best model so far.

    Opened again with the same settings, it has the last state and all other files that were put there; opened with
    other settings, it raises a TourError. While it is open, no other process can open it. If it is closed before
    anything was saved, it is deleted.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._lock = lock_folder(folder)
        try:
            self._check(json.loads(json.dumps(settings)))
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lock.is_locked and not self._has_progress():
            self.discard()
        self._lock.release()

    @property
    def _state(self) -> Path:
        return self.folder / "state.pt"

    def load(self) -> dict[str, Any] | None:
        """The last state, or None if nothing was saved yet."""
        import torch

        if not self._state.exists():
            return None
        try:
            return torch.load(self._state, weights_only=True)
        except Exception as error:
            raise TourError(f"cannot read {self._state}; delete the folder {self.folder} to start again.") from error

    def save(self, state: Mapping[str, Any]) -> None:
        """Save a state; `state["best"]` names the folder of the best model, and those of other models are deleted."""
        import torch

        with atomic_write(self._state, "wb") as file:
            torch.save(dict(state), file)
        for folder in self.folder.glob("best-*"):
            if folder.name != state["best"]:
                shutil.rmtree(folder)

    def save_best(self, step: int, save: Callable[[Path], None]) -> str:
        """Save a model as the best so far; returns the name of its folder, for the next state."""
        folder = self.folder / f"best-{step}"
        shutil.rmtree(folder, ignore_errors=True)
        with writing_to(folder):
            folder.mkdir()
            save(folder)
        return folder.name

    def discard(self) -> None:
        """Delete the folder."""
        remove_folder(self.folder)
        self._lock.release()

    def _has_progress(self) -> bool:
        return any(path.name not in (LOCK, "settings.json") for path in self.folder.iterdir())

    def _check(self, now: Mapping[str, Any]) -> None:
        path = self.folder / "settings.json"
        if not self._has_progress():
            with atomic_write(path) as file:
                json.dump(now, file, indent=2)
            return
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(before, dict):
                raise ValueError("it is not a JSON object")
        except (OSError, ValueError, RecursionError):
            raise TourError(f"cannot read {path}; delete the folder {self.folder} to start again.") from None
        refuse_other_settings(self.folder, before, now)
