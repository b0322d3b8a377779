"""The trace: one line per query and retrieval, with what was labelled and the reason to stop."""

import io
import json

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourSearcher
from tour_pyserini.core.method import METHODS, StopReason
from tour_pyserini.searchers.trace import Trace


@pytest.mark.parametrize("method", METHODS)
def test_lines_follow_each_query_to_its_end(tmp_path, method):
    collection, file = ToyCollection(tmp_path), io.StringIO()
    observe, config = Trace(file, collection.docids, vectors=True), TourConfig(method)
    searcher = TourSearcher(collection.searcher(), HashReranker(), collection.texts, config, observe=observe)
    searcher.batch_search(collection.queries, collection.q_ids)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    for q_id, query in zip(collection.q_ids, collection.queries, strict=True):
        path = [line for line in lines if line["qid"] == q_id]
        assert [line["t"] for line in path] == list(range(len(path)))
        assert [line["stop"] is None for line in path] == [True] * (len(path) - 1) + [False]
        assert path[-1]["stop"] in set(StopReason)
        assert path[0]["query"] == pytest.approx(collection.encoder.encode(query).tolist(), abs=1e-6)
        for line in path:
            vector = np.array(line["query"])
            for docid, similarity, label in zip(line["docids"], line["similarities"], line["labels"], strict=True):
                stored = collection.vectors[collection.docids.index(docid)]
                assert similarity is None or similarity == pytest.approx(float(stored @ vector), abs=1e-4)
                if label is not None:
                    expected = HashReranker().predict([(query, collection.texts[docid])])[0]
                    assert label == pytest.approx(expected, abs=1e-6)
            assert set(line["labelled"]) <= set(line["docids"])
            assert line["norm"] == pytest.approx(np.linalg.norm(vector), abs=1e-5)
    assert sum(len(line["labelled"]) for line in lines) == searcher.costs.pairs
