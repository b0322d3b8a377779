"""The task that trains a phrase encoder: its passages, batches and losses."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from tour_pyserini.data.token_rows import ENDS, STARTS, token_rows
from tour_pyserini.encoders.phrases.phrase_encoder import PhraseEncoder
from tour_pyserini.encoders.phrases.phrase_settings import EncoderSettings
from tour_pyserini.encoders.phrases.windows import Window, windows_of
from tour_pyserini.training.losses import filter_loss, side_loss
from tour_pyserini.training.phrase_validation import PhraseValidation
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.trainer import computing_in, shuffled
from tour_pyserini.training.training_examples import Example, answer_spans


class TrainingPassage(NamedTuple):
    """A window of a passage that contains answers.

    Attributes:
        inputs: the model's inputs by name.
        begins: offsets at which phrases may begin, to the token there.
        ends: offsets at which phrases may end, to the token there.
        text: the passage's text.
        questions: the questions whose answers are in this window, with their answers.
    """

    inputs: Any
    begins: dict[int, int]
    ends: dict[int, int]
    text: str
    questions: list[tuple[str, Sequence[str]]]

    def gold(self, answers: Sequence[str]) -> tuple[list[int], list[int]]:
        """The tokens at which answers begin and those at which they end, of answers that are whole in this window."""
        spans = [(b, e) for b, e in answer_spans(self.text, answers) if b in self.begins and e in self.ends]
        return sorted({self.begins[b] for b, _ in spans}), sorted({self.ends[e] for _, e in spans})


def training_passages(examples: Sequence[Example], tokenizer: Any, settings: EncoderSettings) -> list[TrainingPassage]:
    """The examples grouped by passage, so that a passage is encoded once for all questions about it.

    A passage that is too long is read in several windows, and each is a training passage of its own. A window without
    an answer is left out. A question belongs to the first window that contains an answer. An answer that is cut by the
    edge of a window does not count for that window.
    """
    by_passage: dict[str, list[Example]] = {}
    for example in examples:
        by_passage.setdefault(example.docid, []).append(example)
    groups = list(by_passage.values())
    windows = windows_of([(group[0].title, group[0].text) for group in groups], tokenizer, settings)
    passages, assigned = [], set()
    for window in windows:
        group = groups[window.passage]
        passage = _training_passage(window, group[0].text)
        for number, example in enumerate(group):
            if (window.passage, number) not in assigned and passage.gold(example.answers)[0]:
                assigned.add((window.passage, number))
                passage.questions.append((example.question, example.answers))
        if passage.questions:
            passages.append(passage)
    return passages


def _training_passage(window: Window, text: str) -> TrainingPassage:
    rows, tokens = token_rows(text, window.offsets)
    positions, (first, last) = window.tokens[tokens], window.offsets[tokens].T
    # At the edge of a window a word may be cut; then its rest is neither the beginning nor the end of a word.
    inner = np.arange(len(rows))
    starts = np.flatnonzero((rows["roles"] & STARTS > 0) & ((first <= rows["begin"]) | (inner > 0)))
    ends = np.flatnonzero((rows["roles"] & ENDS > 0) & ((last >= rows["end"]) | (inner < len(rows) - 1)))
    return TrainingPassage(
        window.inputs,
        dict(zip(rows["begin"][starts].tolist(), positions[starts].tolist(), strict=True)),
        dict(zip(rows["end"][ends].tolist(), positions[ends].tolist(), strict=True)),
        text,
        [],
    )


class LossWeights(NamedTuple):
    """Weights of the in-batch loss and of the filter's loss; the in-passage loss has weight 1."""

    batch: float = 1.0
    filter: float = 1.0


class Batch(NamedTuple):
    """Passages, and questions about them: text, answers, and the position of the passage."""

    passages: Sequence[TrainingPassage]
    questions: Sequence[tuple[str, Sequence[str], int]]


class PhraseTask:
    """Trains a phrase encoder to find where the answers to questions begin and end."""

    def __init__(
        self,
        encoder: PhraseEncoder,
        examples: Sequence[Example],
        validation: PhraseValidation,
        settings: TrainSettings,
        *,
        weights: LossWeights = LossWeights(),  # noqa: B008 (a constant)
        questions_per_passage: int = 4,
        freeze_embeddings: bool = True,
    ) -> None:
        """Prepare the data.

        Args:
            encoder: the encoder; it is trained in place.
            examples: to train on.
            validation: decides which model is the best.
            settings: `batch_size` is the number of passages.
            weights: of the losses.
            questions_per_passage: most questions of a passage in an epoch; drawn again in every epoch.
            freeze_embeddings: whether the vectors of the vocabulary stay as they are, as in DensePhrases.
        """
        self.encoder, self.model = encoder, encoder.model
        self._validation, self._settings, self._weights = validation, settings, weights
        self._questions_per_passage = questions_per_passage
        self.passages = training_passages(examples, encoder.tokenizer, encoder.settings)
        for name, parameter in self.model.named_parameters():
            if freeze_embeddings and "word_embeddings" in name:
                parameter.requires_grad_(False)
        self.batches = lru_cache(maxsize=2)(self._batches)

    def loss(self, batch: Batch) -> Any:
        """The weighted sum of the in-passage, in-batch and filter losses, as a mean over starts and ends."""
        rows = self.encoder.question_rows([text for text, _, _ in batch.questions])
        with computing_in(self._settings.precision, self.model):
            tokens, logits = self.model.tokens(self.encoder.tensors([passage.inputs for passage in batch.passages]))
            vectors = self.model.questions(self.encoder.tensors(rows), self.encoder.settings.pooling)
        tokens, logits, *vectors = (tensor.float() for tensor in (tokens, logits, *vectors))
        own = torch.tensor([passage for _, _, passage in batch.questions])
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
        """Write the encoder, with the threshold of the filter that the last validation set."""
        self.encoder.save(folder)

    def _batches(self, epoch: int) -> Sequence[Batch]:
        random = np.random.default_rng([self._settings.seed, epoch, 1])
        batches = []
        lengths = [len(passage.inputs["input_ids"]) for passage in self.passages]
        for group in shuffled(
            len(lengths), self._settings.batch_size, [self._settings.seed, epoch, 0], lengths=lengths
        ):
            passages = [self.passages[position] for position in group]
            questions = []
            for number, passage in enumerate(passages):
                for chosen in random.permutation(len(passage.questions))[: self._questions_per_passage]:
                    questions.append((*passage.questions[chosen], number))
            batches.append(Batch(passages, questions))
        return batches


def _masks(batch: Batch, length: int) -> list[tuple[torch.Tensor, ...]]:
    """For starts and for ends: able [p, t], answers [p, t], known [q, p, t] and gold [q, p, t]; see `side_loss`.

    `answers` is true where an answer to any question about the passage begins (or ends), also to questions that are
    not in this batch.
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
