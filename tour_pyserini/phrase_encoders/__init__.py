"""Phrase encoders: token vectors of passages, and [start; end] vectors of questions."""

from tour_pyserini.phrase_encoders.loading import load_phrase_encoder

__all__ = ["load_phrase_encoder"]
