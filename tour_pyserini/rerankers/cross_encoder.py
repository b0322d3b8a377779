"""Use a `sentence_transformers.CrossEncoder` as a re-ranker that returns raw logits."""

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tour_pyserini.errors import TourError, first_line
from tour_pyserini.rerankers.classifier import output_count_error, relevance_logits
from tour_pyserini.rerankers.description import PRECISIONS, Description, score_of_logits
from tour_pyserini.rerankers.pair_tokens import PROBES
from tour_pyserini.rerankers.reranker import Pair
from tour_pyserini.support.batching import encodable
from tour_pyserini.support.devices import torch_threads

TOLERANCE = 1e-4
"""Allowed difference of logits: rounding errors in single precision are far smaller."""
CHUNK = 256
"""Pairs between two reports of progress."""


def is_cross_encoder(candidate: object) -> bool:
    """Whether an object is a CrossEncoder. Does not import the library: without it, there is no such object."""
    library = sys.modules.get("sentence_transformers")
    cross_encoder = getattr(library, "CrossEncoder", None)
    return isinstance(cross_encoder, type) and isinstance(candidate, cross_encoder)


class CrossEncoderReranker:
    """A CrossEncoder with its modules, prompts and chat template, and without its activation function.

    With two logits, the score is their difference. The maximum length, the device and the truncation of the
    CrossEncoder are not changed. By default, the fingerprint is computed from the weights when the object is wrapped:
    wrap it again after training.

    Args:
        model: the CrossEncoder.
        name: the name of the model, for messages.
        fingerprint: what identifies it, if that is known.
        batch_size: pairs per batch; 1 if a pair has another score in a batch than alone, as in half precision.
        threads: CPU threads; by default those of torch.
    """

    on_progress: Callable[[int], None] | None = None

    def __init__(
        self,
        model: Any,
        *,
        name: str | None = None,
        fingerprint: str | None = None,
        batch_size: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.name = name or str(getattr(getattr(model, "config", None), "name_or_path", "") or "CrossEncoder")
        if model.num_labels not in (1, 2):
            raise output_count_error(self.name, model.num_labels)
        self._model = model
        self._threads = threads
        self._batch_size = 2
        self._batch_size = (batch_size or 32) if self._batches_rightly() else 1
        self.fingerprint = fingerprint or _fingerprint(model)

    @property
    def description(self) -> Description:
        """How the model is run."""
        dtype = str(getattr(self._model, "dtype", "")).removeprefix("torch.")
        return Description(
            f"CrossEncoder with {', '.join(type(module).__name__ for module in self._model)}",
            score_of_logits(self._model.num_labels),
            "\n".join(_prompt_texts(self._model)) or None,
            "sentence-transformers",
            PRECISIONS.get(dtype, "as stored"),
            dtype,
            self._model.max_seq_length,
        )

    @property
    def fixed_tokens(self) -> int:
        """Tokens of an empty pair: prompt, template and special tokens."""
        features = self._run(self._model.preprocess, [["", ""]], prompt=_prompt(self._model))
        return int(features["input_ids"].shape[1])

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Compute raw logits, float64 [len(pairs)]; higher is more relevant."""
        if not len(pairs):
            return np.empty(0)
        scores = []
        with torch_threads(self._threads):
            for start in range(0, len(pairs), CHUNK):
                chunk = [[encodable(text) for text in pair] for pair in pairs[start : start + CHUNK]]
                scores.append(relevance_logits(self._run(self._logits, chunk), self.name))
                if self.on_progress is not None:
                    self.on_progress(len(chunk))
        return np.concatenate(scores)

    def _batches_rightly(self) -> bool:
        """Whether the logits of a padded batch are those of its pairs alone; some models refuse batches."""
        alone = [self.predict([pair])[0] for pair in PROBES[:2]]
        try:
            together = self.predict(PROBES[:2])
        except TourError:
            return False
        return np.allclose(together, alone, rtol=TOLERANCE, atol=TOLERANCE)

    def _logits(self, pairs: list[list[str]]) -> np.ndarray:
        import torch

        return self._model.predict(
            pairs,
            batch_size=self._batch_size,
            activation_fn=torch.nn.Identity(),
            show_progress_bar=False,
            convert_to_numpy=True,
        )

    def _run(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Do what the library may refuse, for example because a chat template has no place for a query."""
        try:
            return work(*arguments, **options)
        except Exception as error:  # the library and a model's own modules may raise anything
            reason = first_line(error)
            raise TourError(f"sentence-transformers cannot score pairs with {self.name} ({reason}).") from error


def _prompt(model: Any) -> str | None:
    """The prompt that the library uses by default."""
    name = getattr(model, "default_prompt_name", None)
    return (getattr(model, "prompts", None) or {}).get(name) if name is not None else None


def _prompt_texts(model: Any) -> list[str]:
    """The default prompt and the chat template, as far as the model has them."""
    template = getattr(getattr(model, "tokenizer", None), "chat_template", None)
    return [text for text in (_prompt(model), template if isinstance(template, str) else None) if text]


def _fingerprint(model: Any) -> str | None:
    """Hash weights, tokenizer, modules and settings; None if they are not accessible (back ends other than torch)."""
    import torch

    weights = model.state_dict()
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if not weights or backend is None:
        return None
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        content = tensor.detach().cpu().contiguous()
        digest.update(json.dumps([name, str(content.dtype), list(content.shape)]).encode())
        digest.update(content.flatten().view(torch.uint8).numpy().data)
    prompts = [getattr(model, "prompts", None), getattr(model, "default_prompt_name", None)]
    template = getattr(model.tokenizer, "chat_template", None)
    modules = [str(module) for module in model]
    settings = [backend.to_str(), model.tokenizer.model_max_length, str(model.config), prompts, template, modules]
    digest.update(json.dumps(settings, default=str).encode())
    return f"cross-encoder:{digest.hexdigest()}"
