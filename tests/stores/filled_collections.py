"""Small collections of the embedded engines and of a PostgreSQL server, for tests."""

import hashlib

import numpy as np
from pgvector_server import postgres

from tour_pyserini.data.texts import Passage
from tour_pyserini.stores.vector_collection import CollectionLoading
from tour_pyserini.stores.vector_database import store_address

ENGINES = ("milvus", "qdrant", "pgvector")
CHUNK = 64


def address_in(folder, engine, name="C", options=""):
    """The address of a collection of an embedded database in a folder."""
    if engine != "pgvector":
        return f"{engine}:{folder}/{'lite.db' if engine == 'milvus' else 'points'}?collection={name}{options}"
    import psycopg

    schema = "s" + hashlib.sha256(str(folder).encode()).hexdigest()[:12]  # what a folder is elsewhere
    with psycopg.connect(postgres()) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    return f"{postgres()}&options=-csearch_path%3D{schema},public{options}#{name}"


def some_vectors(count=200, dimension=12, seed=0):
    """Vectors with equal ones among them: each of the last twenty is one of the first twenty."""
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    vectors[-20:] = vectors[:20]
    return vectors


def docids_of(vectors):
    return [f"doc-{position}" for position in range(len(vectors))]


def texts_of(vectors):
    """Passages with title and text, without text, and without title."""
    titles = ["fox", "whale", ""]
    return {
        docid: Passage(titles[i % 3], f" word{i} of the {docid}" if i % 3 != 1 else "")
        for i, docid in enumerate(docids_of(vectors))
    }


def settings_of(vectors, **more):
    sizes = {"documents": len(vectors), "dimension": vectors.shape[1], "chunk": CHUNK}
    return {**sizes, "encoder_fingerprint": "none", **more}


def loading(address, vectors, *, bm25=False, texts=None, **more):
    texts = texts_of(vectors) if texts is None else texts
    return CollectionLoading(store_address(address), settings_of(vectors, **more), texts, bm25=bm25)


def load(address, vectors, **more):
    """Load a collection; what an interrupted load left is completed."""
    target = loading(address, vectors, **more)
    docids = docids_of(vectors)
    for start in range(target.done, len(vectors), CHUNK):
        target.append(docids[start : start + CHUNK], vectors[start : start + CHUNK])
    return target.finish()
