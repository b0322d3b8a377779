"""Phrase retrieval as in DensePhrases: encoder, index, search, and what a re-ranker reads of a phrase."""
