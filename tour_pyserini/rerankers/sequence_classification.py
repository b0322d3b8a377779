"""Load a cross-encoder from a Hugging Face checkpoint with a classification head, the most common kind."""

from pathlib import Path

from tour_pyserini.rerankers.backends import Checkpoint
from tour_pyserini.rerankers.classifier import ClassifierReranker, output_count_error
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.pair_tokens import POLICY, pair_tokens
from tour_pyserini.support.checkpoints import (
    checkpoint_files,
    fingerprint,
    is_checkpoint,
    read_config,
    read_tokenizer,
    usable_length,
)

BACKENDS: tuple[str, ...] = ("onnx", "torch")
FILES = "config.json with weights (*.safetensors)"  # of the other kinds of checkpoints too


def accepts(folder: Path) -> bool:
    """Whether the folder holds a checkpoint; `load` refuses a checkpoint without a classification head."""
    return is_checkpoint(folder)


def load(folder: Path, options: Options, *, name: str) -> ClassifierReranker:
    """Load the re-ranker in a checkpoint folder."""
    config = read_config(folder)
    if config.num_labels not in (1, 2):
        raise output_count_error(name, config.num_labels)
    tokenizer = read_tokenizer(folder)
    length = usable_length(folder, config, tokenizer, options.max_length)
    tokens = pair_tokens(tokenizer, max_length=length)
    fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    classifier, settings = Checkpoint(folder, config, tokens, fill).classifier(options)
    return ClassifierReranker(
        name,
        fingerprint(
            "sequence-classification", checkpoint_files(folder), max_length=length, template=POLICY, **settings
        ),
        tokens,
        classifier,
        options,
        fill=fill,
        pad_left=tokenizer.padding_side == "left",
        # Without a padding token, pairs of different lengths cannot share a batch.
        one_pair_per_call=tokenizer.pad_token_id is None,
    )
