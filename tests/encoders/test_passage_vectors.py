"""Vectors of passages that are encoded during the search."""

import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourError, TourSearcher
from tour_pyserini.data.documents import Passage
from tour_pyserini.encoders.document_vectors import PassageVectors


class Encoder:
    """Returns the vector of each text; with titles, the negative vectors."""

    def __init__(self, collection):
        self.collection, self.calls = collection, 0

    def encode(self, texts, max_length, titles=None):
        self.calls += len(texts)
        rows = np.stack([self.collection.vectors[self.collection.docids.index(text.split()[1])] for text in texts])
        return -rows if titles else rows


@pytest.fixture
def collection(tmp_path):
    return ToyCollection(tmp_path)


def test_each_passage_is_encoded_once(collection):
    encoder = Encoder(collection)
    vectors = PassageVectors(encoder, docids=collection.docids, texts=collection.texts, dimension=8)
    ids = np.array([4, 9, 4])
    assert np.array_equal(vectors(ids), collection.vectors[ids])
    vectors(ids)
    assert encoder.calls == 2
    assert vectors(np.array([], dtype=np.int64)).shape == (0, 8)


def test_a_known_title_is_a_separate_argument_of_the_encoder(collection):
    collection.texts["d4"] = Passage("title", "passage d4")
    vectors = PassageVectors(Encoder(collection), docids=collection.docids, texts=collection.texts, dimension=8)
    assert np.array_equal(vectors(np.array([4, 5])), np.stack([-collection.vectors[4], collection.vectors[5]]))


def test_a_searcher_with_a_document_encoder_gives_the_same_result(collection):
    config = TourConfig(depth=5)
    plain = TourSearcher(collection.searcher(), HashReranker(), collection.texts, config)
    encoding = TourSearcher(
        collection.searcher(), HashReranker(), collection.texts, config, vectors=Encoder(collection)
    )
    assert plain.search("query 1", k=9) == encoding.search("query 1", k=9)


def test_an_encoder_with_another_dimension_is_refused(collection):
    vectors = PassageVectors(Encoder(collection), docids=collection.docids, texts=collection.texts, dimension=12)
    with pytest.raises(TourError, match="12"):
        vectors(np.array([0]))


def test_only_the_fields_of_the_index_are_encoded(collection):
    collection.texts["d4"] = Passage("ignored", "passage d4")
    vectors = PassageVectors(
        Encoder(collection), docids=collection.docids, texts=collection.texts, dimension=8, fields=["text"]
    )
    assert np.array_equal(vectors(np.array([4])), collection.vectors[[4]])
