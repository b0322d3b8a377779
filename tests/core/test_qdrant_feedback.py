"""Qdrant's relevance feedback as an update rule, against Qdrant's own query."""

import numpy as np
import pytest

from tour_pyserini.core.candidates import Candidates
from tour_pyserini.core.config import TourConfig


def updated(query, vectors, labels, **settings):
    """The rule's vector for one query [d] and its labelled candidates."""
    config = TourConfig("qdrant-feedback", **settings)
    method = config.new_method(query[None])
    k = len(labels)
    ids = np.where(np.isfinite(labels), np.arange(k), -1)
    candidates = Candidates(ids[None], vectors[None], np.zeros((1, k)), np.array([labels]))
    return method.update(np.array([0]), query[None], candidates, method.target(candidates), 0)[0]


def test_a_step_by_hand():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    # Labels 5, 1, 1: two pairs with difference 4, whose root is 2: 2 (v0 - v1) + 2 (v0 - v2) = (2, -4).
    found = updated(np.array([1.0, 2.0]), vectors, [5.0, 1.0, 1.0], qdrant_a=0.5, qdrant_b=0.5, qdrant_c=0.1)
    assert found == pytest.approx([0.5 + 0.2, 1.0 - 0.4])


def test_missing_candidates_and_equal_labels_change_nothing():
    query, vectors = np.array([1.0, 2.0]), np.array([[3.0, 1.0], [0.0, 0.0]])
    assert updated(query, vectors, [5.0, -np.inf], qdrant_a=1.0) == pytest.approx(query)
    assert updated(query, vectors, [5.0, 5.0], qdrant_a=1.0) == pytest.approx(query)


def test_the_list_is_that_of_qdrants_own_query():
    qdrant = pytest.importorskip("qdrant_client", reason="the extra `qdrant` is not installed")
    models, random = qdrant.models, np.random.default_rng(5)
    vectors, query = random.standard_normal((80, 6)), random.standard_normal(6)
    labels = random.standard_normal(5) * 4
    client = qdrant.QdrantClient(":memory:")
    client.create_collection("C", models.VectorParams(size=6, distance=models.Distance.DOT))
    client.upsert("C", models.Batch(ids=list(range(80)), vectors=vectors.tolist()))
    feedback = [models.FeedbackItem(example=vectors[i].tolist(), score=labels[i]) for i in range(5)]
    weights = models.NaiveFeedbackStrategyParams(a=0.3, b=0.7, c=0.05)
    given = models.RelevanceFeedbackInput(
        target=query.tolist(), feedback=feedback, strategy=models.NaiveFeedbackStrategy(naive=weights)
    )
    asked = models.RelevanceFeedbackQuery(relevance_feedback=given)
    points = client.query_points("C", query=asked, limit=80).points
    similarities = vectors @ updated(query, vectors[:5], labels.tolist(), qdrant_a=0.3, qdrant_b=0.7, qdrant_c=0.05)
    assert [point.id for point in points] == np.argsort(-similarities).tolist()
    assert [point.score for point in points] == pytest.approx(np.sort(similarities)[::-1], abs=1e-5)
