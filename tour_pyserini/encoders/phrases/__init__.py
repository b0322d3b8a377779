"""Phrase encoders: token vectors of passages, and [start; end] vectors of questions."""
