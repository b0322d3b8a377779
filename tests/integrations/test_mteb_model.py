"""MTEB's own mock tasks, which need no network."""

import numpy as np
import pytest
from toy_collection import HashReranker

from tour_pyserini import TourConfig, TourReranker, TourSearcher

mteb = pytest.importorskip("mteb")
pytest.importorskip("polars")
from mteb.mocks.mock_tasks.reranking import MockRerankingTask  # noqa: E402
from mteb.mocks.mock_tasks.retrieval import MockRetrievalTask  # noqa: E402
from mteb.models.models_protocols import SearchProtocol  # noqa: E402

from tour_pyserini.integrations.mteb_model import TourModel  # noqa: E402


class Letters:
    """Encodes texts by how often they have some letters."""

    def encode_query(self, text):
        return np.array([text.count(letter) for letter in "aeinst"], dtype=float)

    def encode_document(self, texts):
        return np.stack([self.encode_query(text) for text in texts])


@pytest.fixture
def model():
    return TourModel(Letters(), HashReranker(), TourConfig(budget=2))


@pytest.mark.parametrize("task", [MockRetrievalTask, MockRerankingTask])
def test_mteb_evaluates_it(model, task, tmp_path):
    assert isinstance(model, SearchProtocol)
    done = mteb.evaluate(model, task(), cache=None, prediction_folder=tmp_path, co2_tracker=False)
    (result,) = done.task_results
    assert 0 < result.get_score() <= 1
    assert done.model_name == "tour_pyserini/tour"


def test_lists_are_those_of_the_searcher_and_candidates_those_of_the_task(model):
    texts = {f"d{i}": f"{'aeinst'[i % 6] * (i + 1)} {i}" for i in range(30)}
    model.index([{"id": docid, "title": "", "text": text} for docid, text in texts.items()])
    queries = [{"id": "q1", "text": "a tease"}, {"id": "q2", "text": "sit in"}]
    letters, config = Letters(), TourConfig(budget=2)
    searcher = TourSearcher.from_vectors(
        letters.encode_document(texts.values()), texts, letters, HashReranker(), config
    )
    found = model.search(queries, top_k=7)
    assert found["q2"] == {hit.docid: hit.score for hit in searcher.search("sit in", k=7)}
    best = ["d3", "d1", "d8"]
    expected = TourReranker(HashReranker(), config).rank(
        *("sit in", [texts[docid] for docid in best], letters.encode_document([texts[docid] for docid in best])),
        query_vector=letters.encode_query("sit in"),
    )
    reranked = model.search(queries, top_k=2, top_ranked={"q2": best, "q1": []})
    assert reranked == {"q1": {}, "q2": {best[one.position]: one.score for one in expected[:2]}}
    order = model.search(queries, top_k=2, top_ranked={"q2": best[::-1], "q1": []})
    assert order == reranked  # the order of candidates says nothing
