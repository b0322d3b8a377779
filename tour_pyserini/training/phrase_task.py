"""Training a phrase encoder: passages, and the questions about them."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from tour_pyserini.phrase_encoders.encoder import PhraseEncoder
from tour_pyserini.training.data import Example
from tour_pyserini.training.passages import TrainingPassage, training_passages
from tour_pyserini.training.phrase_loss import filter_loss, side_loss
from tour_pyserini.training.phrase_validation import PhraseValidation
from tour_pyserini.training.precision import computing_in
from tour_pyserini.training.settings import TrainSettings
from tour_pyserini.training.trainer import shuffled


class Weights(NamedTuple):
    """How much the in-batch and the filter loss count beside the in-passage loss."""

    batch: float = 1.0
    filter: float = 1.0


class Batch(NamedTuple):
    """Passages, and of the questions about them: text, answers, and which passage."""

    passages: Sequence[TrainingPassage]
    questions: Sequence[tuple[str, Sequence[str], int]]


class PhraseTask:
    """A phrase encoder that learns where the answers to questions begin and end."""

    def __init__(
        self,
        encoder: PhraseEncoder,
        examples: Sequence[Example],
        validation: PhraseValidation,
        settings: TrainSettings,
        *,
        weights: Weights = Weights(),  # noqa: B008 (a constant)
        questions_per_passage: int = 4,
        freeze_embeddings: bool = True,
    ) -> None:
        """Prepare the data.

        Args:
            encoder: is trained in place.
            examples: what it learns from.
            validation: what decides which model is the best.
            settings: `batch_size` counts passages.
            weights: of the losses.
            questions_per_passage: at most, drawn anew in every epoch.
            freeze_embeddings: whether the vectors of the vocabulary stay as they are, as in DensePhrases.
        """
        self.encoder, self.model = encoder, encoder.model
        self._validation, self._settings, self._weights = validation, settings, weights
        self._each = questions_per_passage
        self.passages = training_passages(examples, encoder.tokenizer, encoder.settings)
        for name, parameter in self.model.named_parameters():
            if freeze_embeddings and "word_embeddings" in name:
                parameter.requires_grad_(False)
        self.batches = lru_cache(maxsize=2)(self._batches)

    def loss(self, batch: Batch) -> Any:
        """The three losses of a batch, weighted."""
        rows = self.encoder.question_rows([text for text, _, _ in batch.questions])
        with computing_in(self._settings.precision, self.model):
            tokens, logits = self.model.tokens(self.encoder.tensors([one.inputs for one in batch.passages]))
            vectors = self.model.questions(self.encoder.tensors(rows), self.encoder.settings.pooling)
        tokens, logits, *vectors = (one.float() for one in (tokens, logits, *vectors))
        own = torch.tensor([place for _, _, place in batch.questions])
        total = tokens.new_zeros(())
        for side, masks in enumerate(_masks(batch, tokens.shape[1])):
            able, answers, known, gold = (mask.to(tokens.device) for mask in masks)
            inside, across = side_loss(vectors[side], tokens, own=own, gold=gold, able=able, known=known)
            keep = filter_loss(logits[..., side], answers, able)
            total = total + (inside + self._weights.batch * across + self._weights.filter * keep) / 2
        return total

    def validate(self) -> Mapping[str, float]:
        """Exact match and F1 of the best phrase among all validation passages."""
        return self._validation(self.encoder)

    def save(self, folder: Path) -> None:
        """Write the encoder, with the filter's threshold that the last validation found."""
        self.encoder.save(folder)

    def _batches(self, epoch: int) -> Sequence[Batch]:
        random = np.random.default_rng([self._settings.seed, epoch, 1])
        batches = []
        lengths = [len(passage.inputs["input_ids"]) for passage in self.passages]
        for places in shuffled(
            len(lengths), self._settings.batch_size, [self._settings.seed, epoch, 0], lengths=lengths
        ):
            passages = [self.passages[place] for place in places]
            questions = []
            for number, passage in enumerate(passages):
                for chosen in random.permutation(len(passage.questions))[: self._each]:
                    questions.append((*passage.questions[chosen], number))
            batches.append(Batch(passages, questions))
        return batches


def _masks(batch: Batch, length: int) -> list[tuple[torch.Tensor, ...]]:
    """For starts and for ends: able [p, t], answers [p, t], known [q, p, t] and gold [q, p, t]; see `side_loss`.

    `answers` is true where an answer to any question about the passage stands, drawn into this batch or not.
    """
    shape = (len(batch.questions), len(batch.passages), length)
    able, answering, known, gold = (np.zeros((2, *size), dtype=bool) for size in (shape[1:], shape[1:], shape, shape))
    for number, passage in enumerate(batch.passages):
        able[0, number, list(passage.begins.values())] = True
        able[1, number, list(passage.ends.values())] = True
        for _, answers in passage.questions:
            for side, tokens in enumerate(passage.gold(answers)):
                answering[side, number, tokens] = True
    for row, (_, answers, own) in enumerate(batch.questions):
        for number, passage in enumerate(batch.passages):
            for side, tokens in enumerate(passage.gold(answers)):
                known[side, row, number, tokens] = True
        gold[:, row, own] = known[:, row, own]
    masks = (able, answering, known, gold)
    return [tuple(torch.from_numpy(mask[side]) for mask in masks) for side in (0, 1)]
