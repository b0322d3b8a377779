"""What a loaded re-ranker is and how it is run, for people who want to check it."""

from typing import NamedTuple


class Description(NamedTuple):
    """How a re-ranker that `load_reranker` made scores a pair.

    Attributes:
        family: the architecture, or the kind of folder.
        score: what a score is made of, such as "one logit".
        prompt: the text that the model reads around query and passage; None if it reads the pair alone.
        engine: what runs the model: "ONNX Runtime", "torch", "sentence-transformers", or a service with its address.
        precision: "fp32", "bf16", "fp16", "int8", or "as stored" for a graph that is run as it is.
        dtype: the numbers that the model computes with: "float32", "bfloat16", "float16", or "as stored".
        max_length: most tokens of an input, everything included; None if a service does not tell it.
    """

    family: str
    score: str
    prompt: str | None
    engine: str
    precision: str
    dtype: str
    max_length: int | None


ENGINES = {"onnx": "ONNX Runtime", "torch": "torch"}
"""Names of the engines by the names of their back ends."""

PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
"""Names of the precisions by the types of numbers."""


def score_of_logits(count: int) -> str:
    """Say what the score of a classifier with one or two outputs is."""
    return "one logit" if count == 1 else "second logit minus first logit"
