"""Vectors of passages that are encoded during the search."""

import numpy as np
import pytest
from worlds import HashReranker, World

from tour_pyserini import TourConfig, TourError, TourSearcher
from tour_pyserini.data.documents import Passage
from tour_pyserini.encoders.document_vectors import PassageVectors


class Encoder:
    """Returns the vector of each text; with titles, the negative vectors."""

    def __init__(self, world):
        self.world, self.calls = world, 0

    def encode(self, texts, max_length, titles=None):
        self.calls += len(texts)
        rows = np.stack([self.world.vectors[self.world.docids.index(text.split()[1])] for text in texts])
        return -rows if titles else rows


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_each_passage_is_encoded_once(world):
    encoder = Encoder(world)
    vectors = PassageVectors(encoder, docids=world.docids, texts=world.texts, dimension=8)
    ids = np.array([4, 9, 4])
    assert np.array_equal(vectors(ids), world.vectors[ids])
    vectors(ids)
    assert encoder.calls == 2
    assert vectors(np.array([], dtype=np.int64)).shape == (0, 8)


def test_a_known_title_is_a_separate_argument_of_the_encoder(world):
    world.texts["d4"] = Passage("title", "passage d4")
    vectors = PassageVectors(Encoder(world), docids=world.docids, texts=world.texts, dimension=8)
    assert np.array_equal(vectors(np.array([4, 5])), np.stack([-world.vectors[4], world.vectors[5]]))


def test_a_searcher_with_a_document_encoder_gives_the_same_result(world):
    config = TourConfig(depth=5)
    plain = TourSearcher(world.searcher(), HashReranker(), world.texts, config)
    encoding = TourSearcher(world.searcher(), HashReranker(), world.texts, config, vectors=Encoder(world))
    assert plain.search("query 1", k=9) == encoding.search("query 1", k=9)


def test_an_encoder_with_another_dimension_is_refused(world):
    vectors = PassageVectors(Encoder(world), docids=world.docids, texts=world.texts, dimension=12)
    with pytest.raises(TourError, match="12"):
        vectors(np.array([0]))


def test_only_the_fields_of_the_index_are_encoded(world):
    world.texts["d4"] = Passage("ignored", "passage d4")
    vectors = PassageVectors(Encoder(world), docids=world.docids, texts=world.texts, dimension=8, fields=["text"])
    assert np.array_equal(vectors(np.array([4])), world.vectors[[4]])
