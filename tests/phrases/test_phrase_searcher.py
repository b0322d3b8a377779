"""Searching phrases: questions to answers with their offsets."""

import numpy as np
import pytest

from tour_pyserini.data.texts import Passage
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_index import PhraseIndex, token_rows, word_offsets
from tour_pyserini.phrases.phrase_index_building import build_token_index
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher

DOCUMENTS = {
    "a": Passage("Prize", "The first prize went to Wilhelm Conrad Röntgen in 1901."),
    "empty": Passage("Nothing", ""),
    "b": Passage("", "👩‍👩‍👧 e\u0301tude by Cho\u0301pin: nobody stops"),
}


class OneHot:
    """Every distinct word has its own dimension; a question is `first word|last word`."""

    def __init__(self, texts):
        found = {text[begin:end] for text in texts for begin, end in word_offsets(text)}
        self.places = {word: i for i, word in enumerate(sorted(found))}

    def of(self, word, weight=1.0):
        return weight * np.eye(len(self.places), dtype=np.float32)[self.places[word]]

    def encode_batch(self, questions):
        return np.stack([np.concatenate([self.of(word, 3) for word in question.split("|")]) for question in questions])


@pytest.fixture(scope="module")
def searcher():
    texts = {docid: passage.parts[1] for docid, passage in DOCUMENTS.items()}
    encoder = OneHot(texts.values())
    rows, vectors = [], []
    for place, text in enumerate(texts.values()):
        words = word_offsets(text)
        each, tokens = token_rows(text, words, passage=place)
        rows.append(each)
        vectors += [encoder.of(text[slice(*words[token])]) for token in tokens]
    vectors = np.array(vectors, dtype=np.float16)
    index = PhraseIndex(np.concatenate(rows), vectors, build_token_index(vectors), list(texts), True, 1.0)
    return PhraseSearcher(index, encoder, DOCUMENTS)


def test_hits_say_what_and_where(searcher):
    hits = searcher.search("Wilhelm|Röntgen", k=3)
    best = hits[0]
    assert (best.docid, best.text, best.score) == ("a", "Wilhelm Conrad Röntgen", 6.0)
    assert DOCUMENTS["a"].parts[1][best.begin : best.end] == best.text
    assert best.vector @ searcher.query_encoder.encode_batch(["Wilhelm|Röntgen"])[0] == best.score
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert searcher.search("👩‍👩‍👧|Cho\u0301pin")[0].text == "👩‍👩‍👧 e\u0301tude by Cho\u0301pin"
    short = PhraseSearcher(searcher.finder.index, searcher.query_encoder, DOCUMENTS, max_words=2)
    assert all(len(hit.text.split()) <= 2 for hit in short.search("Wilhelm|Röntgen", k=50))
    passages = searcher.search("by|prize", k=5, unit="passage")
    assert [(hit.docid, hit.score) for hit in passages] == [("a", 3.0), ("b", 3.0)]  # the empty one has no phrase


def test_vectors_serve_as_queries_and_names_are_unique(searcher):
    vector = searcher.query_encoder.encode_batch(["first|prize"])[0]
    assert [hit.text for hit in searcher.search(vector, k=4)] == [hit.text for hit in searcher.search("first|prize", 4)]
    ids = searcher.finder.find(vector[None], phrases=100).ids[0]
    names = [searcher.docids[id_] for id_ in ids[ids >= 0]]
    assert len(set(names)) == len(names) and names[0] == "a:4-15"


@pytest.mark.parametrize(
    ("query", "more", "texts", "message"),
    [
        ("first|prize", {"unit": "word"}, DOCUMENTS, "unit"),
        (np.zeros(3), {}, DOCUMENTS, "encoder"),
        ("first|prize", {}, {"a": "short", "b": ""}, "4-15 of document 'a'"),
        ("first|prize", {}, {}, "'a' is not in the given texts"),
    ],
)
def test_what_does_not_fit_is_refused(searcher, query, more, texts, message):
    with pytest.raises(TourError, match=message):
        PhraseSearcher(searcher.finder.index, searcher.query_encoder, texts).search(query, **more)
