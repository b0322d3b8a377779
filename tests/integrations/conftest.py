"""One small searcher for the tests of all frameworks."""

import os

import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourSearcher

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when Haystack is imported

CONFIG = TourConfig(depth=5, budget=15)


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def searcher(toy):
    fields = {docid: {"page": row, "tenant": "ab"[row % 2]} for row, docid in enumerate(toy.docids)}
    models = toy.encoder.encode, HashReranker().predict
    return TourSearcher.from_vectors(toy.vectors, toy.texts, *models, CONFIG, fields=fields)
