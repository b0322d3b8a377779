"""`sentence_transformers.CrossEncoder` objects, with their raw logits."""

import hashlib
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tour_pyserini.rerankers.classifier import relevance, wrong_outputs
from tour_pyserini.rerankers.reranker import Pair


def is_cross_encoder(thing: object) -> bool:
    """Whether this is a CrossEncoder; the library is looked at only when somebody imported it."""
    library = sys.modules.get("sentence_transformers")
    kind = getattr(library, "CrossEncoder", None)
    return isinstance(kind, type) and isinstance(thing, kind)


class CrossEncoderReranker:
    """A CrossEncoder without its sigmoid; two logits become their difference.

    Its own maximum length, device and way to cut pairs stay as they are. The fingerprint is that of the weights at
    the time of wrapping: wrap again after training.
    """

    def __init__(self, model: Any, *, batch_size: int | None = None) -> None:
        self.name = str(getattr(getattr(model, "config", None), "name_or_path", "") or "CrossEncoder")
        if model.num_labels not in (1, 2):
            raise wrong_outputs(self.name, model.num_labels)
        self._model = model
        self._batch_size = batch_size or 32
        self.fingerprint = _fingerprint(model)

    def predict(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Raw logits, float64 [len(pairs)]; higher is more relevant."""
        import torch

        if not len(pairs):
            return np.empty(0)
        logits = self._model.predict(
            [list(pair) for pair in pairs],
            batch_size=self._batch_size,
            activation_fn=torch.nn.Identity(),
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return relevance(logits, self.name)


def _fingerprint(model: Any) -> str | None:
    """A digest of weights, tokenizer and settings, or None when they cannot be seen (other backends than torch)."""
    weights = model.state_dict()
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if not weights or backend is None:
        return None
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        content = tensor.detach().cpu().contiguous()
        digest.update(json.dumps([name, str(content.dtype), list(content.shape)]).encode())
        digest.update(content.flatten().view(_bytes()).numpy().data)
    prompts = [getattr(model, "prompts", None), getattr(model, "default_prompt_name", None)]
    settings = [backend.to_str(), model.tokenizer.model_max_length, str(model.config), prompts]
    digest.update(json.dumps(settings, default=str).encode())
    return f"cross-encoder:{digest.hexdigest()}"


def _bytes() -> Any:
    import torch

    return torch.uint8
