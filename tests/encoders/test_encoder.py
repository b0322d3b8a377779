"""Vectors of queries, in batches and alone; of documents: order, titles and fields, of a corpus and during a search."""

from types import SimpleNamespace

import numpy as np
import pytest
from toy_collection import ToyCollection

from tour_pyserini.data.texts import Document, Passage
from tour_pyserini.encoders.encoder import PassageVectors, encode_documents, encode_queries, fitting_length, text_of
from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder
from tour_pyserini.encoders.sentence_model import DEFAULT_ENCODER
from tour_pyserini.errors import TourError
from tour_pyserini.support.pyserini import ensure_java

TEXT = "who wrote the first novel about a white whale and when was it published in new york"
WORDS = TEXT.split()
QUERIES = [" ".join(WORDS[start : start + 2 + start % 7]) for start in range(len(WORDS) - 2)] * 3 + ["whale " * 600]


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_a_vector_does_not_depend_on_the_batch_and_is_that_of_pyserini(backend):
    encoder = load_query_encoder("default", backend=backend)
    alone = np.stack([encoder.encode(query) for query in QUERIES])
    assert np.array_equal(encoder.encode_batch(QUERIES), alone)
    order = np.random.default_rng(1).permutation(len(QUERIES))
    assert np.array_equal(encode_queries(encoder, [QUERIES[i] for i in order], order, 384), alone[order])
    dicts = [{"query": QUERIES[0]}, {"query": QUERIES[1]}]
    assert np.array_equal(encode_queries(encoder, dicts, ["a", "b"], 384), alone[:2])
    ensure_java()
    from pyserini.encode import AutoQueryEncoder

    own = AutoQueryEncoder(encoder_dir=str(DEFAULT_ENCODER.verify()), device="cpu", pooling="mean", l2_norm=True)
    assert alone[:10] == pytest.approx(np.stack([own.encode(query) for query in QUERIES[:10]]), abs=1e-6)
    assert encoder.encode(QUERIES[0], max_length=4) == pytest.approx(own.encode(QUERIES[0], max_length=4), abs=1e-6)


class Table:
    def __init__(self, **vectors):
        self.vectors = vectors

    def encode(self, query):
        return self.vectors[query]


@pytest.mark.parametrize(
    ("work", "word"),
    [
        (lambda: text_of({"title": " "}, "q7"), "'q7' is empty"),
        (lambda: encode_queries(Table(a=[1.0]), ["a"], ["q7"], 2), "1 dimensions"),
        (lambda: encode_queries(Table(a=[np.nan]), ["a"], ["q7"], 1), "'q7' contains NaN"),
        (lambda: encode_queries(Table(), ["a"], ["q7"], 1), "no vector for query 'q7'"),
        (lambda: load_query_encoder(lambda texts: [[1.0]] * 3).encode("a"), "for 1 texts"),
        (lambda: encode_documents(Pairs(lambda texts: [{"term": 1.0}] * 2), PLAIN), "not a dense encoder"),
        (lambda: encode_documents(Pairs(lambda texts: np.array([[1.0], [np.nan]])), PLAIN), "'b'"),
        (lambda: fitting_length(load_document_encoder("default"), 2), "at least 3"),
    ],
)
def test_refusals(work, word):
    assert text_of("a", "1") == text_of({"title": "a"}, "1") == text_of({"query": "a", "title": "c"}, "1") == "a"
    with pytest.raises(TourError, match=word):
        work()


PLAIN = [Document("a", "", "x"), Document("b", "", "yy")]
QUESTION = "who got the first nobel prize in physics"


def test_document_vectors_are_those_of_the_library_in_the_order_of_the_documents():
    from sentence_transformers import SentenceTransformer

    truth = SentenceTransformer(str(DEFAULT_ENCODER.verify()), device="cpu").encode(QUESTION)
    title, text = QUESTION.split(" ", 1)
    documents = [Document("long", "", "word " * 100), Document("titled", title, text), Document("bare", "", QUESTION)]
    documents += [Document("title only", QUESTION, ""), Document("empty", "", "")]
    vectors = encode_documents(load_document_encoder("default"), documents, batch_size=2)
    assert vectors.shape == (5, 384)
    for i in (1, 2, 3):
        assert vectors[i] == pytest.approx(truth, abs=1e-5)
    assert abs(vectors[0] @ truth) < 0.5 and abs(vectors[4] @ truth) < 0.5
    first, second, rest = QUESTION.split(" ", 2)
    prefixed = encode_documents(load_document_encoder("default", prefix=first), [Document("a", second, rest)])
    assert prefixed[0] == pytest.approx(truth, abs=1e-5)


class Pairs:
    """An encoder with the arguments of DPR's encoder that records its calls; each text has the vector of its length."""

    def __init__(self, give=lambda texts: np.array([[len(text), 1.0] for text in texts])):
        self.calls, self.give = [], give

    def encode(self, texts, titles=None, max_length=None):
        self.calls.append((texts, titles))
        return self.give(texts)


def test_titles_are_a_separate_argument_if_title_and_text_exist():
    encoder = Pairs()
    documents = [Document("a", "T", "x"), Document("b", "", "y"), Document("c", "U", "zz"), Document("d", "V", "")]
    assert encode_documents(encoder, documents).dtype == np.float32
    assert encoder.calls == [(["y", "V"], None), (["x", "zz"], ["T", "U"])]
    encoder.prefix = "p:"
    encode_documents(encoder, documents[:1])
    assert encoder.calls[-1] == (["T x"], None)


def test_lengths_that_fit_an_encoder():
    config = SimpleNamespace(max_position_embeddings=130, model_type="roberta", pad_token_id=1)
    tokenizer = SimpleNamespace(num_special_tokens_to_add=lambda pair: 3)
    pyserini = SimpleNamespace(model=SimpleNamespace(config=config), tokenizer=tokenizer)
    own = load_document_encoder("default")
    for encoder, wanted, length in (
        *((pyserini, None, 128), (pyserini, 20, 20), (Pairs(), None, 256)),
        *((own, None, 256), (own, 300, 300)),
    ):
        assert fitting_length(encoder, wanted) == length
    for wanted, word in ((129, "at most 128"), (3, "at least 4")):
        with pytest.raises(TourError, match=word):
            fitting_length(pyserini, wanted)


class CollectionEncoder:
    """Returns the vector of each text; with titles, the negative vectors."""

    def __init__(self, collection):
        self.collection, self.calls = collection, 0

    def encode(self, texts, max_length, titles=None):
        self.calls += len(texts)
        rows = np.stack([self.collection.vectors[self.collection.docids.index(text.split()[1])] for text in texts])
        return -rows if titles else rows


def test_passages_are_encoded_once_with_their_title_and_fields(tmp_path):
    collection = ToyCollection(tmp_path)
    encoder = CollectionEncoder(collection)
    options = {"docids": collection.docids, "texts": collection.texts, "dimension": 8}
    vectors, ids = PassageVectors(encoder, **options), np.array([4, 9, 4])
    for _ in range(2):
        assert np.array_equal(vectors(ids), collection.vectors[ids])
    assert encoder.calls == 2
    assert vectors(np.array([], dtype=np.int64)).shape == (0, 8)
    collection.texts["d4"] = Passage("title", "passage d4")
    titled = PassageVectors(encoder, **options)(np.array([4, 5]))
    assert np.array_equal(titled, np.stack([-collection.vectors[4], collection.vectors[5]]))
    assert np.array_equal(PassageVectors(encoder, **options, fields=["text"])(ids), collection.vectors[ids])
    with pytest.raises(TourError, match="12"):
        PassageVectors(encoder, **{**options, "dimension": 12})(ids)
