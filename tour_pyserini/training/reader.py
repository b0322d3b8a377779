"""The task that trains an extractive reader, from which a phrase re-ranker can start."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tour_pyserini.data.documents import Passage
from tour_pyserini.errors import TourError, first_line
from tour_pyserini.evaluation.answer_measures import answer_means
from tour_pyserini.phrases.spans import ENDS, STARTS, token_rows
from tour_pyserini.rerankers.local_reranker import truncation_strategy
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.model_files import read_tokenizer, usable_length
from tour_pyserini.support.tokens import padded
from tour_pyserini.training.examples import Example, answer_spans
from tour_pyserini.training.phrase_encoder import marginal_loss
from tour_pyserini.training.request import TrainRequest
from tour_pyserini.training.trainer import computing_in, shuffle_batches

LONGEST_ANSWER = 30  # tokens of a predicted answer
VALIDATED_AT_ONCE = 16  # examples


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
            for start in range(0, len(self._validation), VALIDATED_AT_ONCE):
                batch = self._validation[start : start + VALIDATED_AT_ONCE]
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
