"""The task that trains an extractive reader, from which a phrase re-ranker can start."""

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tour_pyserini.data.documents import Passage
from tour_pyserini.data.token_rows import ENDS, STARTS, token_rows
from tour_pyserini.evaluation.answer_measures import answer_means
from tour_pyserini.rerankers.local_reranker import INPUTS, SlowPairTokens
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.checkpoints import usable_length
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.tokens import Row, padded
from tour_pyserini.training.losses import marginal_loss
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.trainer import computing_in, shuffled
from tour_pyserini.training.training_examples import Example, answer_spans

LONGEST_ANSWER = 30  # tokens of a predicted answer
VALIDATED_AT_ONCE = 16  # examples


class ReadingTokens(SlowPairTokens):
    """Token rows of (question, passage) pairs, truncated as for re-rankers, with offsets in the passage.

    `begin` and `end` are a token's offsets; both are 0 for tokens outside the passage. It needs a fast tokenizer.
    """

    def _encode(self, pairs: list[Pair], way: str) -> Sequence[Row]:
        questions, passages = (list(texts) for texts in zip(*pairs, strict=True))
        cut = {"truncation": way, "max_length": self._max_length}
        coded = self._tokenizer(questions, passages, **cut, return_offsets_mapping=True)
        rows = []
        for number, offsets in enumerate(coded["offset_mapping"]):
            in_passage = np.array([sequence == 1 for sequence in coded.sequence_ids(number)])
            begin, end = np.where(in_passage[:, None], offsets, 0).T
            inputs = {name: coded[name][number] for name in INPUTS if name in coded}
            rows.append({**inputs, "begin": begin, "end": end})
        return rows


class ReadingTask:
    """Trains an extractive reader: from a question and a passage it predicts the first and last token of the answer."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        examples: Sequence[Example],
        validation: Sequence[Example],
        settings: TrainSettings,
        *,
        max_length: int = 384,
        device: str = "cpu",
    ) -> None:
        """Prepare the data.

        Args:
            model: a Hugging Face model for question answering, trained in place.
            tokenizer: a fast tokenizer.
            examples: to train on.
            validation: decides which model is the best.
            settings: `batch_size` is the number of questions.
            max_length: tokens of a question and a passage; answers beyond it are not learnt.
            device: of the model.
        """
        self.model, self._tokenizer, self._device = on_device(model, device), tokenizer, device
        self._examples, self._validation, self._settings = examples, validation, settings
        length = usable_length(Path(tokenizer.name_or_path), model.config, tokenizer, max_length)
        self._pairs = ReadingTokens(copy.deepcopy(tokenizer), max_length=length)
        self._fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
        self.batches = lru_cache(maxsize=2)(self._batches)

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
                    text = _passage(example)
                    best.append(text[offsets[row, first, 0] : offsets[row, last, 1]])
        return answer_means(best, [example.answers for example in self._validation])

    def save(self, folder: Path) -> None:
        """Write model and tokenizer."""
        self.model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)

    def _run(self, batch: Sequence[Example]) -> tuple[torch.Tensor, dict[str, np.ndarray], np.ndarray]:
        """Run the model on a batch.

        Returns:
            Logits [2, b, t] of starts and ends; masks [2, b, t] of tokens that can start or end an answer (`able`) and
            that do (`gold`); and the tokens' offsets [b, t, 2].
        """
        texts = [_passage(example) for example in batch]
        pairs = [(example.question, text) for example, text in zip(batch, texts, strict=True)]
        coded = padded(self._pairs.rows(pairs), self._fill)
        offsets = np.stack([coded.pop("begin"), coded.pop("end")], axis=2)
        masks = {name: np.zeros((2, *offsets.shape[:2]), dtype=bool) for name in ("able", "gold")}
        for row, (example, text) in enumerate(zip(batch, texts, strict=True)):
            rows, tokens = token_rows(text, offsets[row])
            spans = answer_spans(text, example.answers)
            for side, (edge, role) in enumerate((("begin", STARTS), ("end", ENDS))):
                able = tokens[rows["roles"] & role > 0]
                masks["able"][side, row, able] = True
                right = np.isin(rows[edge][rows["roles"] & role > 0], [span[side] for span in spans])
                masks["gold"][side, row, able[right]] = True
        with computing_in(self._settings.precision, self.model):
            inputs = {name: torch.from_numpy(ids).to(self._device) for name, ids in coded.items()}
            output = self.model(**inputs)
        return torch.stack([output.start_logits, output.end_logits]).float().cpu(), masks, offsets

    def _batches(self, epoch: int) -> Sequence[Sequence[Example]]:
        order = shuffled(len(self._examples), self._settings.batch_size, [self._settings.seed, epoch])
        return [[self._examples[position] for position in group] for group in order]


def _passage(example: Example) -> str:
    return Passage(example.title, example.text)


def _best_span(logits: np.ndarray, able: np.ndarray) -> tuple[int, int]:
    """The first and last token of the span with the largest sum of logits."""
    scores = np.add.outer(np.where(able[0], logits[0], -np.inf), np.where(able[1], logits[1], -np.inf))
    allowed = np.triu(np.ones_like(scores, dtype=bool)) & ~np.triu(np.ones_like(scores, dtype=bool), LONGEST_ANSWER)
    best = int(np.where(allowed, scores, -np.inf).argmax())
    return best // scores.shape[1], best % scores.shape[1]
