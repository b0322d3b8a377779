"""Building FAISS indexes and writing them."""

import faiss
import numpy as np
import pytest
from toy_collection import faiss_index

from tour_pyserini.errors import TourError
from tour_pyserini.stores import faiss_building
from tour_pyserini.stores.faiss_building import check_fit, write_faiss_index, write_index
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.index_folder import read_faiss


def some_vectors(count, dimension=8):
    return np.random.default_rng(2).normal(size=(count, dimension)).astype(np.float32)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"kind": "factory", "factory": "PQ3x4"}, "no index of 8 dimensions"),
        ({"kind": "factory", "factory": "PQ4x5"}, "32 centroids"),
        ({"kind": "hnsw", "hnsw_m": 1}, "--M 2"),
        *(({"kind": "factory", "factory": name}, "crashes") for name in ("IVF4_HNSW0,Flat", "PQ4x0", "IVF0,Flat")),
    ],
)
def test_settings_that_do_not_fit_are_refused(options, word):
    with pytest.raises(TourError, match=word):
        check_fit(16, 8, **options)


@pytest.mark.parametrize("factory", ["SQ8", "IVF4,Flat", "IVF4,PQ4x4", "PCA4,IVF2,Flat"])
def test_a_factory_string_builds_the_same_index_each_time(tmp_path, factory, monkeypatch):
    monkeypatch.setattr(faiss_building, "_SAMPLE", 100)  # fewer than there are
    monkeypatch.setattr(faiss_building, "ROWS", 70)
    vectors = some_vectors(300)
    for name in ("first", "second"):
        write_index(vectors, tmp_path / name, kind="factory", factory=factory, nprobe=3, threads=1)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    index = read_faiss(tmp_path / "first")
    assert (index.ntotal, index.d) == (300, 8)
    inverted = faiss.try_extract_index_ivf(index)
    assert inverted is None or inverted.nprobe == min(3, inverted.nlist)
    mapped = FaissIndex(read_faiss(tmp_path / "first", mapped=True))
    for mine, theirs in zip(mapped.search(vectors, 9), FaissIndex(index).search(vectors, 9), strict=True):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("factory", ["PQ4x4", "IVF4,PQ4x4", "PCA4,PQ2x4", "IVF4,PQ4x4,RFlat"])
def test_a_product_quantizer_gives_the_hits_of_faiss_without_polysemous_training(tmp_path, factory):
    vectors = some_vectors(300)
    theirs = faiss_index(factory, vectors)
    write_index(vectors, tmp_path / "ours", kind="factory", factory=factory, nprobe=1, threads=1)
    ours = read_faiss(tmp_path / "ours")
    for mine, other in zip(ours.search(vectors[:20], 9), theirs.search(vectors[:20], 9), strict=True):
        assert np.array_equal(mine, other)
    empty = check_fit(300, 8, kind="factory", factory=factory)
    inner = getattr(empty, "base_index", None) or getattr(empty, "index", None) or empty
    assert not faiss.downcast_index(inner).do_polysemous_training


@pytest.mark.parametrize("count", [1, 300])
def test_a_flat_index_written_from_its_vectors_has_the_bytes_of_faiss(tmp_path, count, monkeypatch):
    monkeypatch.setattr(faiss_building, "ROWS", 64)
    vectors = some_vectors(count)
    write_index(vectors, tmp_path / "streamed")
    index = faiss_index("Flat", vectors)
    write_faiss_index(index, tmp_path / "ours")
    faiss.write_index(index, str(tmp_path / "theirs"))
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    for kind in ("flat", "hnsw"):
        with pytest.raises(OSError, match="No space"):
            write_index(vectors, "/dev/full", kind=kind)
