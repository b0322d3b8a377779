"""Use a `sentence_transformers.CrossEncoder` object as a re-ranker that returns raw logits."""

import hashlib
import json
import sys
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from tour_pyserini.rerankers.classifier import output_count_error, relevance_logits
from tour_pyserini.rerankers.reranker import Pair, Part, joined


def is_cross_encoder(candidate: object) -> bool:
    """Whether an object is a CrossEncoder. Does not import the library: without it, there is no such object."""
    library = sys.modules.get("sentence_transformers")
    cross_encoder = getattr(library, "CrossEncoder", None)
    return isinstance(cross_encoder, type) and isinstance(candidate, cross_encoder)


class CrossEncoderReranker:
    """A CrossEncoder without its sigmoid; with two logits, the score is their difference.

    The maximum length, the device and the truncation of the CrossEncoder are not changed. The fingerprint is computed
    from the weights when the object is wrapped: wrap it again after training.
    """

    def __init__(self, model: Any, *, batch_size: int | None = None) -> None:
        self.name = str(getattr(getattr(model, "config", None), "name_or_path", "") or "CrossEncoder")
        if model.num_labels not in (1, 2):
            raise output_count_error(self.name, model.num_labels)
        self._model = model
        self._batch_size = batch_size or 32
        self.fingerprint = _fingerprint(model)

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Compute raw logits, float64 [len(pairs)]; higher is more relevant."""
        return joined(self.predict_parts(pairs), len(pairs))

    def predict_parts(self, pairs: Sequence[Pair]) -> Generator[Part, None, None]:
        """Compute the same logits batch by batch, those of the longest texts first."""
        import torch

        order = np.argsort([-len(query) - len(passage) for query, passage in pairs], kind="stable")
        for start in range(0, len(order), self._batch_size):
            positions = order[start : start + self._batch_size]
            logits = self._model.predict(
                [list(pairs[position]) for position in positions],
                batch_size=self._batch_size,
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            yield positions, relevance_logits(logits, self.name)


def _fingerprint(model: Any) -> str | None:
    """Hash weights, tokenizer and settings; None if they are not accessible (back ends other than torch)."""
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
    settings = [backend.to_str(), model.tokenizer.model_max_length, str(model.config), prompts]
    digest.update(json.dumps(settings, default=str).encode())
    return f"cross-encoder:{digest.hexdigest()}"
