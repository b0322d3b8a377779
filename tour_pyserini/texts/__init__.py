"""Docid to passage: where a re-ranker gets its texts from."""

from tour_pyserini.texts.opening import open_texts
from tour_pyserini.texts.passage import passage
from tour_pyserini.texts.unknown import UnknownDocument

__all__ = ["UnknownDocument", "open_texts", "passage"]
