"""The phrase encoder: vectors [start; end] of questions, and vectors of the tokens of passages."""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tour_pyserini.core.candidates import Floats
from tour_pyserini.data.documents import Document
from tour_pyserini.data.token_rows import Rows, filter_rows, token_rows
from tour_pyserini.encoders.phrases.phrase_settings import EncoderSettings
from tour_pyserini.encoders.phrases.windows import Window, windows_of
from tour_pyserini.errors import TourError
from tour_pyserini.support.checkpoints import usable_length
from tour_pyserini.support.devices import on_device
from tour_pyserini.support.tokens import Row, length_sorted_batches, padded

BATCH_TOKENS = 4096  # tokens of a batch at most, with padding


class Tokens(NamedTuple):
    """The tokens of a passage that an index stores: their rows [r] and vectors [r, d]."""

    rows: Rows
    vectors: Floats


class PhraseEncoder:
    """A phrase model with its tokenizer.

    Attributes:
        model: the `PhraseModel`.
        tokenizer: a fast tokenizer of Hugging Face.
        settings: how questions and passages are read; `max_length` is lowered to the model's limit.
        dimension: d of a token's vector; a question's vector has 2 d.
    """

    def __init__(self, model: Any, tokenizer: Any, settings: EncoderSettings, *, device: str = "cpu") -> None:
        if not tokenizer.is_fast:
            raise TourError("a phrase encoder needs a fast tokenizer (one that gives the offsets of its tokens).")
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
        """The vectors [start; end] of questions, float32 [n, 2 d]."""
        # One by one: in a batch, the rounding of a vector would depend on the other questions.
        vectors = [self.encode(question) for question in questions]
        return np.stack(vectors) if vectors else np.empty((0, 2 * self.dimension), dtype=np.float32)

    def question_rows(self, questions: Sequence[str]) -> list[Row]:
        """The model's inputs for questions, not padded."""
        texts = [self.settings.question(question) for question in questions]
        coded = self.tokenizer(texts, truncation=True, max_length=self.settings.max_query_length)
        names = [name for name in self.tokenizer.model_input_names if name in coded]
        return [dict(zip(names, row, strict=True)) for row in zip(*(coded[name] for name in names), strict=True)]

    def passages(
        self, documents: Sequence[Document], *, first: int = 0, threshold: float | None = None, dtype: Any = np.float32
    ) -> list[Tokens]:
        """The rows and vectors of the tokens of documents, after the filter.

        Args:
            documents: documents with their original texts.
            first: position of the first document in the corpus.
            threshold: threshold of the filter; None: the one in the encoder's settings.
            dtype: type of the vectors.
        """
        threshold = self.settings.filter_threshold if threshold is None else threshold
        self._check_parts(threshold)
        windows = windows_of([(document.title, document.text) for document in documents], self.tokenizer, self.settings)
        outputs: list[list[tuple[np.ndarray, ...]]] = [[] for _ in documents]
        for window, hidden, logits in self._run(windows):
            outputs[window.passage].append((window.offsets, hidden[window.tokens], logits[window.tokens]))
        result = []
        for position, (document, parts) in enumerate(zip(documents, outputs, strict=True), start=first):
            offsets, hidden, logits = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            rows, tokens = token_rows(document.text, offsets, passage=position)
            rows, kept = filter_rows(rows, logits[tokens], threshold)
            vectors = hidden[tokens[kept]].astype(dtype)
            if not np.isfinite(vectors).all():
                raise TourError(
                    f"a {np.dtype(dtype)} vector of document {document.docid!r} contains NaN or infinity; "
                    "use float32, or check the encoder."
                )
            result.append(Tokens(rows, vectors))
        return result

    def save(self, folder: Path) -> None:
        """Write weights, tokenizer and settings to a folder that `load_phrase_encoder` can load."""
        self.model.save(folder)
        self.tokenizer.save_pretrained(folder)
        self.settings.save(folder)

    def fingerprint(self) -> str | None:
        """A hash of the weights that encode passages; None for a checkpoint that has only query encoders.

        Fine-tuning only the query encoders does not change it, because their queries still fit an existing index.
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
        """The model's inputs [b, t], padded, on its device."""
        import torch

        fill = {"input_ids": self.tokenizer.pad_token_id or 0, "token_type_ids": self.tokenizer.pad_token_type_id}
        return {name: torch.from_numpy(ids).to(self._device) for name, ids in padded(rows, fill).items()}

    def _run(self, windows: list[Window]) -> Iterator[tuple[Window, np.ndarray, np.ndarray]]:
        """Each window with its vectors [t, d] and filter logits [t, 2] (zeros without a filter), in the given order."""
        import torch

        outputs: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        with torch.inference_mode():
            lengths = [len(window.inputs["input_ids"]) for window in windows]
            for batch in length_sorted_batches(lengths, budget=BATCH_TOKENS):
                hidden, logits = self.model.tokens(self.tensors([windows[i].inputs for i in batch]))
                logits = torch.zeros(*hidden.shape[:2], 2) if logits is None else logits
                for i, vectors, filter_ in zip(batch, hidden.float().cpu(), logits.float().cpu(), strict=True):
                    outputs[int(i)] = vectors.numpy(), filter_.numpy()
        return ((window, *outputs[i]) for i, window in enumerate(windows))

    def _check_parts(self, threshold: float) -> None:
        if self.model.phrase_encoder is None:
            raise TourError(
                "this checkpoint has only query encoders; encode passages with the encoder that it was trained from."
            )
        if self.model.filter_linear is None and threshold > -np.inf:
            raise TourError("this checkpoint has no filter; give --filter-threshold=-inf to keep all tokens.")
