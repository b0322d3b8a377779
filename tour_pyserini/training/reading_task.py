"""Reading comprehension: a task that prepares a model to be a phrase re-ranker."""

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tour_pyserini.data.documents import Passage
from tour_pyserini.data.token_rows import ENDS, STARTS, token_rows
from tour_pyserini.rerankers.pair_tokens import INPUTS, SlowPairTokens
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import Row, padded
from tour_pyserini.support.checkpoints import usable_length
from tour_pyserini.support.devices import on_device
from tour_pyserini.training.phrase_task import marginal
from tour_pyserini.training.phrase_validation import answer_means
from tour_pyserini.training.train_settings import TrainSettings, computing_in
from tour_pyserini.training.trainer import shuffled
from tour_pyserini.training.training_examples import Example, answer_spans


class ReadingTokens(SlowPairTokens):
    """Pairs cut as re-rankers cut them, with the characters of the passage where each token has its `begin` and `end`.

    Both are 0 for tokens that are not the passage's. The tokenizer is a fast one.
    """

    def _encode(self, pairs: list[Pair], way: str) -> Sequence[Row]:
        questions, passages = (list(texts) for texts in zip(*pairs, strict=True))
        cut = {"truncation": way, "max_length": self._max_length}
        coded = self._tokenizer(questions, passages, **cut, return_offsets_mapping=True)
        rows = []
        for number, offsets in enumerate(coded["offset_mapping"]):
            ours = np.array([sequence == 1 for sequence in coded.sequence_ids(number)])
            begin, end = np.where(ours[:, None], offsets, 0).T
            inputs = {name: coded[name][number] for name in INPUTS if name in coded}
            rows.append({**inputs, "begin": begin, "end": end})
        return rows


LONGEST = 30  # tokens of a predicted answer
VALIDATED_AT_ONCE = 16


class ReadingTask:
    """An extractive reader: question and passage in, the first and the last token of the answer out."""

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
            tokenizer: a fast one.
            examples: to learn from.
            validation: to choose the best model by.
            settings: `batch_size` counts questions.
            max_length: tokens of a question and a passage; answers beyond it teach nothing.
            device: of the model.
        """
        self.model, self._tokenizer, self._device = on_device(model, device), tokenizer, device
        self._examples, self._validation, self._settings = examples, validation, settings
        length = usable_length(Path(tokenizer.name_or_path), model.config, tokenizer, max_length)
        self._pairs = ReadingTokens(copy.deepcopy(tokenizer), max_length=length)
        self._fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
        self.batches = lru_cache(maxsize=2)(self._batches)

    def loss(self, batch: Sequence[Example]) -> Any:
        """- log of the probability of an answer's first and of its last token, wherever it stands."""
        logits, masks, _ = self._run(batch)
        useful = torch.from_numpy(masks["gold"].any(2).all(0))
        if not useful.any():
            return None
        sides = [
            marginal(logits[side][useful], torch.from_numpy(masks["gold"][side])[useful], able[useful])
            for side, able in enumerate(torch.from_numpy(masks["able"]))
        ]
        return torch.cat(sides).mean()

    def validate(self) -> Mapping[str, float]:
        """Exact match and F1 of the likeliest answer in each passage."""
        best = []
        with torch.inference_mode():
            for start in range(0, len(self._validation), VALIDATED_AT_ONCE):
                batch = self._validation[start : start + VALIDATED_AT_ONCE]
                logits, masks, offsets = self._run(batch)
                for row, example in enumerate(batch):
                    first, last = _likeliest(logits[:, row].numpy(), masks["able"][:, row])
                    text = _shown(example)
                    best.append(text[offsets[row, first, 0] : offsets[row, last, 1]])
        return answer_means(best, [one.answers for one in self._validation])

    def save(self, folder: Path) -> None:
        """Write model and tokenizer."""
        self.model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)

    def _run(self, batch: Sequence[Example]) -> tuple[torch.Tensor, dict[str, np.ndarray], np.ndarray]:
        """Logits [2, b, t]; where tokens can begin and end answers, and where they do, [2, b, t]; offsets [b, t, 2]."""
        texts = [_shown(one) for one in batch]
        pairs = [(one.question, text) for one, text in zip(batch, texts, strict=True)]
        coded = padded(next(self._pairs.rows([pairs])), self._fill)
        offsets = np.stack([coded.pop("begin"), coded.pop("end")], axis=2)
        masks = {name: np.zeros((2, *offsets.shape[:2]), dtype=bool) for name in ("able", "gold")}
        for row, (one, text) in enumerate(zip(batch, texts, strict=True)):
            rows, tokens = token_rows(text, offsets[row])
            spans = answer_spans(text, one.answers)
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
        return [[self._examples[place] for place in group] for group in order]


def _shown(example: Example) -> str:
    return Passage(example.title, example.text)


def _likeliest(logits: np.ndarray, able: np.ndarray) -> tuple[int, int]:
    """The first and last token of the best span."""
    scores = np.add.outer(np.where(able[0], logits[0], -np.inf), np.where(able[1], logits[1], -np.inf))
    allowed = np.triu(np.ones_like(scores, dtype=bool)) & ~np.triu(np.ones_like(scores, dtype=bool), LONGEST)
    best = int(np.where(allowed, scores, -np.inf).argmax())
    return best // scores.shape[1], best % scores.shape[1]
