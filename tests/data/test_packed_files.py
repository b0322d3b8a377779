"""Compressed corpora, topics, judgements and runs."""

import gzip
import json
import lzma
import sys

import pytest
import zstandard

from tour_pyserini.data.input_files import load_json, plain_file, read_lines
from tour_pyserini.data.qrels import read_qrels
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
    topics = read_topics(write(tmp_path / f"q.tsv{suffix}", b"1\tone\n2\ttwo\n"))
    assert list(topics) == [(1, "one"), (2, "two")]
    lines = write(tmp_path / f"q.jsonl{suffix}", b'{"_id": "x", "text": "one"}\n')
    assert list(read_topics(lines)) == [("x", "one")]
    answers = [{"question": "who", "answers": ["me"]}]
    assert list(read_topics(write(tmp_path / f"q.json{suffix}", json.dumps(answers).encode()))) == [(0, "who")]
    assert read_qrels(write(tmp_path / f"qrels{suffix}", b"1 0 a 1\n"))[0].doc_id == "a"
    assert read_run(write(tmp_path / f"run{suffix}", b"1 Q0 a 1 2.5 tag\n"))[0].score == 2.5


@suffixes
def test_a_corpus_is_unpacked_once(tmp_path, suffix, cache, monkeypatch, caplog):
    folder = tmp_path / "collection"
    folder.mkdir()
    path = write(folder / f"corpus.jsonl{suffix}", CORPUS)
    assert corpus_file(folder) == path
    texts = open_texts(folder)
    assert (texts["a"], texts["b"], len(texts), list(texts)) == ("First one", "two", 2, ["a", "b"])
    assert "is unpacked into" in caplog.text
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
        with pytest.raises(
            TourError, match=r"corpus\.jsonl\.\w+: it is damaged or incomplete \(.*\); copy or download"
        ):
            read(path)
    assert not (cache / "unpacked").exists() or not list((cache / "unpacked").iterdir())


def test_frames_and_members_follow_each_other(tmp_path):
    for suffix, pack in PACK.items():
        path = tmp_path / f"t{suffix}"
        path.write_bytes(pack(b"one\n") + pack(b"") + pack(b"two\n" * 300_000))
        assert [line.text for line in read_lines(path)] == ["one"] + ["two"] * 300_000


def test_an_empty_packed_corpus_has_no_document(tmp_path):
    with pytest.raises(TourError, match="holds no document"):
        BeirTexts(write(tmp_path / "corpus.jsonl.zst", b""))


def test_lines_of_a_packed_corpus_are_named_by_its_own_name(tmp_path):
    with pytest.raises(TourError, match=r"corpus\.jsonl\.gz, line 3 is not JSON"):
        BeirTexts(write(tmp_path / "corpus.jsonl.gz", CORPUS + b"{\n"))


def test_without_zstandard_the_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "t.tsv.zst", b"1\tone\n")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(TourError, match=r"tour_pyserini\[zstd\]"):
        list(read_lines(path))


def test_without_room_in_the_cache_folder_it_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "corpus.jsonl.gz", CORPUS)
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(path))  # a file, not a folder
    with pytest.raises(TourError, match="TOUR_PYSERINI_CACHE names the cache folder"):
        plain_file(path)
    with pytest.raises(TourError, match="cannot read"):
        plain_file(tmp_path / "nowhere.gz")
