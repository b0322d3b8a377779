"""Phrase encoders: token vectors of passages, and [start; end] vectors of questions."""

from tour_pyserini.encoders.phrases.phrase_loading import load_phrase_encoder

__all__ = ["load_phrase_encoder"]
