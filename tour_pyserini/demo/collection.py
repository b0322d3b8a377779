"""The embedded collection: encyclopedic passages about a country that does not exist, in families of near-misses."""

from pathlib import Path

from tour_pyserini.support.files import cache_home, sha256

_HERE = Path(__file__).parent
CORPUS = _HERE / "corpus.jsonl"
QUERIES = _HERE / "queries.jsonl"
QRELS = _HERE / "qrels.tsv"


def demo_index() -> Path:
    """The folder of the collection's index with the default encoder, built on first use and kept."""
    folder = cache_home() / f"demo-index-{sha256(CORPUS)[:12]}"
    if not (folder / "index").exists():
        from tour_pyserini.index import main as build

        build(["--corpus", str(CORPUS), "--encoder", "default", "--index", str(folder)])
    return folder
