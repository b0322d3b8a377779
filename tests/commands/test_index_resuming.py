"""Interrupted, repeated and simultaneous index commands."""

import errno
import os
import signal
import time

import numpy as np
import pytest
from index_commands import content, flags, started, write_corpus

from tour_pyserini import index
from tour_pyserini import index as indexing
from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_building import write_index
from tour_pyserini.support.resumable import PartialFolder


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_resumed_run_gives_the_bytes_of_an_uninterrupted_one(tiny, tmp_path, end):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 2500)
    index.main(flags(tiny, corpus, tmp_path / "whole", "--batch-size", 2))
    process = started(flags(tiny, corpus, tmp_path / "cut", "--batch-size", 2))
    docids = tmp_path / "cut.partial" / "docid"
    # Once the second chunk is written, the first is counted; an interrupt before that leaves nothing to go on from.
    while not (docids.exists() and docids.read_bytes().count(b"\n") > indexing.CHUNK):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    process.send_signal(end)
    stderr = process.communicate()[1]
    assert process.returncode == (130 if end == signal.SIGINT else -signal.SIGKILL)
    assert ("run the same command again" in stderr) == (end == signal.SIGINT)
    assert not (tmp_path / "cut").exists()
    done = len(docids.read_text().splitlines())
    assert 0 < done < 2500

    process = started(flags(tiny, corpus, tmp_path / "cut", "--batch-size", 2))
    stderr = process.communicate()[1]
    assert process.returncode == 0
    assert "(0 were encoded before)" not in stderr
    assert content(tmp_path / "cut") == content(tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "cut", "whole"}


def test_an_incomplete_chunk_is_encoded_again(tiny, tmp_path, monkeypatch, encoded, no_build):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 50)
    monkeypatch.setattr(indexing, "CHUNK", 16)
    index.main(flags(tiny, corpus, tmp_path / "whole"))
    with no_build:
        index.main(flags(tiny, corpus, tmp_path / "cut"))
    assert not (tmp_path / "cut").exists()
    partial = tmp_path / "cut.partial"
    os.truncate(partial / "docid", 4 * 40)  # in the middle of the third chunk and of a line
    os.truncate(partial / "vectors", 64 * 45 + 3)
    index.main(flags(tiny, corpus, tmp_path / "cut"))
    assert encoded[-3:] == [1, 16, 2]  # the probe, then all after the second chunk
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_an_index_is_replaced_only_with_overwrite_and_only_by_a_complete_one(tiny, tmp_path, monkeypatch, no_build):
    corpus, folder = write_corpus(tmp_path / "corpus.jsonl", 20), tmp_path / "index"
    index.main(flags(tiny, corpus, folder))
    before = content(folder)
    with pytest.raises(TourError, match="already contains an index; add --overwrite"):
        index.main(flags(tiny, corpus, folder))
    with no_build:
        index.main(flags(tiny, corpus, folder, "--overwrite", "--max-length", 8))
    assert content(folder) == before
    index.main(flags(tiny, corpus, folder, "--overwrite", "--max-length", 8))
    assert content(folder)["index"] != before["index"]
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "index"}
    for other, overwrite in ((tmp_path, []), (tmp_path, ["--overwrite"]), (corpus, ["--overwrite"])):
        with pytest.raises(TourError, match=r"not an index|is a file"):
            index.main(flags(tiny, corpus, other, *overwrite))

    def build_while_another_index_appears(*options, **more):
        theirs.mkdir()
        for name in ("index", "docid"):
            (theirs / name).write_text("theirs")
        return write_index(*options, **more)

    theirs = tmp_path / "theirs"
    monkeypatch.setattr(indexing, "write_index", build_while_another_index_appears)
    with pytest.raises(TourError, match="already contains an index; add --overwrite"):
        index.main(flags(tiny, corpus, theirs))
    assert content(theirs) == {"index": b"theirs", "docid": b"theirs"}


def test_other_settings_do_not_resume(tiny, tmp_path, no_build):
    corpus = write_corpus(tmp_path / "corpus.jsonl", 20)
    with no_build:
        index.main(flags(tiny, corpus, tmp_path / "index"))
    changes = {"--max-length 8": "max_length was 256, now 8", "--fields text": "fields was", "": "corpus_sha256 was"}
    for change, message in changes.items():
        if not change:
            corpus.write_text(corpus.read_text().replace("d7", "x7"))
        with pytest.raises(TourError, match=f"{message}.* delete"):
            index.main(flags(tiny, corpus, tmp_path / "index", *change.split()))


VECTORS = np.float32([[1, 2], [3, 4]])


def unfinished(folder):
    return PartialFolder(folder / "p", {"dimension": 2}, "vectors")


def vectors_of(partial):
    return partial.array("vectors", np.float32, 2).tolist()


def test_two_processes_do_not_work_in_one_folder(tmp_path):
    with unfinished(tmp_path) as first:
        with pytest.raises(TourError, match="another process is using"):
            unfinished(tmp_path)
        first.append(["a", "b"], vectors=VECTORS)
    with unfinished(tmp_path) as second:
        second.append(["c"], vectors=np.float32([[5, 6]]))
        assert vectors_of(second) == [[1, 2], [3, 4], [5, 6]]
    with unfinished(tmp_path) as third:
        assert third.done == 3 and (tmp_path / "p" / "docid").read_text() == "a\nb\nc\n"


def test_what_another_process_has_just_written_is_not_made_again(tiny, tmp_path, monkeypatch):
    """Both find no index; one waits for the lock of the other, and leaves no unfinished work."""
    argv = flags(tiny, write_corpus(tmp_path / "corpus.jsonl", 5), tmp_path / "index")

    def wait(*given):
        monkeypatch.setattr(indexing, "PartialFolder", PartialFolder)
        index.main(argv)
        return PartialFolder(*given)

    monkeypatch.setattr(indexing, "PartialFolder", wait)
    with pytest.raises(TourError, match="overwrite"):
        index.main(argv)
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "index"}


def test_an_interrupt_while_the_first_chunk_is_counted_keeps_the_chunk(tmp_path, interrupt):
    interrupt(os, "fsync", 3)  # of vectors, docids, and the line about both
    with pytest.raises(KeyboardInterrupt), unfinished(tmp_path) as first:
        first.append(["a", "b"], vectors=VECTORS)
    with unfinished(tmp_path) as second:
        assert second.done == 2 and vectors_of(second) == VECTORS.tolist()


def test_a_full_disk_keeps_whole_chunks_and_work_goes_on(tmp_path, monkeypatch):
    os_write, full = os.write, [False]

    def write(handle, content):
        if full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        full[0] = bytes(content).startswith(b"{")  # the first chunk fits, and then nothing
        return os_write(handle, content)

    with (
        monkeypatch.context() as patched,
        pytest.raises(TourError, match=r"cannot write .*vectors: No space left on device"),
        unfinished(tmp_path) as first,
    ):
        patched.setattr(os, "write", write)
        first.append(["a", "b"], vectors=VECTORS)
        first.append(["c", "d"], vectors=VECTORS)
    with unfinished(tmp_path) as second:
        assert second.done == 2
