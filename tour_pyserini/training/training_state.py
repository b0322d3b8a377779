"""A training's state on the disk, from which it goes on after an interruption."""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_replace, atomic_write
from tour_pyserini.support.resumable import open_locked, refuse_other_settings


class Checkpoints:
    """The folder of an unfinished training: its settings, its last state, and the best model so far.

    Opened again with the same settings it has the last state and all else that was put there; with others it refuses.
    While it is open no other process can open it. Left with nothing worth keeping, it leaves no trace.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._lock = open_locked(folder, "lock")
        try:
            self._check(json.loads(json.dumps(settings)))
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if not self._lock.closed and not self._begun():
            self.discard()
        self._lock.close()

    @property
    def _state(self) -> Path:
        return self.folder / "state.pt"

    def load(self) -> dict[str, Any] | None:
        """The last state, or None at the beginning."""
        import torch

        if not self._state.exists():
            return None
        try:
            return torch.load(self._state, weights_only=True)
        except Exception as error:
            raise TourError(f"{self._state} cannot be read; delete the folder {self.folder} to start again.") from error

    def save(self, state: Mapping[str, Any]) -> None:
        """Keep a state; `state["best"]` names the folder of the best model, and other ones are removed."""
        import torch

        with atomic_replace(self._state) as partial:
            torch.save(dict(state), partial)
        for folder in self.folder.glob("best-*"):
            if folder.name != state["best"]:
                shutil.rmtree(folder)

    def save_best(self, step: int, save: Callable[[Path], None]) -> str:
        """Have a model saved as the best so far; the name to put into the next state."""
        place = self.folder / f"best-{step}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        save(place)
        return place.name

    def discard(self) -> None:
        """Remove the folder."""
        gone = tempfile.mkdtemp(dir=self.folder.parent, prefix=f".{self.folder.name}.")
        self.folder.rename(gone)
        shutil.rmtree(gone)
        self._lock.close()

    def _begun(self) -> bool:
        return any(path.name not in ("lock", "settings.json") for path in self.folder.iterdir())

    def _check(self, now: Mapping[str, Any]) -> None:
        path = self.folder / "settings.json"
        if not self._begun():
            with atomic_write(path) as file:
                json.dump(now, file, indent=2)
            return
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise TourError(f"{path} cannot be read; delete the folder {self.folder} to start again.") from None
        refuse_other_settings(self.folder, before, now)
