"""Vectors of questions and of the tokens of passages."""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.data.documents import Document
from tour_pyserini.data.token_rows import Rows, filtered, token_rows
from tour_pyserini.encoders.phrases.phrase_settings import EncoderSettings
from tour_pyserini.encoders.phrases.windows import Window, windows_of
from tour_pyserini.errors import TourError
from tour_pyserini.support.batching import Row, length_sorted_batches, padded
from tour_pyserini.support.checkpoints import usable_length
from tour_pyserini.support.devices import on_device

BUDGET = 4096  # padded tokens of a batch


class Tokens(NamedTuple):
    """What a passage adds to an index: rows [r] and vectors [r, d]."""

    rows: Rows
    vectors: Floats


class PhraseEncoder:
    """A phrase model with its tokenizer.

    Attributes:
        model: the `PhraseModel`.
        tokenizer: Hugging Face's, a fast one.
        settings: how it reads.
        dimension: of a token's vector.
    """

    def __init__(self, model: Any, tokenizer: Any, settings: EncoderSettings, *, device: str = "cpu") -> None:
        if not tokenizer.is_fast:
            raise TourError("a phrase encoder needs a fast tokenizer, which knows where its tokens stand in the text.")
        self.model, self.tokenizer = on_device(model, device), tokenizer
        length = usable_length(Path(tokenizer.name_or_path), model.config, tokenizer, settings.max_length)
        self.settings = dataclasses.replace(settings, max_length=length, stride=min(settings.stride, length // 2))
        self.dimension: int = model.config.hidden_size
        self._device = device

    def encode(self, question: str, **_: Any) -> Floats:
        """The vector [start; end] of a question, float32 [2 d]."""
        import torch

        inputs = self.tensors(self.question_rows([question]))
        with torch.inference_mode():
            start, end = self.model.questions(inputs, self.settings.pooling)
        return torch.cat([start, end], dim=1)[0].float().cpu().numpy()

    def encode_batch(self, questions: Sequence[str]) -> Floats:
        """The vectors of questions, float32 [n, 2 d]."""
        # One by one: in a batch the last digits of a vector depend on the other questions.
        vectors = [self.encode(question) for question in questions]
        return np.stack(vectors) if vectors else np.empty((0, 2 * self.dimension), dtype=np.float32)

    def question_rows(self, questions: Sequence[str]) -> list[Row]:
        """Questions as the model's inputs."""
        texts = [self.settings.question(question) for question in questions]
        coded = self.tokenizer(texts, truncation=True, max_length=self.settings.max_query_length)
        names = [name for name in self.tokenizer.model_input_names if name in coded]
        return [dict(zip(names, row, strict=True)) for row in zip(*(coded[name] for name in names), strict=True)]

    def passages(
        self, documents: Sequence[Document], *, first: int = 0, threshold: float | None = None, dtype: Any = np.float32
    ) -> list[Tokens]:
        """The rows and vectors of documents.

        Args:
            documents: with their texts as they are.
            first: the place of the first one in the corpus.
            threshold: of the filter; left out, the encoder's own.
            dtype: of the vectors.
        """
        threshold = self.settings.filter_threshold if threshold is None else threshold
        self._check(threshold)
        windows = windows_of([(one.title, one.text) for one in documents], self.tokenizer, self.settings)
        parts: list[list[tuple[np.ndarray, ...]]] = [[] for _ in documents]
        for window, hidden, logits in self._run(windows):
            parts[window.passage].append((window.offsets, hidden[window.tokens], logits[window.tokens]))
        result = []
        for place, (document, each) in enumerate(zip(documents, parts, strict=True)):
            offsets, hidden, logits = (np.concatenate(arrays) for arrays in zip(*each, strict=True))
            rows, tokens = token_rows(document.text, offsets, passage=first + place)
            rows, kept = filtered(rows, logits[tokens], threshold)
            vectors = hidden[tokens[kept]].astype(dtype)
            if not np.isfinite(vectors).all():
                raise TourError(f"the encoder gives no finite {np.dtype(dtype)} vectors for {document.docid!r}.")
            result.append(Tokens(rows, vectors))
        return result

    def save(self, folder: Path) -> None:
        """Write weights, tokenizer and settings where `load_phrase_encoder` finds them."""
        self.model.save(folder)
        self.tokenizer.save_pretrained(folder)
        self.settings.save(folder)

    def fingerprint(self) -> str | None:
        """A digest of the weights that passages are encoded with; None where there are none.

        Fine-tuning the query encoders alone leaves it as it is, so that their queries fit an index built before.
        """
        if self.model.phrase_encoder is None:
            return None
        digest = hashlib.sha256()
        for part in (self.model.phrase_encoder, self.model.filter_linear):
            for name, value in sorted(part.state_dict().items() if part is not None else ()):
                digest.update(name.encode())
                digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def tensors(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The model's inputs [b, t], padded."""
        import torch

        fill = {"input_ids": self.tokenizer.pad_token_id or 0, "token_type_ids": self.tokenizer.pad_token_type_id}
        return {name: torch.from_numpy(ids).to(self._device) for name, ids in padded(rows, fill).items()}

    def _run(self, windows: list[Window]) -> Iterator[tuple[Window, np.ndarray, np.ndarray]]:
        """Each window, in order, with its vectors [t, d] and logits [t, 2]."""
        import torch

        found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        with torch.inference_mode():
            for batch in self._batches([window.inputs for window in windows]):
                hidden, logits = self.model.tokens(self.tensors([windows[i].inputs for i in batch]))
                logits = torch.zeros(*hidden.shape[:2], 2) if logits is None else logits
                for place, vectors, filter_ in zip(batch, hidden.float().cpu(), logits.float().cpu(), strict=True):
                    found[int(place)] = vectors.numpy(), filter_.numpy()
        return ((window, *found[place]) for place, window in enumerate(windows))

    def _batches(self, rows: Sequence[Row]) -> Iterator[np.ndarray]:
        return length_sorted_batches([len(row["input_ids"]) for row in rows], budget=BUDGET)

    def _check(self, threshold: float) -> None:
        if self.model.phrase_encoder is None:
            raise TourError("this checkpoint has query encoders alone; encode passages with the one it was made from.")
        if self.model.filter_linear is None and threshold > -np.inf:
            raise TourError("this checkpoint has no filter; keep all tokens with --filter-threshold=-inf.")
