"""The task that trains a phrase re-ranker: in every epoch, one right and one wrong phrase per question are drawn."""

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy, softplus

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.local_reranker import pair_tokens
from tour_pyserini.rerankers.phrase_input import BEGIN, END, PhraseInput
from tour_pyserini.stores.phrases.phrase_ids import PhraseSpan, title_and_text
from tour_pyserini.support.checkpoints import read_tokenizer, usable_length
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.tokens import padded
from tour_pyserini.training.reranker_candidates import Candidates
from tour_pyserini.training.train_settings import TrainSettings
from tour_pyserini.training.trainer import computing_in, shuffled

LOSSES = {"pairwise": 1, "pointwise": 2}
"""The losses, and how many logits a re-ranker has for each."""
VALIDATED_AT_ONCE = 32  # questions

Pair = tuple[str, PhraseSpan, PhraseSpan]
"""A question, a right and a wrong phrase."""


def marked_classifier(folder: Path, *, labels: int) -> tuple[Any, Any]:
    """The model and tokenizer in a folder, with one or two logits and with [S] and [E] as tokens.

    If the checkpoint has no head with this number of logits, the head starts with random weights. A mark that is not
    yet a token starts near the mean of all token vectors.
    """
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


class RerankerTask:
    """Trains a cross-encoder to score right phrases above wrong ones.

    The pairwise loss is the paper's: the binary cross-entropy of P+ = exp(h+) / (exp(h+) + exp(h-)). The pointwise loss
    is that of the paper's published code: each phrase alone is classified as right or wrong.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        candidates: Sequence[Candidates],
        validation: Sequence[Candidates],
        texts: Mapping[str, str],
        phrase_input: PhraseInput,
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
            candidates: to train on.
            validation: decides which model is the best; one pair per question is drawn once.
            texts: docid to passage.
            phrase_input: what the re-ranker reads of a phrase.
            settings: `batch_size` is the number of questions.
            loss: `pairwise` or `pointwise`.
            max_length: tokens of a question and the input of a phrase.
            device: of the model.
        """
        if loss not in LOSSES:
            raise TourError(f"loss must be {' or '.join(LOSSES)}, not {loss!r}.")
        self.model, self._tokenizer, self._device = on_device(model, device), tokenizer, device
        length = usable_length(Path(tokenizer.name_or_path), model.config, tokenizer, max_length)
        self._candidates, self._texts, self._phrase_input = candidates, texts, phrase_input
        self._settings, self._pairwise, self._max_length = settings, loss == "pairwise", length
        # Truncates and pads as search does. It works on a copy: the saved tokenizer must not depend on the last batch.
        self._pairs = pair_tokens(copy.deepcopy(tokenizer), max_length=length)
        self._fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
        self._validation = _draw_pairs(validation, [settings.seed])
        self.batches = lru_cache(maxsize=2)(self._batches)

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
        with computing_in(self._settings.precision, self.model):
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

    def _batches(self, epoch: int) -> Sequence[Sequence[Pair]]:
        pairs = _draw_pairs(self._candidates, [self._settings.seed, epoch, 1])
        order = shuffled(len(pairs), self._settings.batch_size, [self._settings.seed, epoch, 0])
        return [[pairs[position] for position in group] for group in order]


def _draw_pairs(candidates: Sequence[Candidates], seed: Sequence[int]) -> list[Pair]:
    """Draw one right and one wrong phrase for each question."""
    random = np.random.default_rng(list(seed))

    def draw(spans: Sequence[PhraseSpan]) -> PhraseSpan:
        return spans[int(random.integers(len(spans)))]

    return [(question, draw(right), draw(wrong)) for question, right, wrong in candidates]
