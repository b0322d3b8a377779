"""The training loop: schedule, best model, and the same result after an interruption."""

import json

import pytest
import torch

from tour_pyserini.errors import TourError
from tour_pyserini.training.request import TrainRequest
from tour_pyserini.training.trainer import run_training, shuffle_batches


class Toy:
    """Learns a number by gradient descent, with noise that depends on the seed of the step."""

    def __init__(self, measures=None, stop_at=None):
        self.model = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(self.model.weight)
        torch.nn.init.zeros_(self.model.bias)
        self.measures, self.stop_at, self.steps = list(measures or []), stop_at, 0

    def batches(self, epoch):
        return [(epoch, number) for number in range(4)]

    def loss(self, batch):
        if self.steps == self.stop_at:
            raise KeyboardInterrupt
        self.steps += 1
        return ((self.model(torch.ones(1)) - 3 + 0.1 * torch.randn(1)) ** 2).sum()

    def validate(self):
        return {
            "accuracy": self.measures.pop(0) if self.measures else -float(abs(self.model(torch.ones(1)).detach() - 3))
        }

    def save(self, folder):
        (folder / "weights.json").write_text(json.dumps([float(v.detach()) for v in self.model.parameters()]))


SETTINGS = TrainRequest(epochs=5, learning_rate=0.3, save_every=3, warmup=0.2)


def run(tmp_path, name, task, settings=SETTINGS, recorded=None):
    return run_training(lambda _: task, settings, recorded or {}, output=tmp_path / name)


def test_the_record_has_every_validation(tmp_path):
    record = run(tmp_path, "model", Toy(), recorded={"data": "x"})
    assert [entry["step"] for entry in record["history"]] == [0, 4, 8, 12, 16, 20]
    assert record["history"][-1]["loss"] < record["history"][1]["loss"]
    assert record["settings"]["data"] == "x"
    assert json.loads((tmp_path / "model" / "training.json").read_text()) == record
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_best_model_is_kept_not_the_last(tmp_path):
    class Watched(Toy):
        def validate(self):
            seen.append([float(value.detach()) for value in self.model.parameters()])
            return super().validate()

    seen = []
    record = run(tmp_path, "model", Watched([0.9, 0.1, 0.7, 0.7, 0.2, 0.3]))
    assert record["best_step"] == 8  # the first of two equal ones; the model before training is not a candidate
    assert json.loads((tmp_path / "model" / "weights.json").read_text()) == seen[2]
    assert len({tuple(weights) for weights in seen}) == 6


class GivenLosses(Toy):
    """Has given losses, one for each batch of an epoch; the gradient of the weight is 1 where there is a loss."""

    def __init__(self, losses):
        super().__init__()
        self.losses, self.grads = losses, []
        self.model.weight.register_post_accumulate_grad_hook(lambda weight: self.grads.append(float(weight.grad)))

    def loss(self, batch):
        value = self.losses[batch[1]]
        return None if value is None else value + self.model.weight.sum() - self.model.weight.sum().detach()


def test_batches_without_a_loss_are_left_out_of_the_mean(tmp_path):
    for name, losses, mean in [("some", [None, 4.0, None, 2.0], 3.0), ("none", [None] * 4, None)]:
        task = GivenLosses(losses)
        record = run(tmp_path, name, task, TrainRequest(epochs=1))
        assert record["history"][1]["loss"] == mean


def test_a_short_group_counts_as_much_as_a_full_one(tmp_path):
    task = GivenLosses([1.0, 2.0, 3.0, 10.0])
    record = run(tmp_path, "model", task, TrainRequest(epochs=1, accumulate=3))
    assert task.grads == pytest.approx([1 / 3, 2 / 3, 1, 1])
    assert record["history"][1]["loss"] == pytest.approx((2 + 10) / 2)


@pytest.mark.parametrize("stop_at", [0, 2, 3, 4, 7, 19])
def test_an_interrupted_training_ends_with_the_same_result(tmp_path, stop_at):
    whole = run(tmp_path, "whole", Toy())
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "cut", Toy(stop_at=stop_at))
    assert not (tmp_path / "cut").exists()
    assert (tmp_path / "cut.partial").exists() == (stop_at >= 3)
    task = Toy()
    again = run(tmp_path, "cut", task)
    assert task.steps == 20 - max([step for step in (3, 4, 6, 8, 9, 12, 15, 16, 18) if step <= stop_at], default=0)
    assert again == whole
    for name in ("weights.json", "training.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "cut"}


def test_other_settings_and_a_second_process_are_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "model", Toy(stop_at=6))
    with pytest.raises(TourError, match="seed was 42, now 1"):
        run(tmp_path, "model", Toy(), TrainRequest(epochs=5, learning_rate=0.3, save_every=3, warmup=0.2, seed=1))

    class Nested(Toy):
        def validate(self):
            run(tmp_path, "model", Toy())

    with pytest.raises(TourError, match="another process is using"):
        run(tmp_path, "model", Nested())
    run(tmp_path, "model", Toy())
    with pytest.raises(TourError, match="already exists"):
        run(tmp_path, "model", Toy())


def test_the_learning_rate_rises_and_falls():
    settings = TrainRequest(learning_rate=1.0, warmup=0.2)
    assert [settings.rate(step, 10) for step in range(10)] == pytest.approx(
        [0.5, 1.0, *[(10 - s) / 8 for s in range(2, 10)]]
    )
    assert TrainRequest(learning_rate=1.0, warmup=0.0).rate(0, 1) == 1.0


def test_an_infinite_loss_is_refused(tmp_path):
    class Exploding(Toy):
        def loss(self, batch):
            return super().loss(batch) * float("inf")

    with pytest.raises(TourError, match="the loss is inf at step 0; lower the learning rate"):
        run(tmp_path, "model", Exploding())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "^epochs must be"),
        ({"seed": -1}, "^seed must not be negative"),
        ({"warmup": 1.0}, "^warmup must be at least 0 and below 1"),
        ({"dropout": 1.0}, "^dropout must be at least 0 and below 1"),
        ({"precision": "int8"}, "^precision must be float32 or bfloat16"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(TourError, match=message):
        TrainRequest(**options)


def test_groups_of_similar_lengths_have_every_number_once():
    lengths = [(number * 37) % 101 for number in range(50)]
    groups = list(shuffle_batches(50, 8, [1], lengths=lengths))
    assert sorted(number for group in groups for number in group) == list(range(50))
    padded = sum(max(lengths[number] for number in group) * len(group) for group in groups)
    at_random = sum(max(lengths[number] for number in group) * len(group) for group in shuffle_batches(50, 8, [1]))
    assert padded < 0.8 * at_random
    assert (
        groups
        == list(shuffle_batches(50, 8, [1], lengths=lengths))
        != list(shuffle_batches(50, 8, [2], lengths=lengths))
    )


def test_dropout_is_what_the_settings_say(tmp_path):
    class Dropping(Toy):
        def __init__(self):
            super().__init__()
            self.model = torch.nn.Sequential(self.model, torch.nn.Dropout(0.5))

    task = Dropping()
    run(tmp_path, "model", task, settings=TrainRequest(epochs=1, dropout=0.25))
    assert task.model[1].p == 0.25
