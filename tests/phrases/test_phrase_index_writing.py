"""Phrase indexes: what `index --phrases` builds, that it goes on after an interruption, and how folders are opened."""

import os

import numpy as np
import pytest
from tiny_phrases import DOCUMENTS, build_phrases, save_encoder, write_corpus

from tour_pyserini.data.run_records import is_phrase_index
from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.phrases import phrase_index_building as index_writing
from tour_pyserini.phrases.phrase_encoder import load_phrase_encoder
from tour_pyserini.phrases.phrase_index import open_phrase_index, read_settings, word_offsets
from tour_pyserini.phrases.phrase_searcher import PhraseSearcher


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("models") / "phrases", pooling="mean", filter_threshold=-0.5)


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "corpus.jsonl")


def test_an_index_of_phrases_is_searched(encoder, corpus, tmp_path):
    folder = build_phrases(encoder, corpus, tmp_path / "index", "--filter-threshold=-inf")
    assert is_phrase_index(folder) and not is_phrase_index(tmp_path)
    opened, model = open_phrase_index(folder), load_phrase_encoder(encoder)
    assert opened.docids == [one["_id"] for one in DOCUMENTS]
    assert opened.vectors.dtype == np.float16 and isinstance(opened.vectors, np.memmap)
    texts, searcher = {one["_id"]: one["text"] for one in DOCUMENTS}, PhraseSearcher(opened, model, open_texts(corpus))
    query, question = model.encode("who was the king of the river?"), "who was the king of the river?"
    hits = searcher.search(question, k=20)
    assert len(hits) == 20 and [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert texts[hit.docid][hit.begin : hit.end] == hit.text == hit.text.strip()
        assert hit.vector @ query == pytest.approx(hit.score, abs=1e-4)
    assert [hit.text for hit in searcher.search(query, k=20)] == [hit.text for hit in hits]
    names = [searcher.docids[id_] for id_ in searcher.find(query[None], phrases=20).ids[0].tolist()]
    assert names == [f"{hit.docid}:{hit.begin}-{hit.end}" for hit in hits] and len({*names}) == 20
    short = PhraseSearcher(opened, model, open_texts(corpus), max_words=2).search(question, k=50)
    assert len(short) == 50 and all(len(word_offsets(hit.text)) <= 2 for hit in short)
    with pytest.raises(TourError, match="encoder"):
        searcher.search(np.zeros(3))
    few = read_settings(build_phrases(encoder, corpus, tmp_path / "few"))  # the encoder's own filter
    assert few["filter_threshold"] == -0.5 and 0 < few["rows"] < len(opened.rows)


def test_an_interrupted_build_goes_on_and_gives_the_same_bytes(encoder, corpus, tmp_path, monkeypatch, interrupt):
    monkeypatch.setattr(index_writing, "CHUNK", 2)
    whole = build_phrases(encoder, corpus, tmp_path / "whole")
    calls = interrupt(index_writing.PhraseEncoder, "passages", 3)
    with pytest.raises(KeyboardInterrupt):
        build_phrases(encoder, corpus, tmp_path / "cut")
    assert not (tmp_path / "cut").exists()
    with pytest.raises(TourError, match=r"filter_threshold was -0.5, now 1"):
        build_phrases(encoder, corpus, tmp_path / "cut", "--filter-threshold", 1)
    rows = tmp_path / "cut.partial" / "rows"
    os.truncate(rows, rows.stat().st_size - 1)  # the second chunk is not complete
    build_phrases(encoder, corpus, tmp_path / "cut")
    assert [len(documents) for _, documents in calls] == [2, 2, 1, 2, 1]
    for path in whole.iterdir():
        assert (tmp_path / "cut" / path.name).read_bytes() == path.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "whole", "cut"}


def test_another_kind_of_index_is_made_from_existing_vectors(encoder, corpus, tmp_path, monkeypatch):
    flat = build_phrases(encoder, corpus, tmp_path / "flat")
    kind = ["--factory", "IVF2,Flat", "--nprobe", 2]
    encoded = build_phrases(encoder, corpus, tmp_path / "encoded", *kind)
    with monkeypatch.context() as patch:
        patch.setattr(index_writing.PhraseEncoder, "passages", None)
        copied = build_phrases(encoder, corpus, tmp_path / "copied", *kind, "--vectors", flat)
    for name in ("vectors", "rows", "docid", "index"):
        assert (copied / name).read_bytes() == (encoded / name).read_bytes()
    for more, name in ((["--dtype", "float32"], "dtype"), (["--filter-threshold=-inf"], "filter_threshold")):
        with pytest.raises(TourError, match=f"another {name}"):
            build_phrases(encoder, corpus, tmp_path / "other", *more, "--vectors", flat)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--factory", "PQ5x8"], "PQ5x8"),
        (["--factory", "IVF2000,Flat"], "2000 centroids"),
        (["--corpus", "empty"], "has a word"),
    ],
)
def test_what_cannot_be_built_is_refused(encoder, corpus, tmp_path, more, word):
    if "--corpus" in more:
        corpus, more = write_corpus(tmp_path / "empty.jsonl", [{"_id": "x", "title": "T", "text": " "}]), []
    with pytest.raises(TourError, match=word):
        build_phrases(encoder, corpus, tmp_path / "index", *more)
    assert not (tmp_path / "index").exists()


def test_damaged_folders_are_refused(encoder, corpus, tmp_path):
    folder = build_phrases(encoder, corpus, tmp_path / "index")
    with pytest.raises(TourError, match="--overwrite"):
        build_phrases(encoder, corpus, folder)
    build_phrases(encoder, corpus, folder, "--overwrite")
    record = (folder / "tour-phrases.json").read_text()
    for content, word in (("{}", "does not describe"), (record, "checksum")):
        (folder / "tour-phrases.json").write_text(content)
        (folder / "rows").write_bytes(b"short")
        with pytest.raises(TourError, match=word):
            open_phrase_index(folder)
    with pytest.raises(TourError, match="not a phrase index"):
        open_phrase_index(tmp_path)
    with pytest.raises(TourError, match="--nprobe"):
        open_phrase_index(build_phrases(encoder, corpus, tmp_path / "flat"), nprobe=1)
