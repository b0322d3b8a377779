"""The training loop: the same for every task, and with the same result after an interruption."""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from tour_pyserini.errors import TourError
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.training_state import Checkpoints

log = logging.getLogger(__name__)

SORTED_TOGETHER = 8  # batches whose members may be swapped to have similar lengths

Report = Callable[[str], object]
"""Is called with a line of text after each validation."""


def log_report(line: str) -> None:
    """Log a line of text; the default `Report`."""
    log.info("%s", line)


class Task(Protocol):
    """A model and what it learns: batches, loss and validation."""

    model: Any
    """A torch module; parameters that do not require gradients stay as they are."""

    def batches(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch; the same ones in every call."""

    def loss(self, batch: Any) -> Any:
        """A scalar to be made smaller, or None if nothing can be learnt from the batch."""

    def validate(self) -> Mapping[str, float]:
        """Measures on validation data; the first decides, the others break ties, higher is better."""

    def save(self, folder: Path) -> None:
        """Write the model as it is now."""


def train(
    task: Task, settings: TrainSettings, checkpoints: Checkpoints, *, report: Report = log_report
) -> dict[str, Any]:
    """Train, and keep the best model by validation among the checkpoints.

    Args:
        task: what is learnt.
        settings: of the training.
        checkpoints: the state of an interrupted training, if there is one; takes the new states.
        report: is called with a line of text after each validation.

    Returns:
        The record: every validation with its step and the mean loss since the one before, and the best step.
    """
    from tqdm import tqdm

    _set_dropout(task.model, settings.dropout)
    per_epoch = -(-len(task.batches(0)) // settings.accumulate)
    steps = min(settings.max_steps or sys.maxsize, settings.epochs * per_epoch)
    optimiser = _optimiser(task.model, settings)
    state: dict[str, Any] = {"step": 0, "best": "", "best_step": 0, "history": [], "losses": [0.0, 0]}
    if before := checkpoints.load():
        _restore(task.model, optimiser, before)
        state = {name: before[name] for name in state}
    else:
        task.model.eval()
        state["history"].append({"step": 0, "loss": None, **task.validate()})
    with tqdm(total=steps, initial=state["step"], unit="step", desc="training", disable=None) as bar:
        for step in range(state["step"], steps):
            # All random numbers depend on the seed and the step, so that a resumed training draws the same ones.
            torch.manual_seed(settings.seed * 1_000_003 + step)
            loss = _step(task, optimiser, settings, step, steps, per_epoch)
            if loss is not None:
                state["losses"] = [state["losses"][0] + loss, state["losses"][1] + 1]
            state["step"] = step + 1
            bar.update()
            due = (step + 1) % (settings.validate_every or per_epoch) == 0 or step + 1 == steps
            if due:
                report(_validate(task, checkpoints, state))
            if due or (step + 1) % settings.save_every == 0:
                checkpoints.save({**state, "model": _trained(task.model), "optimiser": optimiser.state_dict()})
    return {"steps": state["step"], "best_step": state["best_step"], "history": state["history"]}


def _step(task: Task, optimiser: Any, settings: TrainSettings, step: int, steps: int, per_epoch: int) -> float | None:
    """One update; the mean loss of its batches, or None if nothing could be learnt from them."""
    batches = task.batches(step // per_epoch)
    first = (step % per_epoch) * settings.accumulate
    group = batches[first : first + settings.accumulate]  # the last group of an epoch may be short
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
    torch.nn.utils.clip_grad_norm_(task.model.parameters(), settings.clip)
    for parameters in optimiser.param_groups:
        parameters["lr"] = settings.rate(step, steps)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return sum(losses) / len(losses) if losses else None


def _validate(task: Task, checkpoints: Checkpoints, state: dict[str, Any]) -> str:
    """Validate, and keep the model if it is the best so far; the result as a line of text."""
    task.model.eval()
    measures = task.validate()
    total, count = state["losses"]
    state["losses"] = [0.0, 0]
    now = {"step": state["step"], "loss": total / count if count else None, **measures}
    best = [entry for entry in state["history"] if entry["step"] == state["best_step"] and state["best"]]
    if not best or _measures(now) > _measures(best[0]):
        state["best"], state["best_step"] = checkpoints.save_best(state["step"], task.save), state["step"]
    state["history"].append(now)
    values = ", ".join(f"{name} {value:.4f}" for name, value in now.items() if name != "step" and value is not None)
    return f"step {state['step']}: {values}{' (best)' if state['best_step'] == state['step'] else ''}"


def _measures(entry: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(value for name, value in entry.items() if name not in ("step", "loss"))


def _optimiser(model: Any, settings: TrainSettings) -> Any:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate)


def _trained(model: Any) -> dict[str, Any]:
    """The weights that training changes."""
    return {name: parameter.detach() for name, parameter in model.named_parameters() if parameter.requires_grad}


def _restore(model: Any, optimiser: Any, state: Mapping[str, Any]) -> None:
    model.load_state_dict(state["model"], strict=False)
    optimiser.load_state_dict(state["optimiser"])


def _set_dropout(model: torch.nn.Module, share: float) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = share


def computing_in(precision: str, model: torch.nn.Module) -> Any:
    """Compute matrix products in `bfloat16` if this is the precision and the model is being trained.

    This is about twice as fast where the processor supports it. Weights stay float32, and validation uses float32, as
    search does.
    """
    device = next(model.parameters()).device.type
    return torch.autocast(device, dtype=torch.bfloat16, enabled=model.training and precision == "bfloat16")


def shuffled(
    count: int, size: int, seed: Sequence[int], *, lengths: Sequence[int] | None = None
) -> Iterator[list[int]]:
    """The numbers below `count` in random order, in groups of `size`.

    Args:
        count: how many numbers.
        size: of a group; the last one may be smaller.
        seed: of the order.
        lengths: the length of what each number stands for; if given, groups have similar lengths, for less padding.
    """
    random = np.random.default_rng(list(seed))
    order = random.permutation(count)
    if lengths is None:
        return (order[start : start + size].tolist() for start in range(0, count, size))
    together = size * SORTED_TOGETHER
    parts = [order[start : start + together] for start in range(0, count, together)]
    order = np.concatenate([part[np.argsort(np.asarray(lengths)[part], kind="stable")] for part in parts])
    groups = [order[start : start + size].tolist() for start in range(0, count, size)]
    return (groups[number] for number in random.permutation(len(groups)))
