"""The task that trains a phrase encoder: its passages, batches, losses and validation."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tour_pyserini.data.texts import Document, Passage
from tour_pyserini.evaluation.answer_measures import answer_means, exact_match
from tour_pyserini.phrases.phrase_encoder import EncoderSettings, PhraseEncoder, Window, windows_of
from tour_pyserini.phrases.phrase_index import PhraseIndex
from tour_pyserini.phrases.phrase_index_building import build_token_index
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher
from tour_pyserini.phrases.spans import ENDS, STARTS, Rows, token_rows
from tour_pyserini.training.examples import Example, answer_spans
from tour_pyserini.training.request import TrainRequest
from tour_pyserini.training.trainer import computing_in, shuffle_batches


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


class Batch(NamedTuple):
    """Passages, and questions about them: text, answers, and the position of the passage."""

    passages: Sequence[TrainingPassage]
    questions: Sequence[tuple[str, Sequence[str], int]]


class PhraseTask:
    """Trains a phrase encoder to find where the answers to questions begin and end.

    The in-passage loss has weight 1.
    """

    def __init__(
        self,
        encoder: PhraseEncoder,
        examples: Sequence[Example],
        validation: "PhraseValidation",
        request: TrainRequest,
        *,
        batch_weight: float = 1.0,
        filter_weight: float = 1.0,
        questions_per_passage: int = 4,
        freeze_embeddings: bool = True,
    ) -> None:
        """Prepare the data.

        Args:
            encoder: the encoder; it is trained in place.
            examples: to train on.
            validation: decides which model is the best.
            request: `batch_size` is the number of passages.
            batch_weight: weight of the loss with in-batch negatives.
            filter_weight: weight of the filter's loss.
            questions_per_passage: most questions of a passage in an epoch; drawn again in every epoch.
            freeze_embeddings: whether the vectors of the vocabulary stay as they are, as in DensePhrases.
        """
        self.encoder, self.model = encoder, encoder.model
        self._validation, self._request = validation, request
        self._batch_weight, self._filter_weight = batch_weight, filter_weight
        self._questions_per_passage = questions_per_passage
        self.passages = training_passages(examples, encoder.tokenizer, encoder.settings)
        for name, parameter in self.model.named_parameters():
            if freeze_embeddings and "word_embeddings" in name:
                parameter.requires_grad_(False)

    def batches(self, epoch: int) -> Sequence[Batch]:
        """Passages of similar lengths, with some of their questions."""
        seed = self._request.seed
        random = np.random.default_rng([seed, epoch, 1])
        lengths = [len(passage.inputs["input_ids"]) for passage in self.passages]
        batches = []
        for passages in shuffle_batches(self.passages, self._request.batch_size, [seed, epoch, 0], lengths=lengths):
            questions = [
                (*passage.questions[chosen], number)
                for number, passage in enumerate(passages)
                for chosen in random.permutation(len(passage.questions))[: self._questions_per_passage]
            ]
            batches.append(Batch(passages, questions))
        return batches

    def loss(self, batch: Batch) -> Any:
        """The weighted sum of the in-passage, in-batch and filter losses, as a mean over starts and ends."""
        rows = self.encoder.question_rows([text for text, _, _ in batch.questions])
        with computing_in(self._request.precision, self.model):
            tokens, logits = self.model.tokens(self.encoder.tensors([passage.inputs for passage in batch.passages]))
            vectors = self.model.questions(self.encoder.tensors(rows), self.encoder.settings.pooling)
        tokens, logits, *vectors = (tensor.float() for tensor in (tokens, logits, *vectors))
        own = torch.tensor([passage for _, _, passage in batch.questions])
        total = tokens.new_zeros(())
        for side, masks in enumerate(_masks(batch, tokens.shape[1])):
            able, answers, known, gold = (mask.to(tokens.device) for mask in masks)
            inside, across = side_loss(vectors[side], tokens, own=own, gold=gold, able=able, known=known)
            keep = filter_loss(logits[..., side], answers, able)
            total = total + (inside + self._batch_weight * across + self._filter_weight * keep) / 2
        return total

    def validate(self) -> Mapping[str, float]:
        """Exact match and F1 of the best phrase among all validation passages."""
        return self._validation(self.encoder)

    def save(self, folder: Path) -> None:
        """Write the encoder, with the threshold of the filter that the last validation set."""
        self.encoder.save(folder)


def _masks(batch: Batch, length: int) -> list[tuple[Tensor, ...]]:
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


def marginal_loss(logits: Tensor, gold: Tensor, allowed: Tensor) -> Tensor:
    """- log of the probability of the gold entries among the allowed ones; [q] for logits [q, n].

    Args:
        logits: [q, n].
        gold: [q, n] true for right entries; at least one in each row.
        allowed: [q, n] true for entries that compete; includes the gold ones.
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
        known: [q, p, t] true where an answer begins (or ends) in any passage; in a passage that is not the question's
            own, such a token counts neither as right nor as wrong.
    """
    logits = torch.einsum("qd,ptd->qpt", questions, tokens)
    rows = torch.arange(len(questions))
    inside = marginal_loss(logits[rows, own], gold[rows, own], able[own])
    allowed = able.unsqueeze(0) & (~known | gold)
    across = marginal_loss(logits.flatten(1), gold.flatten(1), allowed.flatten(1))
    return torch.stack([inside.mean(), across.mean()])


def filter_loss(logits: Tensor, gold: Tensor, able: Tensor) -> Tensor:
    """Weighted binary cross-entropy of the filter, which predicts the tokens at which an answer begins (or ends).

    A right token weighs as much as all tokens of its passage together: search never finds an answer that is filtered
    out.

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


class PhraseValidation:
    """Measures the best phrase among all validation passages, and sets the threshold of the encoder's filter.

    The threshold is the highest one that keeps the share `recall` of the starts and ends of answers; it is put into
    the encoder's settings.
    """

    def __init__(self, examples: Sequence[Example], *, recall: float = 0.98) -> None:
        self._examples, self._recall = examples, recall
        self._documents = {example.docid: Document(example.docid, example.title, example.text) for example in examples}

    def __call__(self, encoder: PhraseEncoder) -> dict[str, float]:
        """Exact match and F1 of the first phrase for each question."""
        tokens = encoder.passages(list(self._documents.values()), threshold=-np.inf)
        rows, vectors = (np.concatenate(arrays) for arrays in zip(*tokens, strict=True))
        norm = float(np.linalg.norm(vectors, axis=1).max())
        index = PhraseIndex(rows, vectors, build_token_index(vectors), list(self._documents), True, norm)
        texts = {docid: Passage(document.title, document.text) for docid, document in self._documents.items()}
        questions = [(example.question, example.answers) for example in self._examples]
        measures = measure_first_phrases(PhraseSearcher(index, encoder, texts), questions)
        self._set_threshold(encoder, rows, vectors)
        return measures

    def _set_threshold(self, encoder: PhraseEncoder, rows: Rows, vectors: np.ndarray) -> None:
        linear = encoder.model.filter_linear
        weight, bias = (value.detach().cpu().numpy() for value in (linear.weight, linear.bias))
        logits = vectors @ weight.T + bias
        gold = [logits[numbers, side] for side, numbers in enumerate(self._gold(rows))]
        lowest = float(np.quantile(np.concatenate(gold), 1 - self._recall, method="lower"))
        # Only logits above the threshold are kept, and the lowest one must be kept.
        threshold = float(np.nextafter(np.float32(lowest), np.float32(-np.inf)))
        encoder.settings = dataclasses.replace(encoder.settings, filter_threshold=threshold)

    def _gold(self, rows: Rows) -> tuple[list[int], list[int]]:
        """The numbers of the rows at which answers begin, and of those at which they end."""
        passage_numbers = {docid: number for number, docid in enumerate(self._documents)}
        row_at = [
            {(int(row["passage"]), int(row[edge])): number for number, row in enumerate(rows) if row["roles"] & role}
            for edge, role in (("begin", STARTS), ("end", ENDS))
        ]
        gold: tuple[list[int], list[int]] = ([], [])
        for example in self._examples:
            for span in answer_spans(example.text, example.answers):
                for side, offset in enumerate(span):
                    key = (passage_numbers[example.docid], offset)
                    if key in row_at[side]:
                        gold[side].append(row_at[side][key])
        return gold


def measure_first_phrases(searcher: PhraseSearcher, questions: Sequence[tuple[str, Sequence[str]]]) -> dict[str, float]:
    """Exact match and F1 of the first phrase for each question, given with its answers."""
    ids = [str(number) for number in range(len(questions))]
    hits = searcher.batch_search([question for question, _ in questions], ids, k=1)
    best = [hits[id_][0].text if hits[id_] else "" for id_ in ids]
    return answer_means(best, [answers for _, answers in questions])


QuestionAndAnswers = tuple[str, Sequence[str]]
"""A question and its answers."""


class QueryTask:
    """Trains the query encoders of a phrase encoder on the k best phrases of a whole index.

    The loss is - log sum of P_k(c | q) over those of the k best phrases c whose text is an answer. Questions without
    such a phrase are left out of the step. The phrase encoder does not change, so that the index stays valid.
    """

    def __init__(
        self,
        searcher: PhraseSearcher,
        questions: Sequence[QuestionAndAnswers],
        validation: Sequence[QuestionAndAnswers],
        request: TrainRequest,
        *,
        depth: int = 100,
    ) -> None:
        """Prepare the data.

        Args:
            searcher: searches an index with the phrase encoder that built it, whose query encoders are trained in
                place.
            questions: to train on.
            validation: decides which model is the best.
            request: `batch_size` is the number of questions.
            depth: phrases retrieved for each question (k).
        """
        self.encoder, self.model = searcher.query_encoder, searcher.query_encoder.model
        self._searcher, self._questions, self._validation = searcher, questions, validation
        self._request, self._depth = request, depth
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name.startswith("query_") and "word_embeddings" not in name)

    def batches(self, epoch: int) -> Sequence[Sequence[QuestionAndAnswers]]:
        """Questions in random order."""
        return shuffle_batches(self._questions, self._request.batch_size, [self._request.seed, epoch])

    def loss(self, batch: Sequence[QuestionAndAnswers]) -> Any:
        """Eq. 3 as a mean over the questions with an answer among their phrases; None if there is no such question."""
        rows = self.encoder.question_rows([question for question, _ in batch])
        with computing_in(self._request.precision, self.model):
            sides = self.model.questions(self.encoder.tensors(rows), self.encoder.settings.pooling)
        queries = torch.cat(sides, dim=1).float()
        hits = self._searcher.finder.find(queries.detach().cpu().numpy(), phrases=self._depth)
        is_hit = hits.ids >= 0  # a list may be shorter than the others
        right = np.array(
            [
                [id_ >= 0 and exact_match(self._searcher.text(id_), answers) > 0 for id_ in ids]
                for ids, (_, answers) in zip(hits.ids.tolist(), batch, strict=True)
            ]
        )
        useful = right.any(axis=1)
        if not useful.any():
            return None
        ids = np.where(is_hit, hits.ids, 0)[useful]
        vectors = self._searcher.finder.vectors(ids.reshape(-1)).reshape(*ids.shape, -1)
        chosen = torch.from_numpy(useful)
        logits = torch.einsum("qd,qkd->qk", queries[chosen], torch.from_numpy(vectors).to(queries))
        masks = (torch.from_numpy(mask[useful]).to(logits.device) for mask in (right, is_hit))
        return marginal_loss(logits, *masks).mean()

    def validate(self) -> Mapping[str, float]:
        """Exact match and F1 of the first phrase from the whole index."""
        return measure_first_phrases(self._searcher, self._validation)

    def save(self, folder: Path) -> None:
        """Write the encoder."""
        self.encoder.save(folder)
