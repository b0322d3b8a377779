"""The embedded collection: encyclopedic passages about a country that does not exist, with many near-misses."""

from pathlib import Path

_FOLDER = Path(__file__).parent / "demo"
CORPUS = _FOLDER / "corpus.jsonl"
QUERIES = _FOLDER / "queries.jsonl"
QRELS = _FOLDER / "qrels.tsv"
