"""What cannot be served, and settings that a service cannot search with."""

import logging

import pytest

from tour_pyserini import TourConfig, TourError
from tour_pyserini.errors import RequestError
from tour_pyserini.opening import Opener
from tour_pyserini.service.collection import Collection
from tour_pyserini.service.serving import ServeRequest


def test_settings_that_the_service_cannot_search_with(small, monkeypatch, caplog):
    def fail(*_, **__):
        raise TourError("cannot read /srv/secret/corpus.jsonl")

    request = {"index": small.index[1], "corpus": small.index[3], "reranker": small.folder / "reranker"}
    served = Collection(ServeRequest(**request, no_cache=True, config=TourConfig("dense")))
    monkeypatch.setattr(Opener, "searcher", fail)
    with caplog.at_level(logging.WARNING), pytest.raises(RequestError, match="cannot search with the method soft"):
        served.searcher(TourConfig("soft"))
    assert "/srv/secret" in caplog.text


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        ({"topics": "topics.tsv", "index": "nowhere", "corpus": "c"}, "topics.tsv"),
        ({"index": "nowhere"}, "corpus"),
        ({}, "--index"),
    ],
)
def test_what_cannot_be_served(request_, word):
    with pytest.raises(TourError, match=word):
        Collection(ServeRequest(**request_))
