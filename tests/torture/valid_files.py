"""Valid files that the commands read; `write_collection` writes most, the others the rest."""

import contextlib
import json
from pathlib import Path

import numpy as np
from toy_collection import ToyCollection


def write_collection(folder: Path) -> None:
    """A corpus, topics of every format, judgements, two runs with records, an index and encoded queries."""
    from tour_pyserini.encoders.query_vectors import write_encoded_queries

    folder.mkdir(parents=True, exist_ok=True)
    toy = ToyCollection(folder)
    documents = [{"_id": docid, "title": f"title {docid}", "text": text} for docid, text in toy.texts.items()]
    write_lines(folder / "corpus.jsonl", [json.dumps(document) for document in documents])
    write_lines(folder / "add.jsonl", [json.dumps(document | {"text": "a new text"}) for document in documents[:5]])
    write_lines(folder / "delete", [document["_id"] for document in documents[5:8]])
    pairs = list(zip(toy.q_ids, toy.queries, strict=True))
    write_lines(folder / "topics.tsv", [f"{qid}\t{text}" for qid, text in pairs])
    answers = {qid: [f"passage d{i}", "d1"] for i, (qid, _) in enumerate(pairs)}
    records = [{"_id": qid, "question": text, "answers": answers[qid]} for qid, text in pairs]
    write_lines(folder / "topics.jsonl", [json.dumps(record) for record in records])
    (folder / "list.json").write_text(json.dumps(records))
    write_lines(folder / "qrels.tsv", ["query-id\tcorpus-id\tscore", *(f"{qid}\td1\t1" for qid in toy.q_ids)])
    write_lines(folder / "qrels.trec", [f"{qid} 0 d{i} {i % 3}" for qid in toy.q_ids for i in range(4)])
    for name in ("a", "b"):
        hits = [f"{qid} Q0 d{i} {i + 1} {9 - i / 2:.6f} {name}" for qid in toy.q_ids for i in range(5)]
        write_lines(folder / f"{name}.trec", hits)
    vectors = np.stack([toy.encoder.encode(query) for query in toy.queries])
    write_encoded_queries(folder / "encoded", toy.q_ids, toy.queries, vectors)


EXPERIMENT = """title: Small
measures: [nDCG@10, R@100]
hits: 20
collections:
  toy: {corpus: "${DATA}/corpus.jsonl", topics: "${DATA}/topics.tsv", qrels: "${DATA}/qrels.trec", limit: 4}
encoders:
  tiny: {index: {threads: 1}, search: {encoded-queries: "${DATA}/encoded"}}
indexes:
  flat: {name: exact}
rerankers:
  none: {flags: {}}
conditions:
  dense: {flags: {method: dense}}
  rocchio: {name: Rocchio, flags: {method: rocchio}, sweep: {depth: [3, 6]}, only: {indexes: [flat]}}
tables:
  main: {title: Main, conditions: [dense, rocchio-3], baselines: [dense]}
figures:
  labels: {kind: labels, curves: [rocchio], lines: [dense]}
expected:
  toy.tiny.flat: {dense: {nDCG@10: 0.25}}
"""


def write_scores(folder: Path) -> None:
    """A score cache with a few scores."""
    from tour_pyserini.rerankers.score_cache import CachedReranker

    class Constant:
        fingerprint, name = "constant", "constant"

        def predict(self, pairs: list[tuple[str, str]]) -> np.ndarray:
            return np.arange(len(pairs), dtype=float)

    with contextlib.closing(CachedReranker(Constant(), folder / "scores.sqlite")) as cache:
        cache.predict([(f"query {i}", f"passage {i}") for i in range(40)])


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
