"""Passage retrieval of the paper: DPR's encoders, Wikipedia passages in a Lucene index, labels of R2-D2."""

import json
import sys
from pathlib import Path

import faiss
import numpy as np
import pytest
import torch
from tiny_r2d2 import TinyR2D2
from toy_collection import build_lucene
from transformers import DPRConfig, DPRContextEncoder, DPRQuestionEncoder

from tour_pyserini.core.config import TourConfig
from tour_pyserini.encoders.loading import load_query_encoder
from tour_pyserini.encoders.query_vectors import load_encoded_queries
from tour_pyserini.index import main as index
from tour_pyserini.search import main as search

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
import oracle

WORDS = ["moon", "sun", "star", "earth", "orbit", "light", "bread", "oven", "baker", "city", "river", "king", "song"]
WORDS += ["prize", "year", "war", "art", "sea"]
QUERIES = {"q1": "moon orbit", "q2": "who baked bread in the oven", "q3": "king of the city", "q4": "song prize year"}
HIDDEN = 32
INDEX, CORPUS = "wikipedia-dpr-100w.dpr-multi", "wikipedia-dpr-100w"
QUESTIONS = "facebook/dpr-question_encoder-multiset-base"

pytestmark = pytest.mark.usefixtures("one_thread")


def save_encoder(kind, part, folder, common, seed):
    """Random weights; the last layer norm gives vectors the size of DPR's: norms near 9, inner products of 50 to 80."""
    torch.manual_seed(seed)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "the", "of", "in"]
    sizes = {"hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = DPRConfig(vocab_size=len(words), max_position_embeddings=128, initializer_range=0.4, **sizes)
    model = kind(config).eval()
    norm = getattr(model, part).bert_model.encoder.layer[-1].output.LayerNorm
    norm.weight.data.fill_(0.7)
    norm.bias.data.copy_(common)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    settings = {"tokenizer_class": f"{kind.__name__}Tokenizer", "do_lower_case": True, "model_max_length": 128}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return model


class Wikipedia:
    """A few passages with quoted titles, as a BEIR file, as a Lucene index, and as a DPR index."""

    def __init__(self, folder: Path) -> None:
        random = np.random.default_rng(3)
        common = torch.from_numpy(random.normal(size=HIDDEN))
        common *= 8.5 / common.norm()
        self.questions = save_encoder(DPRQuestionEncoder, "question_encoder", folder / "question", common, 1)
        self.contexts = save_encoder(DPRContextEncoder, "ctx_encoder", folder / "context", common, 2)
        self.folder = folder
        self.documents = [
            (str(i), " ".join(random.choice(WORDS, size=1 + i % 2)), " ".join(random.choice(WORDS, size=4 + i % 9)))
            for i in range(30)
        ]
        lines = [{"_id": docid, "title": title, "text": text} for docid, title, text in self.documents]
        self.corpus = folder / "corpus.jsonl"
        self.corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.topics = folder / "topics.tsv"
        self.topics.write_text("".join(f"{q_id}\t{query}\n" for q_id, query in QUERIES.items()))
        self.index = folder / "index"
        flags = ["--corpus", self.corpus, "--encoder", folder / "context", "--encoder-class", "dpr"]
        index([str(flag) for flag in [*flags, "--index", self.index, "--batch-size", 7]])

    def vectors(self) -> np.ndarray:
        return faiss.read_index(str(self.index / "index")).reconstruct_n(0, len(self.documents))


@pytest.fixture(scope="module")
def wikipedia(tmp_path_factory):
    return Wikipedia(tmp_path_factory.mktemp("wikipedia"))


@pytest.fixture(scope="module")
def lucene(wikipedia):
    texts = {docid: f'"{title}"\n{text}' for docid, title, text in wikipedia.documents}
    return build_lucene(wikipedia.folder, texts, "--storeRaw")


@pytest.fixture(scope="module")
def labeller(tmp_path_factory):
    tiny = TinyR2D2(tmp_path_factory.mktemp("models") / "r2d2")
    tiny.head.weight.data *= 5
    tiny.save()
    return tiny


def test_documents_are_encoded_as_pairs_of_title_and_text(wikipedia):
    words = (wikipedia.folder / "context" / "vocab.txt").read_text().split()
    for vector, (_, title, text) in zip(wikipedia.vectors(), wikipedia.documents, strict=True):
        pair = ["[CLS]", *title.split(), "[SEP]", *text.split(), "[SEP]"]
        with torch.no_grad():
            expected = wikipedia.contexts(torch.tensor([[words.index(word) for word in pair]])).pooler_output[0].numpy()
        np.testing.assert_allclose(vector, expected, atol=1e-4)


def agree_with_the_oracle(wikipedia, labeller, config, run, encoded):
    """Check run and optimised vectors against float64 arithmetic; returns the number of queries that were updated."""
    corpus = wikipedia.vectors().astype(float)
    encoder = load_query_encoder(wikipedia.folder / "question", encoder_class="dpr")
    optimised = load_encoded_queries(encoded)
    ranked = {}
    for line in run.read_text().splitlines():
        ranked.setdefault(line.split()[0], []).append(line.split()[2])
    moved = 0
    for q_id, query in QUERIES.items():
        scores = labeller.scores([(query, title, text) for _, title, text in wikipedia.documents])
        start = encoder.encode(query)
        end, order, _, _ = oracle.tour(corpus, start, scores.__getitem__, config, 30)
        np.testing.assert_allclose(optimised.encode(query), end, rtol=1e-4, atol=1e-4 * np.abs(end).max())
        assert ranked[q_id] == [wikipedia.documents[i][0] for i in order]
        moved += not np.allclose(start, end)
    return moved


def search_flags(wikipedia, labeller, folder, **changes):
    flags = {"topics": wikipedia.topics, "preset": "paper-passages-dpr", "reranker": labeller.folder, "hits": 30}
    flags |= {"cache": folder / "scores.sqlite", "output": folder / "run.trec", "output-queries": folder / "encoded"}
    flags |= {"threads": 1, "reranker-threads": 1, **changes}
    return [str(word) for name, value in flags.items() for word in (f"--{name}", value)]


@pytest.mark.parametrize("changes", [{"depth": 8, "iterations": 2}, {"method": "soft", "depth": 8}])
def test_passage_retrieval_of_the_paper_agrees_with_the_oracle(wikipedia, lucene, labeller, tmp_path, changes):
    local = {"index": wikipedia.index, "corpus": lucene, "encoder": wikipedia.folder / "question"}
    search(search_flags(wikipedia, labeller, tmp_path, **local, **{"encoder-class": "dpr"}, **changes))
    config = TourConfig.preset("paper-passages-dpr").replace(**changes)
    assert config.similarity_scale == 1
    assert agree_with_the_oracle(wikipedia, labeller, config, tmp_path / "run.trec", tmp_path / "encoded") > 0


def test_names_are_passed_to_pyserini_unchanged(wikipedia, lucene, labeller, tmp_path, monkeypatch):
    from pyserini.encode import query_encoder_class_map
    from pyserini.prebuilt_index_info import FAISS_INDEX_INFO
    from pyserini.search.faiss import FaissSearcher
    from pyserini.search.lucene import LuceneSearcher

    assert FAISS_INDEX_INFO[INDEX]["texts"] == CORPUS
    asked, real = [], query_encoder_class_map["dpr"]

    def encoder(encoder_dir, **options):
        asked.append((encoder_dir, options["tokenizer_name"]))
        return real(encoder_dir=str(wikipedia.folder / "question"), **options)

    def prebuilt(kind, folder):
        return lambda name, *more: asked.append((name,)) or kind(str(folder), *more)

    monkeypatch.setitem(query_encoder_class_map, "dpr", encoder)
    for kind, folder in ((FaissSearcher, wikipedia.index), (LuceneSearcher, lucene)):
        monkeypatch.setattr(kind, "from_prebuilt_index", prebuilt(kind, folder))
    monkeypatch.chdir(tmp_path)
    search(search_flags(wikipedia, labeller, tmp_path, index=INDEX, corpus=CORPUS, encoder=QUESTIONS))
    assert sorted(asked) == [(QUESTIONS, None), (CORPUS,), (INDEX,)]
    monkeypatch.undo()
    config = TourConfig.preset("paper-passages-dpr")
    assert agree_with_the_oracle(wikipedia, labeller, config, tmp_path / "run.trec", tmp_path / "encoded") > 0
