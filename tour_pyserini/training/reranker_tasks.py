"""The task that trains a phrase re-ranker.

Its data are the phrases that the retriever finds for questions; in every epoch, one right and one wrong phrase per
question are drawn.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy, softplus

from tour_pyserini.data.texts import Passage
from tour_pyserini.data.topics import Question
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.evaluation.answer_matching import matcher_for
from tour_pyserini.evaluation.answer_measures import answer_means, exact_match
from tour_pyserini.phrases.phrase_index import PhraseSpan, title_and_text
from tour_pyserini.phrases.phrase_input import BEGIN, END, PhraseInput
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher
from tour_pyserini.phrases.spans import ENDS, STARTS, token_rows
from tour_pyserini.rerankers.local_reranker import pair_tokens, truncation_strategy
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.model_files import padded, read_tokenizer, usable_length
from tour_pyserini.support.resumable import whole_lines, write_through
from tour_pyserini.training.encoder_tasks import marginal_loss
from tour_pyserini.training.examples import Example, answer_spans
from tour_pyserini.training.request import TrainRequest
from tour_pyserini.training.trainer import computing_in, shuffle_batches

LOGITS = {"pairwise": 1, "pointwise": 2}
"""The losses, and how many logits a re-ranker has for each."""
AT_ONCE = 16  # questions that are searched and saved together
VALIDATED_AT_ONCE = 32  # questions

Pair = tuple[str, PhraseSpan, PhraseSpan]
"""A question, a right and a wrong phrase."""


class Candidates(NamedTuple):
    """A question, with the right and the wrong phrases that were retrieved for it."""

    question: str
    right: Sequence[PhraseSpan]
    wrong: Sequence[PhraseSpan]


def find_candidates(
    questions: Sequence[Question],
    searcher: PhraseSearcher,
    phrase_input: PhraseInput,
    *,
    depth: int,
    positive: str,
    file: Path,
) -> list[Candidates]:
    """Retrieve phrases for each question, and separate the right ones from the wrong ones.

    Questions that do not have both right and wrong phrases are left out.

    Args:
        questions: with their answers.
        searcher: the retriever.
        phrase_input: what the re-ranker will read of a phrase.
        depth: phrases retrieved for each question.
        positive: a phrase is right if its `context` contains an answer, as in the paper, or if the `phrase` is one.
        file: the phrases are saved here as they are found; questions that it already has are not searched again.
    """
    from tqdm import tqdm

    def is_right(span: PhraseSpan, answers: Sequence[str]) -> bool:
        _, text = title_and_text(searcher.texts, span)
        if positive == "phrase":
            return exact_match(text[span.begin : span.end], answers) > 0
        first, last = phrase_input.context_span(text, span.begin, span.end)
        return bool(matcher_for([answers]).matches(text[first:last]))

    with open(file, "a+b") as saved:
        lines = whole_lines(saved)
        saved.truncate(sum(map(len, lines)))
        with tqdm(total=len(questions), initial=len(lines), unit="question", desc="retrieving", disable=None) as bar:
            for start in range(len(lines), len(questions), AT_ONCE):
                some = questions[start : start + AT_ONCE]
                hits = searcher.batch_search([q.text for q in some], [q.qid for q in some], depth)
                for question in some:
                    spans = [PhraseSpan(hit.docid, hit.begin, hit.end) for hit in hits[question.qid]]
                    judged = [[*span, is_right(span, question.answers)] for span in spans]
                    lines.append(f"{json.dumps(judged, ensure_ascii=False)}\n".encode())
                write_through(saved, b"".join(lines[start:]))
                bar.update(len(some))
    useful = []
    for question, line in zip(questions, lines, strict=True):
        found: tuple[list[PhraseSpan], list[PhraseSpan]] = ([], [])
        for *span, right in json.loads(line):
            found[not right].append(PhraseSpan(*span))
        if all(found):
            useful.append(Candidates(question.text, *found))
    if not useful:
        raise TourError("no question has both right and wrong phrases among its candidates; check index and answers.")
    return useful


def marked_classifier(folder: Path, *, logits: int) -> tuple[Any, Any]:
    """The model and tokenizer in a folder, with one or two logits and with [S] and [E] as tokens.

    If the checkpoint has no head with this number of logits, the head starts with random weights. A mark that is not
    yet a token starts near the mean of all token vectors.
    """
    from transformers import AutoModelForSequenceClassification

    tokenizer = read_tokenizer(folder)
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            str(folder),
            num_labels=logits,
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


class RerankerTask:
    """Trains a cross-encoder to score right phrases above wrong ones.

    The pairwise loss is the paper's: the binary cross-entropy of P+ = exp(h+) / (exp(h+) + exp(h-)). The pointwise loss
    is that of the paper's published code: each phrase alone is classified as right or wrong.
    """

    def __init__(
        self,
        base: Path,
        candidates: Sequence[Candidates],
        validation: Sequence[Candidates],
        texts: Mapping[str, str],
        phrase_input: PhraseInput,
        request: TrainRequest,
        *,
        loss: str = "pairwise",
        max_length: int = 256,
    ) -> None:
        """Read the model and its tokenizer.

        Args:
            base: the folder of the model to start from.
            candidates: to train on.
            validation: decides which model is the best; one pair per question is drawn once.
            texts: docid to passage.
            phrase_input: what the re-ranker reads of a phrase.
            request: `batch_size` is the number of questions.
            loss: `pairwise` or `pointwise`.
            max_length: tokens of a question and the input of a phrase.
        """
        torch.manual_seed(request.seed)  # for the first weights of the head and of the marks
        model, tokenizer = marked_classifier(base, logits=LOGITS[loss])
        self.model, self._tokenizer, self._device = on_device(model, request.device), tokenizer, request.device
        length = usable_length(base, model.config, tokenizer, max_length)
        self._candidates, self._texts, self._phrase_input = candidates, texts, phrase_input
        self._request, self._pairwise, self._max_length = request, loss == "pairwise", length
        # Truncates and pads as search does. It works on a copy: the saved tokenizer must not depend on the last batch.
        self._pairs = pair_tokens(copy.deepcopy(tokenizer), max_length=length)
        self._fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
        self._validation = _draw_pairs(validation, [request.seed])

    def batches(self, epoch: int) -> Sequence[Sequence[Pair]]:
        """Pairs that are drawn for this epoch."""
        pairs = _draw_pairs(self._candidates, [self._request.seed, epoch, 1])
        return shuffle_batches(pairs, self._request.batch_size, [self._request.seed, epoch, 0])

    def loss(self, batch: Sequence[Pair]) -> Any:
        """The mean loss of pairs."""
        return self._loss(self._logits(batch))

    def validate(self) -> Mapping[str, float]:
        """Share of pairs whose right phrase scores higher (pointwise: of right classes), and mean log-likelihood."""
        right, losses = [], []
        with torch.inference_mode():
            for start in range(0, len(self._validation), VALIDATED_AT_ONCE):
                batch = self._validation[start : start + VALIDATED_AT_ONCE]
                logits = self._logits(batch)
                right.append(self._is_right(logits))
                losses.append(float(self._loss(logits)) * len(batch))
        accuracy = float(torch.cat(right).float().mean())
        return {"accuracy": accuracy, "log_likelihood": -sum(losses) / len(self._validation)}

    def save(self, folder: Path) -> None:
        """Write the re-ranker, and the settings of its phrase input beside it."""
        self._tokenizer.model_max_length = self._max_length  # search reads as much as training did
        self.model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)
        self._phrase_input.save(folder)

    def _logits(self, batch: Sequence[Pair]) -> torch.Tensor:
        """[2 b, labels]: the right phrases', then the wrong ones'."""
        pairs = [(question, self._passage(right)) for question, right, _ in batch]
        pairs += [(question, self._passage(wrong)) for question, _, wrong in batch]
        rows = padded(self._pairs.rows(pairs), self._fill, left=self._tokenizer.padding_side == "left")
        coded = {name: torch.from_numpy(ids).to(self._device) for name, ids in rows.items()}
        with computing_in(self._request.precision, self.model):
            return self.model(**coded).logits.float()

    def _passage(self, span: PhraseSpan) -> str:
        title, text = title_and_text(self._texts, span)
        return self._phrase_input(title, text, span.begin, span.end)

    def _loss(self, logits: torch.Tensor) -> torch.Tensor:
        if self._pairwise:
            right, wrong = logits[:, 0].chunk(2)
            return softplus(wrong - right).mean()
        return cross_entropy(logits, self._classes(len(logits) // 2))

    def _is_right(self, logits: torch.Tensor) -> torch.Tensor:
        if self._pairwise:
            right, wrong = logits[:, 0].chunk(2)
            return right > wrong
        return logits.argmax(1) == self._classes(len(logits) // 2)

    def _classes(self, count: int) -> torch.Tensor:
        return torch.tensor([1] * count + [0] * count, device=self._device)


def _draw_pairs(candidates: Sequence[Candidates], seed: Sequence[int]) -> list[Pair]:
    """Draw one right and one wrong phrase for each question."""
    random = np.random.default_rng(list(seed))

    def draw(spans: Sequence[PhraseSpan]) -> PhraseSpan:
        return spans[int(random.integers(len(spans)))]

    return [(question, draw(right), draw(wrong)) for question, right, wrong in candidates]


LONGEST_ANSWER = 30  # tokens of a predicted answer
READ_AT_ONCE = 16  # examples


class ReadingTask:
    """Trains an extractive reader: from a question and a passage it predicts the first and last token of the answer."""

    def __init__(
        self,
        base: Path,
        examples: Sequence[Example],
        validation: Sequence[Example],
        request: TrainRequest,
        *,
        max_length: int = 384,
    ) -> None:
        """Read the model and its tokenizer; the head starts with random weights.

        Args:
            base: folder of a Hugging Face model with a fast tokenizer.
            examples: to train on.
            validation: decides which model is the best.
            request: `batch_size` is the number of questions.
            max_length: tokens of a question and a passage; answers beyond it are not learnt.
        """
        from transformers import AutoModelForQuestionAnswering

        torch.manual_seed(request.seed)
        try:
            model = AutoModelForQuestionAnswering.from_pretrained(str(base), weights_only=True, trust_remote_code=False)
        except Exception as error:
            raise TourError(f"{base} cannot be trained as a reader ({first_line(error)}).") from error
        self.model, self._saved = on_device(model.float(), request.device), read_tokenizer(base)
        # Tokenising changes a tokenizer's truncation; the one that is saved must not depend on the last batch.
        self._tokenizer = copy.deepcopy(self._saved)
        self._max_length = usable_length(base, model.config, self._saved, max_length)
        self._examples, self._validation, self._request = examples, validation, request

    def batches(self, epoch: int) -> Sequence[Sequence[Example]]:
        """Examples in random order."""
        return shuffle_batches(self._examples, self._request.batch_size, [self._request.seed, epoch])

    def loss(self, batch: Sequence[Example]) -> Any:
        """- log of the probability of the answers' first and last tokens; None if the batch has no answer."""
        logits, masks, _ = self._run(batch)
        useful = torch.from_numpy(masks["gold"].any(2).all(0))
        if not useful.any():
            return None
        sides = [
            marginal_loss(logits[side][useful], torch.from_numpy(masks["gold"][side])[useful], able[useful])
            for side, able in enumerate(torch.from_numpy(masks["able"]))
        ]
        return torch.cat(sides).mean()

    def validate(self) -> Mapping[str, float]:
        """Exact match and F1 of the most probable answer in each passage."""
        best = []
        with torch.inference_mode():
            for start in range(0, len(self._validation), READ_AT_ONCE):
                batch = self._validation[start : start + READ_AT_ONCE]
                logits, masks, offsets = self._run(batch)
                for row, example in enumerate(batch):
                    first, last = _best_span(logits[:, row].numpy(), masks["able"][:, row])
                    text = Passage(example.title, example.text)
                    best.append(text[offsets[row, first, 0] : offsets[row, last, 1]])
        return answer_means(best, [example.answers for example in self._validation])

    def save(self, folder: Path) -> None:
        """Write model and tokenizer."""
        self.model.save_pretrained(folder)
        self._saved.save_pretrained(folder)

    def _run(self, batch: Sequence[Example]) -> tuple[torch.Tensor, dict[str, np.ndarray], np.ndarray]:
        """Run the model on a batch.

        Returns:
            Logits [2, b, t] of starts and ends; masks [2, b, t] of tokens that can start or end an answer (`able`) and
            that do (`gold`); and the tokens' offsets [b, t, 2].
        """
        texts = [Passage(example.title, example.text) for example in batch]
        rows = [self._row(example.question, text) for example, text in zip(batch, texts, strict=True)]
        fill = {"input_ids": self._saved.pad_token_id or 0, "token_type_ids": self._saved.pad_token_type_id}
        coded = padded(rows, fill)
        offsets = np.stack([coded.pop("begin"), coded.pop("end")], axis=2)
        masks = {name: np.zeros((2, *offsets.shape[:2]), dtype=bool) for name in ("able", "gold")}
        for row, (example, text) in enumerate(zip(batch, texts, strict=True)):
            words, tokens = token_rows(text, offsets[row])
            spans = answer_spans(text, example.answers)
            for side, (edge, role) in enumerate((("begin", STARTS), ("end", ENDS))):
                able = tokens[words["roles"] & role > 0]
                masks["able"][side, row, able] = True
                right = np.isin(words[edge][words["roles"] & role > 0], [span[side] for span in spans])
                masks["gold"][side, row, able[right]] = True
        with computing_in(self._request.precision, self.model):
            inputs = {name: torch.from_numpy(ids).to(self._request.device) for name, ids in coded.items()}
            output = self.model(**inputs)
        return torch.stack([output.start_logits, output.end_logits]).float().cpu(), masks, offsets

    def _row(self, question: str, text: str) -> dict[str, Any]:
        """The inputs of a pair, cut as for re-rankers, and each token's offsets in the passage; 0 outside of it."""
        tokenizer, length = self._tokenizer, self._max_length
        words = len(tokenizer(question, add_special_tokens=False, verbose=False)["input_ids"])
        way = truncation_strategy(words, length - tokenizer.num_special_tokens_to_add(pair=True))
        coded = tokenizer(question, text, truncation=way, max_length=length, return_offsets_mapping=True)
        in_passage = np.array([sequence == 1 for sequence in coded.sequence_ids(0)])
        begin, end = np.where(in_passage[:, None], coded.pop("offset_mapping"), 0).T
        return {**coded, "begin": begin, "end": end}


def _best_span(logits: np.ndarray, able: np.ndarray) -> tuple[int, int]:
    """The first and last token of the span with the largest sum of logits."""
    scores = np.add.outer(np.where(able[0], logits[0], -np.inf), np.where(able[1], logits[1], -np.inf))
    allowed = np.triu(np.ones_like(scores, dtype=bool)) & ~np.triu(np.ones_like(scores, dtype=bool), LONGEST_ANSWER)
    best = int(np.where(allowed, scores, -np.inf).argmax())
    return best // scores.shape[1], best % scores.shape[1]
