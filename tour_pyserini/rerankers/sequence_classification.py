"""Cross-encoders of Hugging Face with a classification head: the usual kind."""

import inspect
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tour_pyserini.rerankers.base import Pair
from tour_pyserini.rerankers.batched import BatchedReranker
from tour_pyserini.rerankers.batching import Row
from tour_pyserini.rerankers.checkpoint import (
    files_of,
    is_checkpoint,
    read_config,
    read_model,
    read_tokenizer,
    usable_length,
)
from tour_pyserini.rerankers.fingerprint import fingerprint
from tour_pyserini.rerankers.logits import relevance, wrong_outputs
from tour_pyserini.rerankers.optional import imported
from tour_pyserini.rerankers.options import Options
from tour_pyserini.rerankers.truncation import POLICY, encode_pairs
from tour_pyserini.threads import torch_threads


def accepts(folder: Path) -> bool:
    """Whether the folder holds a checkpoint; one without a classification head is refused when it is loaded."""
    return is_checkpoint(folder)


def load(folder: Path, options: Options, *, name: str) -> "SequenceClassificationReranker":
    """The re-ranker in a checkpoint folder."""
    return SequenceClassificationReranker(folder, options, name=name)


class SequenceClassificationReranker(BatchedReranker):
    """A transformer with one logit, or with two whose difference is the log-odds of relevance."""

    def __init__(self, folder: Path, options: Options, *, name: str) -> None:
        config = read_config(folder)
        if config.num_labels not in (1, 2):
            raise wrong_outputs(name, config.num_labels)
        self._model = read_model(folder, "AutoModelForSequenceClassification", config, options)
        self._tokenizer = read_tokenizer(folder)
        self._taken = set(inspect.signature(self._model.forward).parameters)
        self._length = usable_length(folder, config, self._tokenizer, options.max_length)
        self._device = options.device
        self._threads = options.threads
        padding = self._tokenizer.pad_token_id
        super().__init__(
            name,
            fingerprint("sequence-classification", files_of(folder), max_length=self._length, template=POLICY),
            budget=options.token_budget,
            # Without a padding token, no two pairs can share a batch.
            largest=1 if padding is None else options.batch_size,
            fill={"input_ids": padding or 0, "token_type_ids": self._tokenizer.pad_token_type_id},
            pad_left=self._tokenizer.padding_side == "left",
        )

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Raw logits, float64 [len(pairs)]; higher is more relevant."""
        with torch_threads(self._threads):
            return super().predict(pairs)

    def _encode(self, pairs: Sequence[Pair]) -> Sequence[Row]:
        room = self._length - self._tokenizer.num_special_tokens_to_add(pair=True)
        return encode_pairs(pairs, encode=self._rows, query_lengths=self._query_lengths, room=room)

    def _rows(self, pairs: list[Pair], strategy: str) -> Sequence[Row]:
        queries, passages = (list(texts) for texts in zip(*pairs, strict=True))
        coded = self._tokenizer(queries, passages, truncation=strategy, max_length=self._length)
        names = [name for name in coded if name in self._taken]
        return [dict(zip(names, row, strict=True)) for row in zip(*(coded[name] for name in names), strict=True)]

    def _query_lengths(self, queries: list[str]) -> list[int]:
        return [len(ids) for ids in self._tokenizer(queries, add_special_tokens=False, verbose=False)["input_ids"]]

    def _forward(self, batch: dict[str, np.ndarray]) -> np.ndarray:
        torch = imported("torch")
        with torch.inference_mode():
            logits = self._model(**{name: torch.from_numpy(ids).to(self._device) for name, ids in batch.items()}).logits
        return relevance(logits.cpu().numpy(), self.name)
