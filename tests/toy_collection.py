"""A small collection with random vectors: documents, queries, a FAISS index folder, an encoder and a re-ranker."""

import json
import subprocess
import sys
import zlib

import faiss
import numpy as np

DIMENSION = 8


def unit(random, *shape):
    """Random vectors of length 1, float32."""
    vectors = random.normal(size=shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def faiss_index(factory, vectors, metric=faiss.METRIC_INNER_PRODUCT):
    """A FAISS index that is trained on vectors [n, d] and holds them."""
    index = faiss.index_factory(vectors.shape[1], factory, metric)
    index.train(vectors)
    index.add(vectors)
    return index


class ToyCollection:
    """Documents d0, d1, ... and queries q0, q1, ... whose index is written to `folder / "index"`."""

    def __init__(self, folder, *, documents=60, queries=7, seed=0, index=None):
        random = np.random.default_rng(seed)
        self.vectors = unit(random, documents, DIMENSION)
        self.docids = [f"d{i}" for i in range(documents)]
        self.texts = {docid: f"passage {docid}" for docid in self.docids}
        self.queries = [f"query {i}" for i in range(queries)]
        self.q_ids = [f"q{i}" for i in range(queries)]
        self.encoder = TableEncoder(dict(zip(self.queries, unit(random, queries, DIMENSION), strict=True)))
        self.folder = folder / "index"
        self.write(index or faiss.IndexFlatIP(DIMENSION))

    def write(self, index, folder=None):
        """Add all vectors to a FAISS index and write it as Pyserini reads it; returns its folder."""
        folder = folder or self.folder
        folder.mkdir(parents=True, exist_ok=True)
        if not index.is_trained:
            index.train(self.vectors)
        index.add(self.vectors)
        faiss.write_index(index, str(folder / "index"))
        (folder / "docid").write_text("".join(f"{docid}\n" for docid in self.docids))
        return folder

    def save(self, texts=None):
        """Write corpus, topics and query vectors beside the index; returns the fields of a search request."""
        from tour_pyserini.encoders.query_vectors import write_encoded_queries

        folder = self.folder.parent
        lines = [{"_id": docid, "title": "", "text": text} for docid, text in (texts or self.texts).items()]
        (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        pairs = zip(self.q_ids, self.queries, strict=True)
        (folder / "topics.tsv").write_text("".join(f"{q_id}\t{query}\n" for q_id, query in pairs))
        vectors = np.stack([self.encoder.encode(query) for query in self.queries])
        write_encoded_queries(folder / "queries", self.q_ids, self.queries, vectors)
        names = {"topics": "topics.tsv", "corpus": "corpus.jsonl", "encoded_queries": "queries"}
        return {"index": self.folder, **{name: folder / file for name, file in names.items()}}

    def searcher(self):
        """Pyserini's own searcher on the index."""
        from tour_pyserini import FaissSearcher

        return FaissSearcher(str(self.folder), self.encoder)


class TableEncoder:
    """A query encoder that looks vectors up by text."""

    def __init__(self, table):
        self.table = table

    def encode(self, query, **_):
        return self.table[query]


class HashReranker:
    """Scores between -6 and 6 that depend on the pair alone; `asked` has all pairs that were scored."""

    fingerprint = "hash"

    def __init__(self):
        self.asked = []

    def predict(self, pairs):
        self.asked += pairs
        return np.array([zlib.crc32("\n".join(pair).encode()) % 1201 / 100 - 6 for pair in pairs])


def build_lucene(folder, texts, *more):
    """A Lucene index of texts by docid, made by Pyserini's own command; returns its folder."""
    (folder / "in").mkdir()
    lines = (json.dumps({"id": docid, "contents": text}) + "\n" for docid, text in texts.items())
    (folder / "in" / "docs.jsonl").write_text("".join(lines))
    build = (
        "from tour_pyserini.support.pyserini import ensure_java; ensure_java()\n"
        "import runpy; runpy.run_module('pyserini.index.lucene', run_name='__main__')"
    )
    flags = ["--collection", "JsonCollection", "--input", folder / "in", "--index", folder / "lucene"]
    flags += ["--generator", "DefaultLuceneDocumentGenerator", "--threads", 1, *more]
    subprocess.run([sys.executable, "-c", build, *map(str, flags)], check=True, capture_output=True)
    return folder / "lucene"
