"""Learning from kept labels: through the pipeline and the real commands, with a tiny encoder."""

import json

import numpy as np
import pytest
from tiny_models import save_transformer
from toy_collection import HashReranker

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.records import record_path
from tour_pyserini.encoders.encoder_loading import load_query_encoder
from tour_pyserini.encoders.query_adapter import read_adapter
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline import IndexRequest, SearchRequest, build_index, search
from tour_pyserini.training.adapter_choice import order_quality, reciprocal_ranks
from tour_pyserini.training.adapter_fit import LabelledQueries
from tour_pyserini.training.learning import LearnRequest, NoGain, learn


class HiddenReranker:
    """Scores by p . (q + H q): what an adapter can learn. `asked` counts the pairs that were scored."""

    fingerprint = "hidden"

    def __init__(self, encoder):
        self.encode = load_query_encoder(str(encoder), l2_norm=True).encode_batch
        self.hidden = np.random.default_rng(2).normal(size=(32, 32)) / np.sqrt(32)
        self.asked = 0

    def predict(self, pairs):
        self.asked += len(pairs)
        queries, passages = (np.asarray(self.encode(list(texts))) for texts in zip(*pairs, strict=True))
        return (passages * (queries + queries @ self.hidden.T)).sum(axis=1).astype(np.float64)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An index of 200 passages of letters, and the fields of requests that name it."""
    folder = tmp_path_factory.mktemp("learn")
    encoder = save_transformer(folder / "encoder", "bert")
    random = np.random.default_rng(3)
    letters = [" ".join(row) for row in random.choice(list("abcdefghijklmnop"), size=(460, 8))]
    lines = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(letters[:200])]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, part in (("train", letters[200:400]), ("few", letters[200:220]), ("test", letters[400:])):
        (folder / f"{name}.tsv").write_text("".join(f"q{i}\t{text[:15]}\n" for i, text in enumerate(part)))
    build_index(IndexRequest(corpus=folder / "corpus.jsonl", index=folder / "index", encoder=encoder, l2_norm=True))
    return folder


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))


def fields(place, reranker, topics="train"):
    return {
        "topics": str(place / f"{topics}.tsv"),
        "index": str(place / "index"),
        "corpus": str(place / "corpus.jsonl"),
        "reranker": reranker,
    }


def bought(place, reranker, tmp_path, topics="train"):
    config = TourConfig("rerank", depth=10)
    return search(SearchRequest(**fields(place, reranker, topics), config=config, output=str(tmp_path / "bought.trec")))


def test_a_hidden_correction_is_learnt_without_buying_labels(place, tmp_path):
    reranker = HiddenReranker(place / "encoder")
    bought(place, reranker, tmp_path)
    before = reranker.asked
    output = tmp_path / "a.adapter"
    done = learn(LearnRequest(**fields(place, reranker), output=str(output)))
    assert reranker.asked == before
    assert (done.queries, done.labels) == (200, 2000)
    assert done.choice.gain > 0.02 and done.choice.p < 0.05
    adapter = read_adapter(output)
    assert adapter.about["reranker"] == "hidden" and adapter.about["topics"]["labels"] == 2000
    assert adapter.about["index"]["passages"] == 200 and adapter.about["chosen"]["gain"] == done.choice.gain
    again = learn(LearnRequest(**fields(place, reranker), output=str(tmp_path / "b.adapter")))
    assert again.choice == done.choice and (tmp_path / "b.adapter").read_bytes() == output.read_bytes()

    # Dense search of other queries puts the passages that the re-ranker likes first.
    def best(adapter):
        run = search(
            SearchRequest(
                **fields(place, reranker, "test"),
                config=TourConfig("dense"),
                hits=1,
                adapter=adapter,
                output=str(tmp_path / f"dense-{adapter is None}.trec"),
            )
        ).output
        texts = dict(line.split("\t") for line in (place / "test.tsv").read_text().splitlines())
        entries = map(json.loads, (place / "corpus.jsonl").read_text().splitlines())
        corpus = {entry["_id"]: entry["text"] for entry in entries}
        pairs = [(texts[line.split()[0]], corpus[line.split()[2]]) for line in run.read_text().splitlines()]
        return run, reranker.predict(pairs).mean()

    (_, plain), (run, adapted) = best(None), best(str(output))
    assert adapted > plain
    assert json.loads(record_path(run).read_text())["files"]["adapter"]["sha256"]


def test_labels_of_noise_are_refused_with_the_figures(place, tmp_path):
    reranker = HashReranker()
    bought(place, reranker, tmp_path)
    with pytest.raises(NoGain, match=r"reciprocal rank .* changes it by .* 2000 labels of 200 queries") as refused:
        learn(LearnRequest(**fields(place, reranker), output=str(tmp_path / "a.adapter")))
    assert refused.value.labels == 2000 and not (tmp_path / "a.adapter").exists()


def test_too_few_labels_are_refused(place, tmp_path):
    reranker = HashReranker()
    with pytest.raises(TourError, match=r"0 of the 200 queries .*train\.tsv have two or more kept labels"):
        learn(LearnRequest(**fields(place, reranker), output=str(tmp_path / "a.adapter")))
    bought(place, reranker, tmp_path, "few")
    with pytest.raises(TourError, match="20 of the 200 queries"):
        learn(LearnRequest(**fields(place, reranker), output=str(tmp_path / "a.adapter")))


def small_data(labels):
    passages = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=np.float32)
    return LabelledQueries(
        np.array([[1.0, 0.0]], dtype=np.float32),
        *(passages, np.array([4, 5, 6]), np.array([[0, 1, 2]]), np.array([labels])),
        *(np.array([], dtype=int), passages[:0]),
    )


def test_the_order_of_labels_by_hand():
    # Similarities 1, 0, 0.6: passages 0, 2, 1, with the gains 0, 0.25, 0.75.
    data, targets = small_data([0.0, 2.0, 1.0]), np.array([[0.0, 0.75, 0.25]])
    ideal = 0.75 + 0.25 / np.log2(3)
    assert order_quality(data, targets, data.queries) == pytest.approx([(0.25 / np.log2(3) + 0.75 / 2) / ideal])
    assert order_quality(data, targets, np.array([[0.0, 1.0]])) == pytest.approx([1.0])


def test_reciprocal_ranks_by_hand():
    class Store:
        def search(self, vectors, k):
            return type("Hits", (), {"ids": np.array([[9, 6, 5, -1]])})

    assert reciprocal_ranks(small_data([0.0, 2.0, 1.0]), np.zeros((1, 2)), Store()) == pytest.approx([1 / 3])
    assert reciprocal_ranks(small_data([3.0, 2.0, 1.0]), np.zeros((1, 2)), Store()) == pytest.approx([0.0])


def test_search_refuses_what_is_no_adapter_and_encoded_queries(place, tmp_path):
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(TourError, match="bad is not an adapter"):
        search(
            SearchRequest(**fields(place, HashReranker()), adapter=str(tmp_path / "bad"), output=str(tmp_path / "r"))
        )
    with pytest.raises(TourError, match="--adapter corrects vectors of an encoder"):
        SearchRequest(**fields(place, "default"), adapter="a", encoded_queries="b")
