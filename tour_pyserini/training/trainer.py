"""The training loop: the same for every task, and with the same result after an interruption."""

import json
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from tour_pyserini.errors import TourError
from tour_pyserini.support.files import atomic_folder, atomic_write, remove_folder, writing_to
from tour_pyserini.support.packages import version_of
from tour_pyserini.support.resumable import lock_folder, refuse_other_settings

if TYPE_CHECKING:
    from tour_pyserini.train import TrainRequest

_LIBRARIES = ("torch", "transformers", "numpy")
_WEIGHT_DECAY = 0.01
_WARMUP = 0.1  # share of the steps in which the learning rate rises
_LARGEST_GRADIENT = 1.0  # norm
_STATE = "state.pt"  # of an unfinished training, in its folder
_SORTED_TOGETHER = 8  # batches whose members may be swapped to have similar lengths

_Item = TypeVar("_Item")


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

    def shuffled(self, items: Sequence[_Item], *seed: int, lengths: Sequence[int] | None = None) -> list[list[_Item]]:
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
            together = size * _SORTED_TOGETHER
            parts = [order[start : start + together] for start in range(0, len(items), together)]
            order = np.concatenate([part[np.argsort(np.asarray(lengths)[part], kind="stable")] for part in parts])
            starts = [starts[number] for number in random.permutation(len(starts))]
        return [[items[position] for position in order[start : start + size].tolist()] for start in starts]


def run_training(
    make_task: Callable[[], Task],
    request: "TrainRequest",
    recorded: Mapping[str, Any],
    *,
    report: Callable[[str], object],
) -> dict[str, Any]:
    """Train, or continue an interrupted training, until the output folder holds the best model.

    Args:
        make_task: builds the task.
        request: the settings, and the output folder. The folder is created when it is complete; until then there is
            OUTPUT.partial with the last state and the best model.
        recorded: everything that the result depends on, as JSON values.
        report: is called with a line of text after each validation.

    Returns:
        The record that is written to the folder as training.json: what was recorded, every validation with its step
        and the mean loss since the one before, and the best step.
    """
    output = Path(request.output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise TourError(f"{output} already exists; choose another output folder.")
    partial = output.with_name(f"{output.name}.partial")
    lock = lock_folder(partial)
    try:
        before = _load_state(partial, json.loads(json.dumps(recorded)))
        state = _train(make_task(), request, partial, before, report)
        record = {
            "settings": dict(recorded),
            "steps": state["step"],
            "best_step": state["best_step"],
            "history": state["history"],
            "versions": {name: version_of(name) for name in _LIBRARIES},
        }
        with atomic_folder(output, overwrite=False) as folder:
            shutil.copytree(_best_model(partial, state), folder, dirs_exist_ok=True)
            text = json.dumps(record, indent=1, ensure_ascii=False)
            (folder / "training.json").write_text(f"{text}\n", encoding="utf-8")
        remove_folder(partial)
    finally:
        if partial.exists() and not (partial / _STATE).exists():
            remove_folder(partial)
        lock.release()
    return record


def _train(
    task: Task, request: "TrainRequest", partial: Path, state: dict[str, Any], report: Callable[[str], object]
) -> dict[str, Any]:
    """Train from a state on, and keep state and best model in a folder; returns the last state."""
    from tqdm import tqdm

    for module in task.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = request.dropout
    batches = lru_cache(maxsize=2)(task.batches)
    per_epoch = len(batches(0))
    steps = min(request.max_steps or sys.maxsize, request.epochs * per_epoch)
    optimiser = _optimiser(task.model, request.learning_rate)
    if "model" in state:
        task.model.load_state_dict(state.pop("model"), strict=False)
        optimiser.load_state_dict(state.pop("optimiser"))
    else:
        task.model.eval()
        state["history"].append({"step": 0, "loss": None, **task.validate()})
    with tqdm(total=steps, initial=state["step"], unit="step", desc="training", disable=None) as bar:
        for step in range(state["step"], steps):
            # All random numbers depend on the seed and the step, so that a resumed training draws the same ones.
            torch.manual_seed(request.seed * 1_000_003 + step)
            # The rate rises linearly in a share of the steps, then falls linearly to 0.
            rising = int(_WARMUP * steps)
            share = (step + 1) / rising if step < rising else (steps - step) / max(1, steps - rising)
            for parameters in optimiser.param_groups:
                parameters["lr"] = request.learning_rate * share
            task.model.train()
            loss = task.loss(batches(step // per_epoch)[step % per_epoch])
            if loss is not None:
                if not torch.isfinite(loss):
                    raise TourError(f"the loss is {float(loss.detach())} at step {step}; lower the learning rate.")
                loss.backward()
                torch.nn.utils.clip_grad_norm_(task.model.parameters(), _LARGEST_GRADIENT)
                optimiser.step()
                optimiser.zero_grad()
                state["losses"].append(float(loss.detach()))
            state["step"] = step + 1
            bar.update()
            due = (step + 1) % (request.validate_every or per_epoch) == 0 or step + 1 == steps
            if due:
                report(_validate(task, partial, state))
            if due or (step + 1) % request.save_every == 0:
                trained = {name: p.detach() for name, p in task.model.named_parameters() if p.requires_grad}
                _save_state(partial, state | {"model": trained, "optimiser": optimiser.state_dict()})
    return state


def _optimiser(model: Any, learning_rate: float) -> Any:
    """AdamW, with weight decay for matrices only."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": _WEIGHT_DECAY},
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate)


def _validate(task: Task, partial: Path, state: dict[str, Any]) -> str:
    """Validate, and keep the model if it is the best so far; the result as a line of text."""
    task.model.eval()
    losses, measures = state["losses"], task.validate()
    now = {"step": state["step"], "loss": sum(losses) / len(losses) if losses else None, **measures}
    if [*measures.values()] > state["best"]:
        state["best"], state["best_step"] = [*measures.values()], state["step"]
        folder = _best_model(partial, state)
        with writing_to(folder):
            folder.mkdir(exist_ok=True)
            task.save(folder)
    state["history"].append(now)
    state["losses"] = []
    values = ", ".join(f"{name} {value:.4f}" for name, value in now.items() if name != "step" and value is not None)
    return f"step {state['step']}: {values}{' (best)' if state['best_step'] == state['step'] else ''}"


def _best_model(partial: Path, state: Mapping[str, Any]) -> Path:
    return partial / f"best-{state['best_step']}"


def _load_state(partial: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The last state of a training with these settings, or that before the first step."""
    path = partial / _STATE
    if not path.exists():
        return {"settings": settings, "step": 0, "best_step": None, "best": [], "history": [], "losses": []}
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
        before = state["settings"]
    except Exception as error:  # torch raises many types
        raise TourError(f"cannot read {path}; delete the folder {partial} to start again.") from error
    refuse_other_settings(partial, before, settings)
    return state


def _save_state(partial: Path, state: Mapping[str, Any]) -> None:
    """Save a state, and delete all models but the best one, whose folder it names."""
    with atomic_write(partial / _STATE, "wb") as file:
        torch.save(dict(state), file)
    for folder in partial.glob("best-*"):
        if folder != _best_model(partial, state):
            shutil.rmtree(folder)
