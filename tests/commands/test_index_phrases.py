"""The index command with --phrases: what it builds, and that it goes on after an interruption."""

import json

import numpy as np
import pytest
import torch
from index_commands import content
from tiny_phrases import DOCUMENTS, save_encoder, write_corpus

from tour_pyserini import index
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.encoder import load_phrase_encoder
from tour_pyserini.phrases.index import is_phrase_index, open_phrase_index, read_settings
from tour_pyserini.phrases.searcher import PhraseSearcher
from tour_pyserini.pipeline import phrase_indexing


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("models") / "phrases", pooling="mean", filter_threshold=-0.5)


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "corpus.jsonl")


def build(encoder, corpus, folder, *more):
    flags = ["--phrases", "--corpus", corpus, "--encoder", encoder, "--index", folder, "--threads", 1, *more]
    before = torch.get_num_threads()
    index.main([str(flag) for flag in flags])
    assert torch.get_num_threads() == before
    return folder


def test_an_index_of_phrases_is_searched(encoder, corpus, tmp_path):
    folder = build(encoder, corpus, tmp_path / "index", "--filter-threshold=-inf")
    assert is_phrase_index(folder)
    assert not is_phrase_index(tmp_path)
    opened, model = open_phrase_index(folder), load_phrase_encoder(encoder)
    assert opened.docids == [one["_id"] for one in DOCUMENTS]
    assert opened.vectors.dtype == np.float16
    assert isinstance(opened.vectors, np.memmap)
    searcher = PhraseSearcher(opened, model, open_texts(corpus))
    texts = {one["_id"]: one["text"] for one in DOCUMENTS}
    query = model.encode("who was the king of the river?")
    hits = searcher.search("who was the king of the river?", k=20)
    assert len(hits) == 20
    for hit in hits:
        assert texts[hit.docid][hit.begin : hit.end] == hit.text == hit.text.strip()
        assert hit.vector @ query == pytest.approx(hit.score, abs=1e-4)
    # Every span by brute force: the best one is the first hit.
    rows, vectors = opened.rows, opened.vectors.astype(np.float32)
    scores = (vectors @ query[:16])[:, None] + (vectors @ query[16:])[None]
    first, last = rows["first"].astype(int), rows["last"].astype(int)
    allowed = (rows["passage"][:, None] == rows["passage"]) & (last[None] - first[:, None] < 10)
    allowed &= np.triu(np.ones_like(allowed)) & (rows["roles"] & 1 > 0)[:, None] & (rows["roles"] & 2 > 0)
    assert hits[0].score == pytest.approx(scores[allowed].max(), abs=1e-4)


def test_the_encoders_own_filter_is_the_default(encoder, corpus, tmp_path):
    everything = read_settings(build(encoder, corpus, tmp_path / "all", "--filter-threshold=-inf"))
    few = read_settings(build(encoder, corpus, tmp_path / "few"))
    assert everything["filter_threshold"] is None
    assert few["filter_threshold"] == -0.5
    assert 0 < few["rows"] < everything["rows"]


@pytest.mark.parametrize(
    "more",
    [
        ["--kind", "ivf", "--nlist", 4, "--nprobe", 4, "--dtype", "float32"],
        ["--kind", "ivfpq", "--nlist", 2, "--nprobe", 2, "--pq-m", 8, "--pq-nbits", 3],
    ],
)
def test_inverted_files(encoder, corpus, tmp_path, more):
    folder = build(encoder, corpus, tmp_path / "index", *more)
    searcher = PhraseSearcher(open_phrase_index(folder), load_phrase_encoder(encoder), open_texts(corpus))
    flat = build(encoder, corpus, tmp_path / "flat", *(["--dtype", "float32"] if "float32" in more else []))
    exact = PhraseSearcher(open_phrase_index(flat), load_phrase_encoder(encoder), open_texts(corpus))
    assert not searcher.finder.index.exact
    # So few tokens that all of them are fetched.
    assert [hit.text for hit in searcher.search("king", 5)] == [hit.text for hit in exact.search("king", 5)]
    open_phrase_index(folder, nprobe=1)
    with pytest.raises(TourError, match="--nprobe is for inverted files"):
        open_phrase_index(flat, nprobe=1)


def test_an_interrupted_build_goes_on_and_gives_the_same_bytes(encoder, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(phrase_indexing, "CHUNK", 2)
    whole = build(encoder, corpus, tmp_path / "whole")
    passages, calls = phrase_indexing.PhraseEncoder.passages, []

    def passages_until_the_third_chunk(self, documents, **more):
        calls.append(len(documents))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return passages(self, documents, **more)

    monkeypatch.setattr(phrase_indexing.PhraseEncoder, "passages", passages_until_the_third_chunk)
    with pytest.raises(KeyboardInterrupt):
        build(encoder, corpus, tmp_path / "cut")
    assert not (tmp_path / "cut").exists()
    with pytest.raises(TourError, match=r"filter_threshold was -0.5, now 1"):
        build(encoder, corpus, tmp_path / "cut", "--filter-threshold", 1)
    build(encoder, corpus, tmp_path / "cut")
    assert calls == [2, 2, 1, 1]
    assert content(tmp_path / "cut") == content(whole)
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "whole", "cut"}


def test_wrong_flags_corpora_and_folders_are_refused(encoder, corpus, tmp_path):
    folder = build(encoder, corpus, tmp_path / "index")
    with pytest.raises(TourError, match="add --overwrite"):
        build(encoder, corpus, folder)
    build(encoder, corpus, folder, "--overwrite")
    for more, message in [
        (["--pq"], "choose one of phrases with --kind"),
        (["--pooling", "mean"], "--pooling is not for --phrases"),
        (["--no-l2-norm"], "--l2-norm is not for --phrases"),
        (["--batch-size", 64], "--batch-size is not for --phrases"),
        (["--M", 256], "--M is not for --phrases"),
        (["--efC", 256], "--efC is not for --phrases"),
        (["--fields", "title"], "--fields title leaves no text"),
        (["--kind", "ivfpq", "--pq-m", 5], "cannot be cut into 5"),
        (["--kind", "ivf", "--nlist", 2000, "--nprobe", 1], "2000 centroids need at least as many"),
    ]:
        with pytest.raises(TourError, match=message):
            build(encoder, corpus, tmp_path / "other", *more)
    empty = write_corpus(tmp_path / "empty.jsonl", [{"_id": "x", "title": "T", "text": " "}])
    with pytest.raises(TourError, match=r"no passage of .* has a word"):
        build(encoder, empty, tmp_path / "nothing")
    (folder / "docid").write_text("a\n")
    with pytest.raises(TourError, match="docid is damaged or was changed since the index was built"):
        open_phrase_index(folder)
    whole = json.loads((folder / "tour-phrases.json").read_text())
    for part, name in [("settings", "documents"), ("index", "kind"), ("built", "largest_norm"), ("built", "rows")]:
        lacking = {**whole, part: {key: value for key, value in whole[part].items() if key != name}}
        assert lacking != whole
        (folder / "tour-phrases.json").write_text(json.dumps(lacking))
        with pytest.raises(TourError, match=f"(is damaged|does not describe a phrase index) .*{name}"):
            open_phrase_index(folder)
    (folder / "tour-phrases.json").write_text(json.dumps({"settings": {}}))
    with pytest.raises(TourError, match="does not describe a phrase index"):
        open_phrase_index(folder)
    with pytest.raises(TourError, match="is not a phrase index"):
        open_phrase_index(tmp_path)


def test_another_kind_of_index_is_made_from_existing_vectors(encoder, corpus, tmp_path, monkeypatch):
    flat = build(encoder, corpus, tmp_path / "flat", "--dtype", "float32")
    kind = ["--kind", "ivf", "--nlist", "2", "--nprobe", "2"]
    encoded = build(encoder, corpus, tmp_path / "encoded", *kind)
    monkeypatch.setattr(phrase_indexing, "CHUNK", 2)
    with monkeypatch.context() as patch:
        patch.setattr("tour_pyserini.phrases.encoder.PhraseEncoder.passages", None)
        copied = build(encoder, corpus, tmp_path / "copied", *kind, "--vectors", flat)
    for name in ("vectors", "rows", "docid", "index"):
        assert (copied / name).read_bytes() == (encoded / name).read_bytes()
    with pytest.raises(TourError, match=r"are float16; use the same --dtype"):
        build(encoder, corpus, tmp_path / "longer", "--dtype", "float32", "--vectors", copied)
    with pytest.raises(TourError, match="made with another filter_threshold; leave out --vectors"):
        build(encoder, corpus, tmp_path / "other", "--filter-threshold=-inf", "--vectors", flat)


def test_a_length_is_cut_to_what_the_model_reads_and_a_threshold_is_a_number(encoder, corpus, tmp_path):
    longest = load_phrase_encoder(encoder).model.config.max_position_embeddings
    assert read_settings(build(encoder, corpus, tmp_path / "long", "--max-length", 4096))["max_length"] == longest
    short = read_settings(build(encoder, corpus, tmp_path / "short", "--max-length", 24))
    assert (short["max_length"], short["stride"] <= 12) == (24, True)
    assert longest > 24
    for wrong in ("inf", "nan"):
        with pytest.raises(TourError, match="--filter-threshold must be a number, or -inf"):
            build(encoder, corpus, tmp_path / wrong, "--filter-threshold", wrong)
