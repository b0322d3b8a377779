"""TouR over vectors in memory: no index folder, no Pyserini, no Java."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import faiss
import numpy as np
import pytest
from toy_collection import HashReranker, ToyCollection

from tour_pyserini import TourConfig, TourError, TourSearcher


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return ToyCollection(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def make(toy):
    """A searcher over the toy's vectors, with some arguments changed."""

    def make(**changes):
        given = {"vectors": toy.vectors, "texts": toy.texts, "encode": toy.encoder.encode}
        return TourSearcher.from_vectors(**given | {"score": HashReranker().predict} | changes)

    return make


def lists(searcher, toy, k=20):
    found = searcher.batch_search(toy.queries, toy.q_ids, k=k)
    return {q_id: [(hit.docid, hit.score) for hit in hits] for q_id, hits in found.items()}


def test_it_gives_what_an_index_folder_gives(toy, make):
    config = TourConfig(depth=5, budget=15)
    folder = TourSearcher(toy.searcher(), HashReranker(), toy.texts, config)
    flat = faiss.IndexFlatIP(8)
    flat.add(toy.vectors)
    expected = lists(folder, toy)
    assert lists(make(config=config, vectors=flat), toy) == expected
    matrix = lists(make(config=config), toy)
    for q_id, hits in matrix.items():  # a matrix product rounds differently
        assert [docid for docid, _ in hits] == [docid for docid, _ in expected[q_id]]
        assert [score for _, score in hits] == pytest.approx([score for _, score in expected[q_id]], rel=1e-4)


class Model:
    """What a SentenceTransformer has."""

    def __init__(self, table):
        self._table = table

    def encode(self, texts):
        raise AssertionError("queries have a method of their own")

    def encode_query(self, texts):
        return self._table[texts] if isinstance(texts, str) else np.stack([self._table[text] for text in texts])


@pytest.mark.parametrize(
    "encode",
    [
        lambda table: lambda text: table[text][None],
        lambda table: lambda texts: np.stack([table[text] for text in texts]),
        lambda table: lambda texts: [table.get(text, np.zeros(8)) for text in texts],
        lambda table: Model(table),
        lambda table: type("Encoder", (), {"encode": lambda self, text: table[text]})(),
        lambda table: type("Batches", (), {"encode_batch": lambda self, texts: [table[text] for text in texts]})(),
    ],
    ids=["text, [1, d]", "list", "list that takes characters", "encode_query", "encode", "encode_batch"],
)
def test_functions_of_texts_and_of_lists_and_objects_encode(toy, make, encode):
    searcher = make(encode=encode(toy.encoder.table))
    assert lists(searcher, toy) == lists(make(), toy)
    assert lists(searcher, toy) == lists(make(), toy), "after what it takes was found out"


def test_texts_are_a_list_or_a_mapping_and_hits_carry_them(toy, make):
    listed = make(texts=list(toy.texts.values()))
    for hit, same in zip(listed.search("query 2"), make().search("query 2"), strict=True):
        assert same.text == toy.texts[same.docid] == hit.text
        assert hit.docid == same.docid.removeprefix("d")
    numbers = make(texts={int(docid[1:]): text for docid, text in toy.texts.items()})
    assert lists(numbers, toy) == lists(listed, toy)
    shuffled = dict(sorted(toy.texts.items(), key=lambda item: item[1][::-1]))
    assert lists(make(texts=shuffled, docids=toy.docids), toy) == lists(make(), toy)


def test_no_query_changes_another_ones_result(toy, make):
    searcher = make(depth=4)
    expected = lists(searcher, toy)
    for query, q_id in reversed(list(zip(toy.queries, toy.q_ids, strict=True))):
        assert [(hit.docid, hit.score) for hit in searcher.search(query, k=20)] == expected[q_id]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda query: searcher.search(query, k=20), toy.queries * 8))
    for q_id, hits in zip(toy.q_ids * 8, found, strict=True):
        assert [(hit.docid, hit.score) for hit in hits] == expected[q_id]


def test_a_cross_encoder_and_an_embedding_model(tmp_path, one_thread):
    library = pytest.importorskip("sentence_transformers")
    import tiny_encoder

    texts = ["a b c", "d e f", "a d", "g h i j", "b f"]
    model = library.SentenceTransformer(str(tiny_encoder.save_encoder(tmp_path / "encoder")), device="cpu")
    cross_encoder = library.CrossEncoder(str(tiny_encoder.save_encoder(tmp_path / "cross")), num_labels=1, device="cpu")
    vectors = model.encode(texts)
    searcher = TourSearcher.from_vectors(vectors, texts, model, cross_encoder, depth=2)
    hits = searcher.search("a c", k=3)
    assert [hit.text for hit in hits] == [texts[int(hit.docid)] for hit in hits]
    assert hits == TourSearcher.from_vectors(vectors, texts, model.encode, cross_encoder, depth=2).search("a c", k=3)
    logits = cross_encoder.predict([("a c", text) for text in texts], activation_fn=lambda logit: logit)
    by_model = TourSearcher.from_vectors(vectors, texts, model, cross_encoder, method="rerank").search("a c", k=5)
    assert [hit.score for hit in by_model] == pytest.approx(sorted(logits.tolist(), reverse=True), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"texts": ["one", "two"]}, ["60 vectors", "2 texts"]),
        ({"texts": "no/such/corpus.jsonl"}, ["no/such/corpus.jsonl"]),
        ({"docids": ["d0"] * 60}, ["'d0'", "twice"]),
        ({"docids": [f"x{i}" for i in range(60)]}, ["'x0'", "not in the texts"]),
        ({"vectors": np.full((60, 8), np.nan)}, ["row 0", "NaN"]),
        ({"vectors": faiss.IndexFlatL2(8)}, ["inner product"]),
        ({"encode": "default"}, ["encode", "function", "str"]),
        ({"score": None}, ["tour", "score"]),
        ({"config": "method=soft"}, ["TourConfig.parse"]),
        ({"detph": 3}, ["'detph'", "depth"]),
    ],
)
def test_a_mistake_is_one_sentence(make, changes, words):
    with pytest.raises(TourError) as caught:
        make(**changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_neither_pyserini_nor_java_nor_torch_is_loaded():
    code = """
import sys
import numpy as np
from tour_pyserini import TourSearcher

score = lambda pairs: range(len(pairs))
searcher = TourSearcher.from_vectors(np.eye(3), ["a", "b", "c"], lambda text: [1, 2, 3], score, method="rerank")
assert [hit.text for hit in searcher.search("query")] == ["a", "b", "c"], searcher.search("query")
print(sorted({"pyserini", "jnius", "torch", "transformers", "onnxruntime"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr[-2000:]
