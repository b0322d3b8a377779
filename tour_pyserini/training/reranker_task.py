"""Training a phrase re-ranker: one right and one wrong phrase per question, drawn anew in every epoch."""

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, softplus

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.pair_tokens import pair_tokens
from tour_pyserini.rerankers.phrase_input import BEGIN, END, PhraseInput
from tour_pyserini.stores.phrases.phrase_ids import PhraseSpan, title_and_text
from tour_pyserini.support.batching import padded
from tour_pyserini.support.checkpoints import read_tokenizer, usable_length
from tour_pyserini.support.devices import on_device
from tour_pyserini.training.reranker_candidates import Candidates
from tour_pyserini.training.train_settings import TrainSettings, computing_in
from tour_pyserini.training.trainer import shuffled


def marked_classifier(folder: Path, *, labels: int) -> tuple[Any, Any]:
    """The model and tokenizer in a folder, with one or two logits and with [S] and [E] as tokens.

    A head that the checkpoint lacks, or has for another number of logits, begins with random weights; a mark that it
    lacks begins near the mean of all tokens.
    """
    import torch
    from transformers import AutoModelForSequenceClassification

    tokenizer = read_tokenizer(folder)
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            str(folder),
            num_labels=labels,
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


LOSSES = {"pairwise": 1, "pointwise": 2}
"""The losses, and how many logits a re-ranker has for each."""
VALIDATED_AT_ONCE = 32

Pair = tuple[str, PhraseSpan, PhraseSpan]
"""A question, a right and a wrong phrase."""


class RerankerTask:
    """A cross-encoder that learns to score right phrases above wrong ones.

    The pairwise loss is the paper's: the binary cross-entropy of P+ = exp(h+) / (exp(h+) + exp(h-)). The pointwise one
    is that of its published code: two classes, every phrase by itself.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        candidates: Sequence[Candidates],
        validation: Sequence[Candidates],
        texts: Mapping[str, str],
        shown: PhraseInput,
        settings: TrainSettings,
        *,
        loss: str = "pairwise",
        max_length: int = 512,
        device: str = "cpu",
    ) -> None:
        """Prepare the data.

        Args:
            model: a sequence classifier with the logits that the loss needs, trained in place.
            tokenizer: with the marks as tokens.
            candidates: to learn from.
            validation: to choose the best model by; one pair of each question.
            texts: docid to passage.
            shown: what the re-ranker reads of a phrase.
            settings: `batch_size` counts questions.
            loss: `pairwise` or `pointwise`.
            max_length: tokens of a question and what is shown of a phrase.
            device: of the model.
        """
        if loss not in LOSSES:
            raise TourError(f"there is no loss {loss!r}; choose one of {', '.join(LOSSES)}.")
        self.model, self._tokenizer, self._device = on_device(model, device), tokenizer, device
        length = usable_length(Path(tokenizer.name_or_path), model.config, tokenizer, max_length)
        self._candidates, self._texts, self._shown = candidates, texts, shown
        self._settings, self._pairwise, self._max_length = settings, loss == "pairwise", length
        # As search cuts and pads them; a copy, because what is saved must not depend on how the last batch was cut.
        self._pairs = pair_tokens(copy.deepcopy(tokenizer), max_length=length)
        self._fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
        self._validation = _drawn(validation, [settings.seed])
        self.batches = lru_cache(maxsize=2)(self._batches)

    def loss(self, batch: Sequence[Pair]) -> Any:
        """The mean loss of pairs."""
        return self._loss(self._logits(batch))

    def validate(self) -> Mapping[str, float]:
        """How often a right phrase scores above a wrong one, or a phrase gets its class; and how likely that was."""
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
        """Write the re-ranker, and beside it what it reads of a phrase."""
        self._tokenizer.model_max_length = self._max_length  # search reads as much as training did
        self.model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)
        self._shown.save(folder)

    def _logits(self, batch: Sequence[Pair]) -> torch.Tensor:
        """[2 b, labels]: the right phrases', then the wrong ones'."""
        pairs = [(pair[0], self._passage(pair[side])) for side in (1, 2) for pair in batch]
        rows = padded(next(self._pairs.rows([pairs])), self._fill, left=self._tokenizer.padding_side == "left")
        coded = {name: torch.from_numpy(ids).to(self._device) for name, ids in rows.items()}
        with computing_in(self._settings.precision, self.model):
            return self.model(**coded).logits.float()

    def _passage(self, place: Any) -> str:
        title, text = title_and_text(self._texts, place)
        return self._shown(title, text, place.begin, place.end)

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

    def _batches(self, epoch: int) -> Sequence[Sequence[Pair]]:
        pairs = _drawn(self._candidates, [self._settings.seed, epoch, 1])
        order = shuffled(len(pairs), self._settings.batch_size, [self._settings.seed, epoch, 0])
        return [[pairs[place] for place in group] for group in order]


def _drawn(candidates: Sequence[Candidates], seed: Sequence[int]) -> list[Pair]:
    """One right and one wrong phrase of each question."""
    random = np.random.default_rng(list(seed))

    def one_of(places: Sequence[PhraseSpan]) -> PhraseSpan:
        return places[int(random.integers(len(places)))]

    return [(one.question, one_of(one.right), one_of(one.wrong)) for one in candidates]
