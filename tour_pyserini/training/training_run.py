"""A training from its settings to the folder of its best model."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tour_pyserini.data.records import version_of
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import folder_whole
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.trainer import Task, train
from tour_pyserini.training.training_state import Checkpoints

LIBRARIES = ("torch", "transformers", "numpy")


def check_new(output: Path) -> None:
    """Refuse a folder that has something in it."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise TourError(f"{output} is there already; choose another --output.")


def run_training(
    make: Callable[[Path], Task], settings: TrainSettings, told: Mapping[str, Any], *, output: Path
) -> dict[str, Any]:
    """Train, or go on where an interrupted training was, until `output` holds the best model.

    Args:
        make: builds the task; it is given the folder of the unfinished training, for what it may keep there.
        settings: of the training.
        told: everything else that the result depends on, as JSON has it.
        output: made when it is complete; until then there is OUTPUT.partial.

    Returns:
        The record that stands in the folder as training.json.
    """
    check_new(output)
    told = {**told, **dataclasses.asdict(settings)}
    with Checkpoints(output.with_name(f"{output.name}.partial"), told) as checkpoints:
        record = train(make(checkpoints.folder), settings, checkpoints)
        record = {"settings": told, **record, "versions": {name: version_of(name) for name in LIBRARIES}}
        with folder_whole(output, overwrite=False) as new:
            shutil.copytree(checkpoints.folder / f"best-{record['best_step']}", new, dirs_exist_ok=True)
            text = json.dumps(record, indent=1, ensure_ascii=False)
            (new / "training.json").write_text(f"{text}\n", encoding="utf-8")
        checkpoints.discard()
    return record
