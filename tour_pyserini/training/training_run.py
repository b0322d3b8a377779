"""A training from its settings to the folder of its best model."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_folder
from tour_pyserini.support.optional import version_of
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.trainer import Report, Task, log_report, train
from tour_pyserini.training.training_state import Checkpoints

LIBRARIES = ("torch", "transformers", "numpy")


def check_new(output: Path) -> None:
    """Refuse an output folder that already has something in it."""
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise TourError(f"{output} already exists; choose another output folder.")


def run_training(
    make_task: Callable[[Path], Task],
    settings: TrainSettings,
    recorded: Mapping[str, Any],
    *,
    output: Path,
    report: Report = log_report,
) -> dict[str, Any]:
    """Train, or continue an interrupted training, until `output` holds the best model.

    Args:
        make_task: builds the task; it is given the folder of the unfinished training and may keep files there.
        settings: of the training.
        recorded: everything else that the result depends on, as JSON values.
        output: the folder is created when it is complete; until then there is OUTPUT.partial.
        report: is called with a line of text after each validation.

    Returns:
        The record that is written to the folder as training.json.
    """
    check_new(output)
    recorded = {**recorded, **dataclasses.asdict(settings)}
    with Checkpoints(output.with_name(f"{output.name}.partial"), recorded) as checkpoints:
        record = train(make_task(checkpoints.folder), settings, checkpoints, report=report)
        record = {"settings": recorded, **record, "versions": {name: version_of(name) for name in LIBRARIES}}
        with atomic_folder(output, overwrite=False) as folder:
            shutil.copytree(checkpoints.folder / f"best-{record['best_step']}", folder, dirs_exist_ok=True)
            text = json.dumps(record, indent=1, ensure_ascii=False)
            (folder / "training.json").write_text(f"{text}\n", encoding="utf-8")
        checkpoints.discard()
    return record
