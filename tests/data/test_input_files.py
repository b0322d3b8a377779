"""Compressed corpora, topics, judgements and runs."""

import gzip
import json
import lzma
import subprocess
import sys

import pytest
import zstandard

from tour_pyserini.data import input_files
from tour_pyserini.data.input_files import load_json, read_lines
from tour_pyserini.data.texts import BeirTexts, corpus_file, open_texts
from tour_pyserini.errors import TourError

CORPUS = b'{"_id": "a", "title": "First", "text": "one"}\n{"_id": "b", "text": "two"}\n'
PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}
suffixes = pytest.mark.parametrize("suffix", PACK)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@suffixes
def test_a_corpus_is_unpacked_once(tmp_path, suffix, cache, caplog):
    path = tmp_path / f"corpus.jsonl{suffix}"
    path.write_bytes(PACK[suffix](CORPUS))
    texts = open_texts(tmp_path)
    assert corpus_file(tmp_path) == path and dict(texts) == {"a": "First one", "b": "two"}
    (copy,) = (cache / "unpacked").iterdir()
    assert copy.read_bytes() == CORPUS and texts.plain == copy and texts.path == path
    assert "unpacked" in caplog.text
    caplog.clear()
    assert BeirTexts(path)["a"] == "First one" and not caplog.text
    path.unlink()
    path.write_bytes(PACK[suffix](CORPUS.replace(b"two", b"three")))
    assert BeirTexts(path)["b"] == "three"
    assert len(list((cache / "unpacked").iterdir())) == 1  # the older content is deleted


@suffixes
def test_frames_follow_each_other(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(input_files, "_BLOCK", 100)
    path, pack = tmp_path / f"t{suffix}", PACK[suffix]
    path.write_bytes(pack(b"\xef\xbb\xbfone\n") + pack(b"") + pack(b"two\n\n" * 3_000))
    assert [line.text for line in read_lines(path)] == ["one"] + ["two"] * 3_000


@suffixes
@pytest.mark.parametrize("damage", [lambda raw: raw[:-3], lambda raw: raw[:20], lambda raw: b"what is this\n"])
def test_a_damaged_file_is_one_sentence_and_leaves_nothing(tmp_path, suffix, damage, cache):
    path = tmp_path / f"corpus.jsonl{suffix}"
    path.write_bytes(damage(PACK[suffix](CORPUS * 50)))
    for read in (BeirTexts, lambda path: list(read_lines(path))):
        with pytest.raises(TourError, match=r"corpus\.jsonl\.\w+: it is damaged"):
            read(path)
    assert not (cache / "unpacked").exists() or not list((cache / "unpacked").iterdir())


def test_pipes_are_read_once_as_corpora_topics_and_runs(tmp_path):
    """As `<(zcat ...)` of a shell gives them."""
    contents = {"c": CORPUS, "t": b"7\twhy\n", "r": b"7 Q0 a 1 2.0 t\n7 Q0 b 2 1.0 t\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    code = "from tour_pyserini.convert import main; import sys; main(sys.argv[1:])"
    pipes = "--corpus <(cat c) --topics <(cat t) --run <(cat r)"
    command = f'"{sys.executable}" -c "{code}" requests {pipes} --output /dev/stdout'
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    request = json.loads(done.stdout)
    assert request["query"] == {"text": "why", "qid": "7"}
    assert [one["doc"] for one in request["candidates"]] == [{"title": "First", "text": "one"}, {"text": "two"}]


@pytest.mark.parametrize(
    ("read", "content", "word"),
    [
        (load_json, b'[{"a": 1},\n {"a" 1}]', "line 2"),
        (load_json, b"[" * 100_000, "recursion"),
        (lambda path: list(read_lines(path)), b"a\ncaf\xe9\n", "line 2"),
        (lambda path: list(read_lines(path)), None, "cannot read"),
    ],
)
def test_refusals(tmp_path, read, content, word):
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(TourError, match=word):
        read(tmp_path / "file")
