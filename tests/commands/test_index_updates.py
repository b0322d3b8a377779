"""A changed collection: its index searches like one that is built anew, whatever was added, replaced or deleted."""

import contextlib
import json
import os
import signal
import threading
import time
from random import Random

import faiss
import numpy as np
import pytest
from index_commands import content
from tqdm import tqdm

from tour_pyserini.data.texts import open_texts
from tour_pyserini.errors import TourError
from tour_pyserini.index import IndexRequest, build_index
from tour_pyserini.search_request import SearchRequest
from tour_pyserini.stores.index_folder import read_index_files
from tour_pyserini.stores.index_updates import IndexUpdate
from tour_pyserini.stores.signals import open_signal
from tour_pyserini.support.resumable import PartialFolder

tqdm.set_lock(threading.RLock())  # its own is shared with forked processes, and a killed one never gives it back
FLAT = {"bm25": True}
KINDS = {
    "flat": FLAT,
    "hnsw": {"hnsw": True, "M": 8, "efC": 40},
    "ivf": {"factory": "IVF2,Flat", "nprobe": 2},
    "pca": {"factory": "PCA8,IVF2,SQ8", "nprobe": 2},
    "pq": {"factory": "PQ4x3"},
}


def documents(random, count, prefix="d"):
    words = [*"abcdefghijklmnop", "moon", "river", "bread", "king"]
    return {f"{prefix}{i}": " ".join(random.choices(words, k=random.randint(1, 20))) for i in range(count)}


def write(path, texts):
    path.write_text("".join(json.dumps({"_id": d, "text": t, "year": len(t)}) + "\n" for d, t in texts.items()))
    return str(path)


class Twin:
    """A folder that is changed, and what should be in it."""

    def __init__(self, tmp_path, tiny, texts, **kind):
        self.path, self.texts, self.seconds, self.index = tmp_path, dict(texts), 0.5, str(tmp_path / "index")
        self.kind = {"encoder": tiny, "threads": 1, **kind}
        build_index(IndexRequest(corpus=write(tmp_path / "first.jsonl", texts), index=self.index, **self.kind))

    def request(self, add, delete):
        """What the collection becomes, and the request that makes it so."""
        for docid in (*delete, *add):
            self.texts.pop(docid, None)
        self.texts.update(add)
        files = {"add": write(self.path / "add.jsonl", add)} if add else {}
        if delete:
            (self.path / "delete").write_text("\n".join(delete) + "\n")
            files["delete"] = str(self.path / "delete")
        return IndexRequest(index=self.index, corpus=self.path / "first.jsonl", **files, threads=1)

    def change(self, add=(), delete=()):
        return build_index(self.request(dict(add), list(delete)))

    def change_killed(self, random, add, delete):
        """The same, by processes that are killed at random moments; after each, the index is the old or the new one."""
        before, request = list(self.docids()), self.request(add, delete)
        for _ in range(random.randint(1, 3)):
            if not (child := os.fork()):
                with contextlib.suppress(BaseException):
                    build_index(request)
                os._exit(0)
            time.sleep(random.uniform(0, self.seconds))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            assert list(self.docids()) in (before, list(self.texts))
        started = time.monotonic()
        build_index(request)
        self.seconds = min(1.5 * (time.monotonic() - started), 2.0)

    def docids(self):
        return read_index_files(self.path / "index")[1]

    def check(self, *, exact=True):
        """The texts, docids and BM25 of an index that is built anew; of an exact one, the vectors and lists too."""
        folder, anew = self.path / "index", self.path / "anew"
        corpus = write(self.path / "anew.jsonl", self.texts)
        build_index(IndexRequest(corpus=corpus, index=str(anew), overwrite=True, **self.kind))
        assert dict(open_texts(folder)) == self.texts
        assert (folder / "corpus.jsonl").read_bytes() == (self.path / "anew.jsonl").read_bytes()
        (mine, docids), (theirs, expected) = (read_index_files(each) for each in (folder, anew))
        assert list(docids) == list(expected) == list(self.texts)
        records = [json.loads((each / "tour-index.json").read_text()) for each in (folder, anew)]
        for record in records:
            del record["sha256"]["index"]
        assert records[0] == records[1]
        if (anew / "bm25").exists():
            assert content(folder / "bm25") == content(anew / "bm25")
        if exact:
            vectors = [found.reconstruct_n(0, len(docids)) for found in (mine, theirs)]
            assert vectors[0] == pytest.approx(vectors[1], abs=1e-5)
        return mine, theirs


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_random_changes_give_the_lists_of_an_index_built_anew(tiny, tmp_path, seed):
    random = Random(seed)
    twin = Twin(tmp_path, tiny, documents(random, 40), **FLAT)
    for step in range(4):
        some = random.sample(sorted(twin.texts), 6)
        add = documents(random, random.randint(0, 8), f"n{step}-") | {
            d: "p o n m" for d in some[: random.randint(0, 3)]
        }
        twin.change_killed(random, add, [*some[3:], "unknown"])
        mine, theirs = twin.check()
        queries = theirs.reconstruct_n(0, 5)
        assert (mine.search(queries, 10)[1] == theirs.search(queries, 10)[1]).mean() > 0.95  # but for ties
        found = [open_signal(tmp_path / name)(["a moon river", "king"], 10) for name in ("index", "anew")]
        assert found[0][0] == found[1][0] and all(map(np.array_equal, found[0][1], found[1][1]))


@pytest.mark.parametrize("kind", KINDS)
def test_other_kinds_keep_the_vectors_of_what_stays(tiny, tmp_path, kind):
    random = Random(1)
    twin = Twin(tmp_path, tiny, documents(random, 60), **KINDS[kind])
    twin.change(documents(random, 5, "new"))
    twin.check(exact=kind in ("flat", "hnsw"))
    old = twin.path / "index" / "index"
    before = faiss.read_index(str(old))
    twin.change({"d7": "a b"}, ["d3", "new0"])
    after, _ = twin.check(exact=kind in ("flat", "hnsw"))
    for found in (before, after):
        if inverted := faiss.try_extract_index_ivf(found):
            inverted.make_direct_map()
    rows = [row for row in range(65) if row not in (3, 7, 60)]
    assert np.array_equal(before.reconstruct_batch(rows), after.reconstruct_batch(range(62)))
    assert all(after.search(after.reconstruct(62)[None], 8)[1][0] >= 0)


def test_a_tsv_becomes_json(tiny, tmp_path, caplog):
    (tmp_path / "first.tsv").write_text("1\tone\n2\ttwo\n")
    common = {"corpus": tmp_path / "first.tsv", "index": str(tmp_path / "index"), "threads": 1}
    build_index(IndexRequest(encoder=tiny, **common))
    build_index(IndexRequest(add=write(tmp_path / "add.jsonl", {"3": "three"}), **common))
    lines = (tmp_path / "index" / "corpus.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"_id": "1", "text": "one"} and json.loads(lines[2])["year"] == 5
    for given, warned in ((None, False), (tmp_path / "index", False), (common["corpus"], True)):
        caplog.clear()
        searched = SearchRequest(topics="t.tsv", index=common["index"], corpus=given).completed()
        assert searched.corpus == str(tmp_path / "index" / "corpus.jsonl") and bool(caplog.records) == warned


@pytest.mark.parametrize(("owner", "name", "then"), [(IndexUpdate, "write", 50), (PartialFolder, "discard", 78)])
def test_an_interrupted_change_is_finished_by_the_same_command(tiny, tmp_path, interrupt, encoded, owner, name, then):
    """Before the new folder takes the place of the old one, and just after that."""
    random = Random(5)
    twin = Twin(tmp_path, tiny, documents(random, 50), **FLAT)
    request = twin.request(documents(random, 30, "new"), ["d1", "d2"])
    encoded.clear()
    interrupt(owner, name, 1)
    with pytest.raises(KeyboardInterrupt):
        build_index(request)
    assert len(read_index_files(tmp_path / "index")[1]) == then
    build_index(request)
    assert sum(encoded) == 32  # each new document once, and a probe by each command
    twin.check()
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"corpus": None}, "--corpus is missing"),
        ({"corpus": "add.jsonl"}, "not the corpus"),
        ({"index": "nothing"}, "no index"),
        ({"encoder": "other"}, "--encoder"),
        ({"index": "qdrant:points?collection=c"}, "collection"),
        ({"add": None, "delete": "all"}, "leave no document"),
        ({"add": None, "delete": "first.jsonl"}, "line 1 is no docid"),
    ],
)
def test_refusals_change_nothing(tiny, tmp_path, monkeypatch, changes, word):
    monkeypatch.chdir(tmp_path)
    twin = Twin(tmp_path, tiny, {"a": "one", "b": "two"}, factory="HNSW8,SQ8")
    (tmp_path / "all").write_text("a\nb\n")
    before = content(tmp_path / "index")
    given = {"index": twin.index, "corpus": "first.jsonl", "add": write(tmp_path / "add.jsonl", {"c": "three"})}
    with pytest.raises(TourError, match=word):
        build_index(IndexRequest(**{**given, **changes}))
    (tmp_path / "one").write_text("a\n")
    with pytest.raises(TourError, match="nothing can be deleted"):
        build_index(IndexRequest(index=twin.index, corpus="first.jsonl", delete="one"))
    assert content(tmp_path / "index") == before and not list(tmp_path.glob("*.partial"))
