"""The BM25 index: its scores against the formula, its order, its files, and what it refuses."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.stores.bm25_index import FOLDER, Bm25Index, has_bm25, write_bm25

PASSAGES = ["The cat sat on the mat", "Cats and dogs", "", "A dog barks; dogs bark", "mat of straw"]


def built(folder, passages):
    folder.mkdir(parents=True, exist_ok=True)
    write_bm25(passages, folder / FOLDER)
    (folder / "docid").write_text("".join(f"d{i}\n" for i in range(len(passages))))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return built(tmp_path_factory.mktemp("bm25") / "index", PASSAGES)


def test_nothing_is_logged_for_the_developers_of_bm25s(tmp_path, caplog):
    with caplog.at_level("DEBUG"):
        Bm25Index.open(built(tmp_path / "index", PASSAGES))(["cat"], 3)
    assert caplog.text == ""


def formula(query, passages, *, k1=0.9, b=0.4):
    """Lucene's BM25 of each passage; words are separated by blanks."""
    texts = [passage.split() for passage in passages]
    average = sum(map(len, texts)) / len(texts)
    scores = []
    for text in texts:
        score = 0.0
        for word in query.split():
            frequency, holders = text.count(word), sum(word in other for other in texts)
            idf = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
            score += idf * frequency / (frequency + k1 * (1 - b + b * len(text) / average)) if frequency else 0.0
        scores.append(score)
    return np.array(scores)


WORDS = st.lists(st.sampled_from(["xu", "yo", "zap", "wim", "vor"]), max_size=8).map(" ".join)


@given(passages=st.lists(WORDS, min_size=1, max_size=8), query=WORDS, k=st.integers(1, 9))
@settings(deadline=None, max_examples=40)
def test_scores_are_those_of_the_formula(tmp_path_factory, passages, query, k):
    if not any(passages):
        return
    index = Bm25Index.open(built(tmp_path_factory.mktemp("random") / "index", passages))
    (docids,), (scores,) = index([query], k)
    expected = formula(query, passages)
    best = [i for i in np.argsort(-expected.astype(np.float32), kind="stable") if expected[i] > 0][:k]
    assert scores == pytest.approx(expected[best], rel=1e-5)
    assert sorted(expected[[int(docid[1:]) for docid in docids]]) == pytest.approx(sorted(expected[best]), rel=1e-5)


def test_words_are_stemmed_and_stop_words_do_not_count(folder):
    docids, scores = Bm25Index.open(folder)(["cat", "the on of", "DOGS barking", "zebra", ""], 10)
    assert docids == [["d1", "d0"], [], ["d3", "d1"], [], []]
    assert [len(row) for row in scores] == [2, 0, 2, 0, 0]
    assert (np.diff(scores[2]) < 0).all()


def test_equal_scores_stand_in_the_order_of_the_index(tmp_path):
    index = Bm25Index.open(built(tmp_path / "index", ["mat", "cat", "mat", "mat", "mat"]))
    assert index(["mat"], 3)[0] == [["d0", "d2", "d3"]]


def test_the_same_corpus_gives_the_same_files(tmp_path):
    code = """
import sys, pathlib
from tour_pyserini.stores.bm25_index import write_bm25
write_bm25(["the cat sat", "dogs bark at cats", "a mat of straw"], pathlib.Path(sys.argv[1]))
"""
    for seed in "12":
        command = [sys.executable, "-c", code, str(tmp_path / seed)]
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)})
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / seed).iterdir()} for seed in "12")
    assert one == two


def test_no_words_at_all(tmp_path):
    with pytest.raises(TourError, match="no passage has any"):
        write_bm25(["", "of the"], tmp_path / "bm25")


def test_what_is_not_a_bm25_index_is_refused(tmp_path):
    with pytest.raises(TourError, match=r"has no BM25 index; build it with .* --bm25"):
        Bm25Index.open(tmp_path)
    index = built(tmp_path / "index", PASSAGES)
    assert has_bm25(index)
    record = index / FOLDER / "tour-bm25.json"
    whole = record.read_text()
    record.write_text(json.dumps({**json.loads(whole), "documents": 4}))
    with pytest.raises(TourError, match="not one document per line"):
        Bm25Index.open(index)
    record.write_text(json.dumps({"documents": 5, "settings": {"k1": 2}}))
    with pytest.raises(TourError, match="other settings; build it again"):
        Bm25Index.open(index)
    record.write_text(whole)
    (index / FOLDER / "data.csc.index.npy").write_bytes(b"")
    with pytest.raises(TourError, match="does not have the checksum"):
        Bm25Index.open(index)
    record.write_text(json.dumps({**json.loads(whole), "sha256": {}}))
    with pytest.raises(TourError, match="cannot be read as a BM25 index"):
        Bm25Index.open(index)


def test_the_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(TourError, match=r'pip install "tour_pyserini\[bm25\]"'):
        write_bm25(PASSAGES, tmp_path / "bm25")


@pytest.mark.parametrize("checksums", [True, False])
def test_damaged_files_are_refused_or_found_by_their_words(tmp_path, checksums):
    """Each file with flipped bits, cut off or empty: an answer or one sentence, no other error."""
    index, random = built(tmp_path / "index", PASSAGES * 4), np.random.default_rng(3)
    if not checksums:
        record = index / FOLDER / "tour-bm25.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "sha256": {}}))
    refused = 0
    for path in sorted((index / FOLDER).iterdir()):
        raw = path.read_bytes()
        flipped = [bytearray(raw) for _ in range(25)]
        for content in flipped:
            content[random.integers(len(content))] ^= 1 << random.integers(8)
        for content in (raw[: len(raw) // 2], b"", *flipped):
            path.unlink()  # it may be mapped into memory
            path.write_bytes(content)
            try:
                Bm25Index.open(index)(["cat mat dogs"], 5)
            except TourError as error:
                refused += 1
                assert "\n" not in str(error)
        path.unlink()
        path.write_bytes(raw)
    assert refused > (6 * 27 - 10 if checksums else 40)
