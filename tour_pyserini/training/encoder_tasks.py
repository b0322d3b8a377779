"""The tasks that train a phrase encoder: passages, batches, losses and validation."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tour_pyserini.data.texts import Document, Passage
from tour_pyserini.data.topics import Question
from tour_pyserini.encoders.sentence_model import read_model_folder
from tour_pyserini.evaluation.answer_matching import answer_means, exact_match
from tour_pyserini.phrases.phrase_encoder import EncoderSettings, PhraseEncoder, PhraseModel, Window
from tour_pyserini.phrases.phrase_index import ENDS, STARTS, PhraseIndex, Rows, token_rows
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher
from tour_pyserini.support.model_files import read_tokenizer
from tour_pyserini.training.examples import Example, answer_spans, training_examples, training_questions
from tour_pyserini.training.trainer import Task

if TYPE_CHECKING:
    from tour_pyserini.train import PhraseEncoderRequest, QueryEncoderRequest

_QUESTIONS_PER_PASSAGE = 4  # drawn again in every epoch
_FILTER_RECALL = 0.98  # share of the answers' tokens that the filter must keep


class _TrainingPassage(NamedTuple):
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


def _training_passages(examples: Sequence[Example], encoder: PhraseEncoder) -> list[_TrainingPassage]:
    """The examples grouped by passage, so that a passage is encoded once for all questions about it.

    A passage that is too long is read in several windows, and each is a training passage of its own. A window without
    an answer is left out. An answer that is cut by the edge of a window does not count for that window.
    """
    by_passage: dict[str, list[Example]] = {}
    for example in examples:
        by_passage.setdefault(example.docid, []).append(example)
    groups = list(by_passage.values())
    windows = encoder.windows([(group[0].title, group[0].text) for group in groups])
    passages = []
    for window in windows:
        group = groups[window.passage]
        passage = _training_passage(window, group[0].text)
        passage.questions.extend((one.question, one.answers) for one in group if passage.gold(one.answers)[0])
        passages.append(passage)
    return [passage for passage in passages if passage.questions]


def _training_passage(window: Window, text: str) -> _TrainingPassage:
    rows, tokens = token_rows(text, window.offsets)
    positions, (first, last) = window.tokens[tokens], window.offsets[tokens].T
    # At the edge of a window a word may be cut; then its rest is neither the beginning nor the end of a word.
    inner = np.arange(len(rows))
    starts = np.flatnonzero((rows["roles"] & STARTS > 0) & ((first <= rows["begin"]) | (inner > 0)))
    ends = np.flatnonzero((rows["roles"] & ENDS > 0) & ((last >= rows["end"]) | (inner < len(rows) - 1)))
    return _TrainingPassage(
        window.inputs,
        dict(zip(rows["begin"][starts].tolist(), positions[starts].tolist(), strict=True)),
        dict(zip(rows["end"][ends].tolist(), positions[ends].tolist(), strict=True)),
        text,
        [],
    )


class _Batch(NamedTuple):
    """Passages, and questions about them: text, answers, and the position of the passage."""

    passages: Sequence[_TrainingPassage]
    questions: Sequence[tuple[str, Sequence[str], int]]


class PhraseTask(Task):
    """Trains a phrase encoder to find where the answers to questions begin and end.

    The loss is the sum of the in-passage loss, of that with in-batch negatives and of the filter's. Validation sets the
    threshold of the filter: the highest one that keeps 98 % of the starts and ends of answers. The vectors of the
    vocabulary are not trained.
    """

    def __init__(self, request: "PhraseEncoderRequest", base: Path) -> None:
        """Read the data, and the model in a folder to start from; a batch is `batch_size` passages."""
        examples, self._held_out = training_examples(request)
        torch.manual_seed(request.seed)  # for the filter's first weights
        weights, pooling = read_model_folder(base)
        settings = EncoderSettings(pooling=pooling, max_length=request.max_length, stride=request.max_length // 4)
        tokenizer, model = read_tokenizer(weights), PhraseModel.from_base(weights)
        self.encoder, self.request = PhraseEncoder(model, tokenizer, settings, device=request.device), request
        self.model = self.encoder.model
        self.passages = _training_passages(examples, self.encoder)
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_("word_embeddings" not in name)

    def batches(self, epoch: int) -> Sequence[_Batch]:
        """Passages of similar lengths, with some of their questions."""
        random = np.random.default_rng([self.request.seed, epoch, 1])
        lengths = [len(passage.inputs["input_ids"]) for passage in self.passages]
        batches = []
        for passages in self.shuffled(self.passages, epoch, 0, lengths=lengths):
            questions = [
                (*passage.questions[chosen], number)
                for number, passage in enumerate(passages)
                for chosen in random.permutation(len(passage.questions))[:_QUESTIONS_PER_PASSAGE]
            ]
            batches.append(_Batch(passages, questions))
        return batches

    def loss(self, batch: _Batch) -> Any:
        """The sum of the in-passage, in-batch and filter losses, as a mean over starts and ends."""
        with self.computing():
            tokens, logits = self.model.tokens(self.encoder.tensors([passage.inputs for passage in batch.passages]))
            sides = self.encoder.question_sides([text for text, _, _ in batch.questions])
        tokens, logits, *vectors = (tensor.float() for tensor in (tokens, logits, *sides))
        own = torch.tensor([passage for _, _, passage in batch.questions])
        total = tokens.new_zeros(())
        for side, masks in enumerate(_masks(batch, tokens.shape[1])):
            able, answers, known, gold = (mask.to(tokens.device) for mask in masks)
            inside, across = side_loss(vectors[side], tokens, own=own, gold=gold, able=able, known=known)
            keep = filter_loss(logits[..., side], answers, able)
            total = total + (inside + across + keep) / 2
        return total

    def validate(self) -> Mapping[str, float]:
        """Exact match and F1 of the best phrase among all validation passages; sets the filter's threshold."""
        documents = {one.docid: Document(one.docid, one.title, one.text) for one in self._held_out}
        rows, vectors = self.encoder.passages(list(documents.values()), threshold=-np.inf)
        index = PhraseIndex.in_memory(rows, vectors, list(documents))
        texts = {docid: Passage(document.title, document.text) for docid, document in documents.items()}
        questions = [Question(str(n), one.question, one.answers) for n, one in enumerate(self._held_out)]
        measures = _measure_first_phrases(PhraseSearcher(index, self.encoder, texts), questions)
        self._set_threshold(rows, vectors, list(documents))
        return measures

    def _set_threshold(self, rows: Rows, vectors: np.ndarray, docids: list[str]) -> None:
        weight, bias = (value.detach().cpu().numpy() for value in self.model.filter_linear.parameters())
        logits = vectors @ weight.T + bias
        gold = []
        for side, (edge, role) in enumerate((("begin", STARTS), ("end", ENDS))):
            row_at = {(row["passage"], row[edge]): number for number, row in enumerate(rows) if row["roles"] & role}
            places = [
                (docids.index(example.docid), span[side])
                for example in self._held_out
                for span in answer_spans(example.text, example.answers)
            ]
            gold.append(logits[[row_at[place] for place in places if place in row_at], side])
        lowest = float(np.quantile(np.concatenate(gold), 1 - _FILTER_RECALL, method="lower"))
        # Only logits above the threshold are kept, and the lowest one must be kept.
        threshold = float(np.nextafter(np.float32(lowest), np.float32(-np.inf)))
        self.encoder.settings = dataclasses.replace(self.encoder.settings, filter_threshold=threshold)

    def save(self, folder: Path) -> None:
        """Write the encoder, with the threshold of the filter that the last validation set."""
        self.encoder.save(folder)


def _masks(batch: _Batch, length: int) -> list[tuple[Tensor, ...]]:
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


def _marginal_loss(logits: Tensor, gold: Tensor, allowed: Tensor) -> Tensor:
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
    inside = _marginal_loss(logits[rows, own], gold[rows, own], able[own])
    allowed = able.unsqueeze(0) & (~known | gold)
    across = _marginal_loss(logits.flatten(1), gold.flatten(1), allowed.flatten(1))
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


def _measure_first_phrases(searcher: PhraseSearcher, questions: Sequence[Question]) -> dict[str, float]:
    """Exact match and F1 of the first phrase for each question."""
    found = searcher.batch_search([one.text for one in questions], [one.qid for one in questions], k=1)
    best = [hits[0].text if hits else "" for hits in found.values()]
    return answer_means(best, [one.answers for one in questions])


class QueryTask(Task):
    """Trains the query encoders of a phrase encoder on the k best phrases of a whole index.

    The loss is - log sum of P_k(c | q) over those of the k best phrases c whose text is an answer. Questions without
    such a phrase are left out of the step. The phrase encoder does not change, so that the index stays valid.
    """

    def __init__(self, request: "QueryEncoderRequest", base: Path) -> None:
        """Read the data, and open the index with the phrase encoder in a folder; a batch is `batch_size` questions."""
        self._questions, self._validation = training_questions(request)
        self._searcher = PhraseSearcher.open(request.index, request.corpus, base, device=request.device)
        self.encoder, self.request = self._searcher.query_encoder, request
        self.model = self.encoder.model
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(name.startswith("query_") and "word_embeddings" not in name)

    def batches(self, epoch: int) -> Sequence[Sequence[Question]]:
        """Questions in random order."""
        return self.shuffled(self._questions, epoch)

    def loss(self, batch: Sequence[Question]) -> Any:
        """Eq. 3 as a mean over the questions with an answer among their phrases; None if there is no such question."""
        with self.computing():
            sides = self.encoder.question_sides([question.text for question in batch])
        queries = torch.cat(sides, dim=1).float()
        hits = self._searcher.find(queries.detach().cpu().numpy(), phrases=self.request.depth)
        is_hit = hits.ids >= 0  # a list may be shorter than the others
        right = np.array(
            [
                [id_ >= 0 and exact_match(self._searcher.text(id_), question.answers) > 0 for id_ in ids]
                for ids, question in zip(hits.ids.tolist(), batch, strict=True)
            ]
        )
        useful = right.any(axis=1)
        if not useful.any():
            return None
        ids = np.where(is_hit, hits.ids, 0)[useful]
        vectors = self._searcher.tokens.phrase_vectors(ids.reshape(-1)).reshape(*ids.shape, -1)
        logits = torch.einsum("qd,qkd->qk", queries[torch.from_numpy(useful)], torch.from_numpy(vectors).to(queries))
        masks = (torch.from_numpy(mask[useful]).to(logits.device) for mask in (right, is_hit))
        return _marginal_loss(logits, *masks).mean()

    def validate(self) -> Mapping[str, float]:
        """Exact match and F1 of the first phrase from the whole index."""
        return _measure_first_phrases(self._searcher, self._validation)

    def save(self, folder: Path) -> None:
        """Write the encoder."""
        self.encoder.save(folder)
