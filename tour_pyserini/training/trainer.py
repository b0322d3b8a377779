"""The training loop: the same for every task, and with the same result after an interruption."""

import json
import logging
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch

from tour_pyserini.data.input_files import read_json_object
from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_folder, atomic_write, remove_folder, writing_to
from tour_pyserini.support.packages import version_of
from tour_pyserini.support.resumable import lock_folder, refuse_other_settings

if TYPE_CHECKING:
    from tour_pyserini.train import TrainRequest

log = logging.getLogger(__name__)

LIBRARIES = ("torch", "transformers", "numpy")
SORTED_TOGETHER = 8  # batches whose members may be swapped to have similar lengths

Report = Callable[[str], object]
"""Is called with a line of text after each validation."""
Item = TypeVar("Item")


class Task(ABC):
    """A model and what it learns: batches, loss and validation.

    Attributes:
        model: a torch module; parameters that do not require gradients stay as they are.
        request: the settings.
    """

    model: Any
    request: Any

    @abstractmethod
    def batches(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch; the same ones in every call."""

    @abstractmethod
    def loss(self, batch: Any) -> Any:
        """A scalar to be made smaller, or None if nothing can be learnt from the batch."""

    @abstractmethod
    def validate(self) -> Mapping[str, float]:
        """Measures on validation data; the first decides, the others break ties, higher is better."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the model as it is now."""

    def computing(self) -> Any:
        """Compute matrix products in `bfloat16` if this is the precision and the model is being trained.

        This is about twice as fast where the processor supports it. Weights stay float32, and validation uses float32,
        as search does.
        """
        enabled = self.model.training and self.request.precision == "bfloat16"
        return torch.autocast(next(self.model.parameters()).device.type, dtype=torch.bfloat16, enabled=enabled)

    def shuffled(self, items: Sequence[Item], *seed: int, lengths: Sequence[int] | None = None) -> list[list[Item]]:
        """Items in random order, in batches; the last one may be smaller.

        Args:
            items: what is shuffled.
            seed: numbers that decide the order, beside the seed of the request.
            lengths: the length of each item; if given, batches have similar lengths, for less padding.
        """
        size, random = self.request.batch_size, np.random.default_rng([self.request.seed, *seed])
        order = random.permutation(len(items))
        starts: Sequence[int] = range(0, len(items), size)
        if lengths is not None:
            together = size * SORTED_TOGETHER
            parts = [order[start : start + together] for start in range(0, len(items), together)]
            order = np.concatenate([part[np.argsort(np.asarray(lengths)[part], kind="stable")] for part in parts])
            starts = [starts[number] for number in random.permutation(len(starts))]
        return [[items[position] for position in order[start : start + size].tolist()] for start in starts]


def run_training(
    make_task: Callable[[Path], Task],
    request: "TrainRequest",
    recorded: Mapping[str, Any],
    *,
    report: Report = log.info,
) -> dict[str, Any]:
    """Train, or continue an interrupted training, until the output folder holds the best model.

    Args:
        make_task: builds the task; it is given the folder of the unfinished training and may keep files there.
        request: the settings, and the output folder. The folder is created when it is complete; until then there is
            OUTPUT.partial.
        recorded: everything that the result depends on, as JSON values.
        report: is called with a line of text after each validation.

    Returns:
        The record that is written to the folder as training.json: what was recorded, every validation with its step
        and the mean loss since the one before, and the best step.
    """
    output = Path(request.output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise TourError(f"{output} already exists; choose another output folder.")
    with Checkpoints(output.with_name(f"{output.name}.partial"), recorded) as checkpoints:
        state = _train(make_task(checkpoints.folder), request, checkpoints, report)
        record = {
            "settings": dict(recorded),
            "steps": state["step"],
            "best_step": state["best_step"],
            "history": state["history"],
            "versions": {name: version_of(name) for name in LIBRARIES},
        }
        with atomic_folder(output, overwrite=False) as folder:
            shutil.copytree(checkpoints.folder / state["best"], folder, dirs_exist_ok=True)
            text = json.dumps(record, indent=1, ensure_ascii=False)
            (folder / "training.json").write_text(f"{text}\n", encoding="utf-8")
        checkpoints.discard()
    return record


def _train(task: Task, request: "TrainRequest", checkpoints: "Checkpoints", report: Report) -> dict[str, Any]:
    """Train, and keep the best model by validation among the checkpoints; returns the last state."""
    from tqdm import tqdm

    for module in task.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = request.dropout
    batches = lru_cache(maxsize=2)(task.batches)
    per_epoch = -(-len(batches(0)) // request.accumulate)
    steps = min(request.max_steps or sys.maxsize, request.epochs * per_epoch)
    optimiser = _optimiser(task.model, request)
    state: dict[str, Any] = {"step": 0, "best": "", "best_step": 0, "history": [], "losses": [0.0, 0]}
    if before := checkpoints.load():
        task.model.load_state_dict(before["model"], strict=False)
        optimiser.load_state_dict(before["optimiser"])
        state = {name: before[name] for name in state}
    else:
        task.model.eval()
        state["history"].append({"step": 0, "loss": None, **task.validate()})
    with tqdm(total=steps, initial=state["step"], unit="step", desc="training", disable=None) as bar:
        for step in range(state["step"], steps):
            # All random numbers depend on the seed and the step, so that a resumed training draws the same ones.
            torch.manual_seed(request.seed * 1_000_003 + step)
            first = (step % per_epoch) * request.accumulate
            group = batches(step // per_epoch)[first : first + request.accumulate]  # the last of an epoch may be short
            # The rate rises linearly in the share `warmup` of the steps, then falls linearly to 0.
            rising = int(request.warmup * steps)
            share = (step + 1) / rising if step < rising else (steps - step) / max(1, steps - rising)
            for parameters in optimiser.param_groups:
                parameters["lr"] = request.learning_rate * share
            losses = _step(task, optimiser, group, step, clip=request.clip)
            if losses:
                state["losses"] = [state["losses"][0] + sum(losses) / len(losses), state["losses"][1] + 1]
            state["step"] = step + 1
            bar.update()
            due = (step + 1) % (request.validate_every or per_epoch) == 0 or step + 1 == steps
            if due:
                report(_validate(task, checkpoints, state))
            if due or (step + 1) % request.save_every == 0:
                trained = {name: p.detach() for name, p in task.model.named_parameters() if p.requires_grad}
                checkpoints.save({**state, "model": trained, "optimiser": optimiser.state_dict()})
    return state


def _optimiser(model: Any, request: "TrainRequest") -> Any:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": request.weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=request.learning_rate)


def _step(task: Task, optimiser: Any, group: Sequence[Any], step: int, *, clip: float) -> list[float]:
    """One update; the losses of its batches, without those from which nothing could be learnt."""
    losses = []
    task.model.train()
    for batch in group:
        loss = task.loss(batch)
        if loss is None:
            continue
        if not torch.isfinite(loss):
            raise TourError(f"the loss is {float(loss.detach())} at step {step}; lower the learning rate.")
        (loss / len(group)).backward()
        losses.append(float(loss.detach()))
    torch.nn.utils.clip_grad_norm_(task.model.parameters(), clip)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return losses


def _validate(task: Task, checkpoints: "Checkpoints", state: dict[str, Any]) -> str:
    """Validate, and keep the model if it is the best so far; the result as a line of text."""

    def measures(entry: Mapping[str, Any]) -> tuple[float, ...]:
        return tuple(value for name, value in entry.items() if name not in ("step", "loss"))

    task.model.eval()
    total, count = state["losses"]
    state["losses"] = [0.0, 0]
    now = {"step": state["step"], "loss": total / count if count else None, **task.validate()}
    best = [entry for entry in state["history"] if entry["step"] == state["best_step"] and state["best"]]
    if not best or measures(now) > measures(best[0]):
        state["best"], state["best_step"] = checkpoints.save_best(state["step"], task.save), state["step"]
    state["history"].append(now)
    values = ", ".join(f"{name} {value:.4f}" for name, value in now.items() if name != "step" and value is not None)
    return f"step {state['step']}: {values}{' (best)' if state['best_step'] == state['step'] else ''}"


class Checkpoints:
    """The folder of an unfinished training: its settings, its last state, and the best model so far.

    Opened again with the same settings, it has the last state and all other files that were put there; opened with
    other settings, it raises a TourError. While it is open, no other process can open it. If it is closed before
    anything was saved, it is deleted.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder, self._state = folder, folder / "state.pt"
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

    def load(self) -> dict[str, Any] | None:
        """The last state, or None if nothing was saved yet."""
        if not self._state.exists():
            return None
        try:
            return torch.load(self._state, weights_only=True)
        except Exception as error:
            raise TourError(f"cannot read {self._state}; delete the folder {self.folder} to start again.") from error

    def save(self, state: Mapping[str, Any]) -> None:
        """Save a state; `state["best"]` names the folder of the best model, and those of other models are deleted."""
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
        return any(path.name not in ("lock", "settings.json") for path in self.folder.iterdir())

    def _check(self, now: Mapping[str, Any]) -> None:
        path = self.folder / "settings.json"
        if not self._has_progress():
            with atomic_write(path) as file:
                json.dump(now, file, indent=2)
            return
        try:
            before = read_json_object(path)
        except (OSError, ValueError):
            raise TourError(f"cannot read {path}; delete the folder {self.folder} to start again.") from None
        refuse_other_settings(self.folder, before, now)
