"""The training loop: schedule, best model, and the same result after an interruption."""

import json

import pytest
import torch

from tour_pyserini.errors import TourError
from tour_pyserini.train import TrainRequest
from tour_pyserini.training.trainer import Task, run_training


class Toy(Task):
    """Learns a number by gradient descent, with noise that depends on the seed of the step."""

    def __init__(self, measures=()):
        self.model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Dropout(0.5))
        for parameter in self.model.parameters():
            torch.nn.init.zeros_(parameter)
        self.measures, self.seen = list(measures), []

    def batches(self, epoch):
        return [(epoch, number) for number in range(4)]

    def loss(self, batch):
        return ((self.model[0](torch.ones(1)) - 3 + 0.1 * torch.randn(1)) ** 2).sum()

    def validate(self):
        self.seen.append([float(value.detach()) for value in self.model.parameters()])
        return {"accuracy": self.measures.pop(0) if self.measures else -abs(sum(self.seen[-1]) - 3)}

    def save(self, folder):
        (folder / "weights.json").write_text(json.dumps(self.seen[-1]))


def request(output="o", **settings):
    settings = settings or {"epochs": 5, "learning_rate": 0.3, "save_every": 3}
    return TrainRequest(base="b", output=output, data=[], **settings)


def run(output, task, recorded=None, **settings):
    return run_training(lambda: task, request(output, **settings), recorded or {}, report=len)


def test_the_best_model_is_kept_with_a_record_of_every_validation(tmp_path, monkeypatch):
    """The learning rate rises in a tenth of the steps, and falls."""
    seen, step = [], torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: seen.append(self.param_groups[0]["lr"]) or step(self))
    task = Toy([0.9, 0.1, 0.7, 0.7, 0.2, 0.3])
    record = run(tmp_path / "model", task, {"data": "x"})
    assert [entry["step"] for entry in record["history"]] == [0, 4, 8, 12, 16, 20]
    assert record["history"][-1]["loss"] < record["history"][1]["loss"]
    assert record["settings"]["data"] == "x" and task.model[1].p == 0.1
    assert record["best_step"] == 8  # the first of two equal ones; the model before training is not a candidate
    assert json.loads((tmp_path / "model" / "weights.json").read_text()) == task.seen[2]
    assert json.loads((tmp_path / "model" / "training.json").read_text()) == record
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert seen == pytest.approx([0.15, 0.3, *[0.3 * (20 - s) / 18 for s in range(2, 20)]])


@pytest.mark.parametrize(("losses", "mean"), [([None, 4.0, None, 2.0], 3.0), ([None] * 4, None)])
def test_batches_without_a_loss_are_left_out(tmp_path, losses, mean):
    class GivenLosses(Toy):
        def loss(self, batch):
            value, weight = losses[batch[1]], self.model[0].weight.sum()
            return None if value is None else value + weight - weight.detach()

    assert run(tmp_path / "model", GivenLosses(), epochs=1)["history"][1]["loss"] == mean


@pytest.mark.parametrize("stop_at", [2, 3, 7])
def test_an_interrupted_training_ends_with_the_same_result(tmp_path, interrupt, stop_at):
    whole = run(tmp_path / "whole", Toy())
    calls = interrupt(Toy, "loss", stop_at + 1)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", Toy())
    assert not (tmp_path / "cut").exists()
    assert (tmp_path / "cut.partial").exists() == (stop_at >= 3)
    assert run(tmp_path / "cut", Toy()) == whole
    kept = max([step for step in (3, 4, 6, 8, 9, 12, 15, 16, 18) if step <= stop_at], default=0)
    assert len(calls) == stop_at + 1 + 20 - kept
    for name in ("weights.json", "training.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "cut"}


def test_other_settings_damaged_states_and_a_second_process_are_refused(tmp_path, interrupt):
    class Nested(Toy):
        def validate(self):
            run(tmp_path / "new", Toy())

    class Exploding(Toy):
        def loss(self, batch):
            return super().loss(batch) * float("inf")

    with pytest.raises(TourError, match="learning rate"):
        run(tmp_path / "model", Exploding())
    interrupt(Toy, "loss", 7)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "model", Toy())
    state = (tmp_path / "model.partial" / "state.pt").read_bytes()
    with pytest.raises(TourError, match="seed was None, now 1"):
        run(tmp_path / "model", Toy(), {"seed": 1})
    with pytest.raises(TourError, match="another process"):
        run(tmp_path / "new", Nested())
    (tmp_path / "model.partial" / "state.pt").write_bytes(b"no")
    with pytest.raises(TourError, match=r"state\.pt"):
        run(tmp_path / "model", Toy())
    (tmp_path / "model.partial" / "state.pt").write_bytes(state)
    run(tmp_path / "model", Toy())
    with pytest.raises(TourError, match="already exists"):
        run(tmp_path / "model", Toy())
