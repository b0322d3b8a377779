"""Models whose tokenizer does not belong to them: a token's number may be beyond the rows of its table."""

from functools import partial
from typing import Any

from tour_pyserini.errors import TourError


def check_lookups(model: Any, name: object) -> Any:
    """Let a torch module refuse numbers that its tables do not have, in one sentence; returns the module.

    Torch itself raises an IndexError on a CPU; on a GPU, it makes the device unusable for the process.

    Args:
        model: the module.
        name: what the message calls it.
    """
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag):
            module.register_forward_pre_hook(partial(_check, str(name)))
    return model


def _check(name: str, table: Any, inputs: tuple[Any, ...]) -> None:
    import torch

    if torch.onnx.is_in_onnx_export() or not inputs or not inputs[0].numel():
        return
    largest = int(inputs[0].max())
    if largest >= table.num_embeddings:
        raise does_not_fit(name, f"it looks up row {largest} of a table of {table.num_embeddings} rows")


def does_not_fit(name: object, reason: str) -> TourError:
    """Make the error for a tokenizer, or a length, that does not fit the weights of a model."""
    return TourError(f"the tokenizer or the maximum length of {name} does not fit its weights ({reason}).")
