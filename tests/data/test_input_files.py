"""Compressed corpora, topics, judgements and runs."""

import gzip
import json
import lzma
import sys

import pytest
import zstandard

from tour_pyserini.data.input_files import load_json, plain_file, read_lines
from tour_pyserini.data.judgements import read_qrels
from tour_pyserini.data.runs import read_run
from tour_pyserini.data.texts import BeirTexts, corpus_file, open_texts
from tour_pyserini.data.topics import read_topics
from tour_pyserini.errors import TourError

CORPUS = b'{"_id": "a", "title": "First", "text": "one"}\n{"_id": "b", "text": "two"}\n'
PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
suffixes = pytest.mark.parametrize("suffix", PACK)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(path, content):
    path.write_bytes(PACK[path.suffix](content) if path.suffix in PACK else content)
    return path


@suffixes
def test_topics_judgements_and_runs_are_read(tmp_path, suffix):
    assert list(read_topics(write(tmp_path / f"q.tsv{suffix}", b"1\tone\n2\ttwo\n"))) == [(1, "one"), (2, "two")]
    lines = write(tmp_path / f"q.jsonl{suffix}", b'{"_id": "x", "text": "one"}\n')
    assert list(read_topics(lines)) == [("x", "one")]
    answers = [{"question": "who", "answers": ["me"]}]
    assert list(read_topics(write(tmp_path / f"q.json{suffix}", json.dumps(answers).encode()))) == [(0, "who")]
    assert read_qrels(write(tmp_path / f"qrels{suffix}", b"1 0 a 1\n"))[0].doc_id == "a"
    assert read_run(write(tmp_path / f"run{suffix}", b"1 Q0 a 1 2.5 tag\n"))[0].score == 2.5


@suffixes
def test_a_corpus_is_unpacked_once(tmp_path, suffix, cache, caplog):
    folder = tmp_path / "collection"
    folder.mkdir()
    path = write(folder / f"corpus.jsonl{suffix}", CORPUS)
    assert corpus_file(folder) == path
    texts = open_texts(folder)
    assert dict(texts) == {"a": "First one", "b": "two"}
    assert "unpacked" in caplog.text
    (copy,) = (cache / "unpacked").iterdir()
    assert copy.read_bytes() == CORPUS and texts.plain == copy and texts.path == path
    caplog.clear()
    assert BeirTexts(path)["a"] == "First one" and not caplog.text
    path.unlink()
    write(path, CORPUS.replace(b"two", b"three"))
    assert BeirTexts(path)["b"] == "three"
    assert len(list((cache / "unpacked").iterdir())) == 1  # the older content is deleted


@suffixes
@pytest.mark.parametrize("damage", [lambda raw: raw[:-3], lambda raw: raw[:20], lambda raw: b"what is this\n"])
def test_a_damaged_file_is_one_sentence_and_leaves_nothing(tmp_path, suffix, damage, cache):
    path = tmp_path / f"corpus.jsonl{suffix}"
    path.write_bytes(damage(PACK[suffix](CORPUS * 50)))
    for read in (BeirTexts, lambda path: list(read_lines(path)), load_json):
        with pytest.raises(TourError, match=r"corpus\.jsonl\.\w+: it is damaged"):
            read(path)
    assert not (cache / "unpacked").exists() or not list((cache / "unpacked").iterdir())


@suffixes
def test_frames_and_members_follow_each_other(tmp_path, suffix):
    path, pack = tmp_path / f"t{suffix}", PACK[suffix]
    path.write_bytes(pack(b"one\n") + pack(b"") + pack(b"two\n" * 300_000))
    assert [line.text for line in read_lines(path)] == ["one"] + ["two"] * 300_000


def test_refusals_name_the_packed_file_the_extra_or_the_cache_folder(tmp_path, monkeypatch):
    with pytest.raises(TourError, match="no document"):
        BeirTexts(write(tmp_path / "corpus.jsonl.zst", b""))
    with pytest.raises(TourError, match=r"corpus\.jsonl\.gz, line 3 is not JSON"):
        BeirTexts(write(tmp_path / "corpus.jsonl.gz", CORPUS + b"{\n"))
    with pytest.raises(TourError, match="cannot read"):
        plain_file(tmp_path / "nowhere.gz")
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "corpus.jsonl.gz"))  # a file, not a folder
    with pytest.raises(TourError, match="TOUR_PYSERINI_CACHE"):
        plain_file(tmp_path / "corpus.jsonl.gz")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(TourError, match=r"tour_pyserini\[zstd\]"):
        list(read_lines(tmp_path / "corpus.jsonl.zst"))
