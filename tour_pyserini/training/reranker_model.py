"""A sequence classifier that knows the marks around a phrase."""

from pathlib import Path
from typing import Any

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.phrases.marking import BEGIN, END
from tour_pyserini.rerankers.checkpoint import read_tokenizer


def marked_classifier(folder: Path, *, labels: int) -> tuple[Any, Any]:
    """The model and tokenizer in a folder, with one or two logits and with [S] and [E] as tokens.

    A head that the checkpoint lacks, or has for another number of logits, begins with random weights; a mark that it
    lacks begins near the mean of all tokens.
    """
    import torch
    from transformers import AutoModelForSequenceClassification

    tokenizer = read_tokenizer(folder)
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            str(folder),
            num_labels=labels,
            ignore_mismatched_sizes=True,
            weights_only=True,
            trust_remote_code=False,
        ).float()
    except Exception as error:
        raise TourError(f"{folder} cannot be trained as a re-ranker ({first_line(error)}).") from error
    added = tokenizer.add_tokens([BEGIN, END], special_tokens=True)
    if added:
        before = model.get_input_embeddings().weight.detach().clone()
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        vectors = model.get_input_embeddings().weight
        with torch.no_grad():
            fresh = vectors[len(tokenizer) - added : len(tokenizer)]
            fresh.copy_(before.mean(0) + 0.1 * before.std(0) * torch.randn_like(fresh))
    return model, tokenizer
