"""The loop that trains: the same for every task, and the same after an interruption."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tour_pyserini.errors import TourError
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.training_state import Checkpoints

NEAR = 8  # groups whose members may be swapped for the sake of their lengths


class Task(Protocol):
    """What is learnt."""

    model: Any
    """A torch module; what does not require gradients stays as it is."""

    def batches(self, epoch: int) -> Sequence[Any]:
        """The batches of an epoch, the same ones every time they are asked for."""

    def loss(self, batch: Any) -> Any:
        """A scalar to be made smaller, or None where a batch has nothing to teach."""

    def validate(self) -> Mapping[str, float]:
        """Measures on data that is not trained on; the first decides, the others break ties, higher is better."""

    def save(self, folder: Path) -> None:
        """Write the model as it is now."""


def train(task: Task, settings: TrainSettings, checkpoints: Checkpoints) -> dict[str, Any]:
    """Train, and keep the best model by validation among the checkpoints.

    Returns:
        The record: every validation with its step and the mean loss since the last one, and which was the best.
    """
    import torch
    from tqdm import tqdm

    from tour_pyserini.training.train_settings import set_dropout

    set_dropout(task.model, settings.dropout)
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
            # Everything random depends on the seed and the step: a resumed training draws what it would have drawn.
            torch.manual_seed(settings.seed * 1_000_003 + step)
            loss = _step(task, optimiser, settings, step, steps, per_epoch)
            if loss is not None:
                state["losses"] = [state["losses"][0] + loss, state["losses"][1] + 1]
            state["step"] = step + 1
            bar.update()
            due = (step + 1) % (settings.validate_every or per_epoch) == 0 or step + 1 == steps
            if due:
                _validate(task, checkpoints, state)
            if due or (step + 1) % settings.save_every == 0:
                checkpoints.save({**state, "model": _trained(task.model), "optimiser": optimiser.state_dict()})
    return {"steps": state["step"], "best_step": state["best_step"], "history": state["history"]}


def _step(task: Task, optimiser: Any, settings: TrainSettings, step: int, steps: int, per_epoch: int) -> float | None:
    """One update; the mean loss of its batches, or None where none of them had anything to teach."""
    import torch

    batches = task.batches(step // per_epoch)
    first = (step % per_epoch) * settings.accumulate
    group = batches[first : first + settings.accumulate]  # the last one of an epoch may be short
    losses = []
    task.model.train()
    for batch in group:
        loss = task.loss(batch)
        if loss is None:
            continue
        if not torch.isfinite(loss):
            raise TourError(f"the loss is {float(loss.detach())} at step {step}; lower --learning-rate.")
        (loss / len(group)).backward()
        losses.append(float(loss.detach()))
    torch.nn.utils.clip_grad_norm_(task.model.parameters(), settings.clip)
    for parameters in optimiser.param_groups:
        parameters["lr"] = settings.rate(step, steps)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return sum(losses) / len(losses) if losses else None


def _validate(task: Task, checkpoints: Checkpoints, state: dict[str, Any]) -> None:
    task.model.eval()
    measures = task.validate()
    total, count = state["losses"]
    state["losses"] = [0.0, 0]
    now = {"step": state["step"], "loss": total / count if count else None, **measures}
    past = [entry for entry in state["history"] if entry["step"] == state["best_step"] and state["best"]]
    if not past or _key(now) > _key(past[0]):
        state["best"], state["best_step"] = checkpoints.save_best(state["step"], task.save), state["step"]
    state["history"].append(now)
    shown = ", ".join(f"{name} {value:.4f}" for name, value in now.items() if name != "step" and value is not None)
    sys.stderr.write(f"step {state['step']}: {shown}{' (best)' if state['best_step'] == state['step'] else ''}\n")


def _key(entry: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(value for name, value in entry.items() if name not in ("step", "loss"))


def _optimiser(model: Any, settings: TrainSettings) -> Any:
    import torch

    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [one for one in learnt if one.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [one for one in learnt if one.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate)


def _trained(model: Any) -> dict[str, Any]:
    """The weights that training changes."""
    return {name: parameter.detach() for name, parameter in model.named_parameters() if parameter.requires_grad}


def _restore(model: Any, optimiser: Any, state: Mapping[str, Any]) -> None:
    model.load_state_dict(state["model"], strict=False)
    optimiser.load_state_dict(state["optimiser"])


def shuffled(
    count: int, size: int, seed: Sequence[int], *, lengths: Sequence[int] | None = None
) -> Iterator[list[int]]:
    """The numbers below `count` in random order, in groups of `size`.

    Where they have lengths, groups that stand near each other swap members until each has similar ones: less padding.
    """
    import numpy as np

    random = np.random.default_rng(list(seed))
    order = random.permutation(count)
    if lengths is None:
        return (order[start : start + size].tolist() for start in range(0, count, size))
    near = size * NEAR
    stretches = [order[start : start + near] for start in range(0, count, near)]
    order = np.concatenate([one[np.argsort(np.asarray(lengths)[one], kind="stable")] for one in stretches])
    groups = [order[start : start + size].tolist() for start in range(0, count, size)]
    return (groups[place] for place in random.permutation(len(groups)))
