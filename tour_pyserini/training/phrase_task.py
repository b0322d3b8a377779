"""Training a phrase encoder: its passages, its losses and its batches."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tour_pyserini.data.token_rows import ENDS, STARTS, token_rows
from tour_pyserini.encoders.phrases.phrase_encoder import PhraseEncoder
from tour_pyserini.encoders.phrases.phrase_settings import EncoderSettings
from tour_pyserini.encoders.phrases.windows import Window, windows_of
from tour_pyserini.training.phrase_validation import PhraseValidation
from tour_pyserini.training.train_settings import TrainSettings, computing_in
from tour_pyserini.training.trainer import shuffled
from tour_pyserini.training.training_examples import Example, answer_spans


def marginal(logits: Tensor, gold: Tensor, allowed: Tensor) -> Tensor:
    """- log of the probability mass of the gold ones among those allowed; [q] for logits [q, n].

    Args:
        logits: [q, n].
        gold: [q, n] true for what is right; at least one in each row.
        allowed: [q, n] true for what competes; includes the gold ones.
    """
    low = torch.finfo(logits.dtype).min
    return logits.masked_fill(~allowed, low).logsumexp(1) - logits.masked_fill(~gold, low).logsumexp(1)


def side_loss(questions: Tensor, tokens: Tensor, *, own: Tensor, gold: Tensor, able: Tensor, known: Tensor) -> Tensor:
    """In-passage and in-batch loss of one side (starts or ends) as [2]: means over the questions.

    Args:
        questions: [q, d].
        tokens: [p, t, d] of the batch's passages.
        own: [q] each question's passage.
        gold: [q, p, t] true where an answer to the question begins (or ends) in its own passage.
        able: [p, t] true for tokens that can begin (or end) phrases.
        known: [q, p, t] true where an answer stands in whichever passage: in another one it is neither right nor wrong.
    """
    logits = torch.einsum("qd,ptd->qpt", questions, tokens)
    rows = torch.arange(len(questions))
    inside = marginal(logits[rows, own], gold[rows, own], able[own])
    allowed = able.unsqueeze(0) & (~known | gold)
    across = marginal(logits.flatten(1), gold.flatten(1), allowed.flatten(1))
    return torch.stack([inside.mean(), across.mean()])


def filter_loss(logits: Tensor, gold: Tensor, able: Tensor) -> Tensor:
    """How badly a filter tells the tokens at which some answer begins or ends.

    A right token weighs as much as all tokens of its passage together, since one is missed for good.

    Args:
        logits: [p, t] of one side.
        gold: [p, t] true where some question's answer begins (or ends).
        able: [p, t] true for tokens that can begin (or end) phrases.
    """
    weight = 1 + gold * (able.sum(1, keepdim=True) - 1)
    losses = binary_cross_entropy_with_logits(
        logits, gold.to(logits.dtype), weight=weight.to(logits.dtype), reduction="none"
    )
    return ((losses * able).sum(1) / able.sum(1).clamp(min=1)).mean()


class TrainingPassage(NamedTuple):
    """A stretch of a passage that holds answers.

    Attributes:
        inputs: the model's inputs by name.
        begins: characters at which phrases may begin, and the token of each.
        ends: characters at which phrases may end, and the token of each.
        text: the passage's text.
        questions: the questions whose answers are in this stretch, with these answers.
    """

    inputs: Any
    begins: dict[int, int]
    ends: dict[int, int]
    text: str
    questions: list[tuple[str, Sequence[str]]]

    def gold(self, answers: Sequence[str]) -> tuple[list[int], list[int]]:
        """The tokens at which answers begin and those at which they end, as far as both are in this stretch."""
        spans = [(b, e) for b, e in answer_spans(self.text, answers) if b in self.begins and e in self.ends]
        return sorted({self.begins[b] for b, _ in spans}), sorted({self.ends[e] for _, e in spans})


def training_passages(examples: Sequence[Example], tokenizer: Any, settings: EncoderSettings) -> list[TrainingPassage]:
    """The examples by passage: a passage is encoded once for all questions about it.

    Of a passage that is read in several stretches, each is a passage of its own; a stretch without an answer is left
    out, and a question belongs to the first stretch that holds an answer. An answer cut by two stretches is in none.
    """
    by_passage: dict[str, list[Example]] = {}
    for example in examples:
        by_passage.setdefault(example.docid, []).append(example)
    groups = list(by_passage.values())
    windows = windows_of([(group[0].title, group[0].text) for group in groups], tokenizer, settings)
    found, placed = [], set()
    for window in windows:
        group = groups[window.passage]
        passage = _passage(window, group[0].text)
        for place, example in enumerate(group):
            if (window.passage, place) not in placed and passage.gold(example.answers)[0]:
                placed.add((window.passage, place))
                passage.questions.append((example.question, example.answers))
        if passage.questions:
            found.append(passage)
    return found


def _passage(window: Window, text: str) -> TrainingPassage:
    rows, tokens = token_rows(text, window.offsets)
    places, (first, last) = window.tokens[tokens], window.offsets[tokens].T
    # At the edge of a stretch a word may be cut, and what is left of it neither begins nor ends it.
    inner = np.arange(len(rows))
    starts = np.flatnonzero((rows["roles"] & STARTS > 0) & ((first <= rows["begin"]) | (inner > 0)))
    ends = np.flatnonzero((rows["roles"] & ENDS > 0) & ((last >= rows["end"]) | (inner < len(rows) - 1)))
    return TrainingPassage(
        window.inputs,
        dict(zip(rows["begin"][starts].tolist(), places[starts].tolist(), strict=True)),
        dict(zip(rows["end"][ends].tolist(), places[ends].tolist(), strict=True)),
        text,
        [],
    )


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
