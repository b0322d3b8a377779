"""Encoders with the interfaces that Pyserini's have: for queries and for documents, around one `TextRunner`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tour_pyserini.core.arrays import Floats
from tour_pyserini.encoders.text_runner import TextRunner
from tour_pyserini.errors import TourError


class TextEncoder:
    """What both encoders share.

    Attributes:
        runner: what runs the model.
        prompt: put before every text.

    Args:
        runner: what runs the model.
        prefix: replaces the model's own prompt, and is followed by a space as in Pyserini; "" for no prompt at all.
    """

    has_model = True  # Pyserini asks for this

    def __init__(self, runner: TextRunner, *, prefix: str | None = None) -> None:
        self.runner = runner
        self.prompt = runner.prompt if prefix is None else f"{prefix} " if prefix else ""

    @property
    def settings(self) -> dict[str, Any]:
        """What vectors depend on besides the model's files and the maximum length, for records."""
        return {"prompt": self.prompt, "backend": self.runner.backend, **self.runner.settings}

    def fitting_length(self, wanted: int | None) -> int | None:
        """The number of tokens that are read of a text; None: all.

        Args:
            wanted: the number to check; None: what the model's files say.

        Raises:
            TourError: if `wanted` is above the model's limit, or so small that no word fits.
        """
        if wanted is None:
            return self.runner.length
        if self.runner.limit and wanted > self.runner.limit:
            raise TourError(f"the encoder reads at most {self.runner.limit} tokens, not {wanted}; change --max-length.")
        if wanted <= self.runner.special_tokens:  # tokenizers do not cut at all if not even the special tokens fit
            least = self.runner.special_tokens + 1
            raise TourError(f"the encoder needs at least {least} tokens, not {wanted}; change --max-length.")
        return wanted


class TextQueryEncoder(TextEncoder):
    """Encodes queries: each has the vector that it has alone."""

    def encode(self, query: str, max_length: int | None = None) -> Floats:
        """The vector [d] of a query."""
        return self.encode_batch([query], max_length)[0]

    def encode_batch(self, queries: Sequence[str], max_length: int | None = None) -> Floats:
        """The vectors [n, d] of the queries."""
        return self.runner.vectors(list(queries), prompt=self.prompt, max_length=max_length)


class TextDocumentEncoder(TextEncoder):
    """Encodes documents."""

    def encode(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, max_length: int | None = None, **_: Any
    ) -> Floats:
        """The vectors [n, d] of documents; a title stands before its text."""
        if titles is not None:
            texts = [f"{title} {text}" for title, text in zip(titles, texts, strict=True)]
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        length = self.runner.length if max_length is None else max_length
        return self.runner.vectors(list(texts), prompt=self.prompt, max_length=length)
