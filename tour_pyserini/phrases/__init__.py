"""Phrases: words and sentences of a text, an index of token vectors, and the search for [start; end]."""
