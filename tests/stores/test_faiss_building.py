"""Building FAISS indexes, and the folders they are written to."""

import faiss
import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.stores import faiss_factory, faiss_writing
from tour_pyserini.stores.faiss_building import build_index, check_fit, write_index
from tour_pyserini.stores.faiss_index import FaissIndex
from tour_pyserini.stores.faiss_writing import write_faiss_index
from tour_pyserini.stores.index_files import read_faiss
from tour_pyserini.stores.partial_vectors import PartialVectors
from tour_pyserini.support.files import atomic_folder
from tour_pyserini.support.optional import version_of

SETTINGS = {"dimension": 2, "documents": 4, "chunk": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "pq", "pq_m": 3, "pq_nbits": 4}, "cannot be cut into 3 equal parts"),
        ({"kind": "pq", "pq_m": 4, "pq_nbits": 5}, "32 centroids .* there are 16"),
        ({"kind": "hnsw", "hnsw_m": 1}, "--M 2"),
        ({"kind": "tree"}, "there is no index kind 'tree'"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_and_during_building(options, message):
    with pytest.raises(TourError, match=message):
        check_fit(16, 8, **options)
    with pytest.raises(TourError, match=message):
        build_index(np.zeros((16, 8), np.float32), **options)


@pytest.mark.parametrize(
    "options", [{}, {"kind": "hnsw", "hnsw_m": 2, "ef_construction": 1}, {"kind": "pq", "pq_m": 4, "pq_nbits": 4}]
)
def test_settings_that_fit_build_an_index(options):
    check_fit(16, 8, **options)
    vectors = np.random.default_rng(1).normal(size=(16, 8)).astype(np.float32)
    assert build_index(vectors, **options, threads=1).ntotal == 16


def test_a_folder_is_replaced_only_with_overwrite(tmp_path):
    folder = tmp_path / "index"
    for name, overwrite in (("first", False), ("second", True)):
        with atomic_folder(folder, overwrite=overwrite) as new:
            for file in ("index", "docid"):
                (new / file).write_text(name)
    with pytest.raises(TourError, match="add --overwrite"), atomic_folder(folder, overwrite=False):
        pass
    assert (folder / "index").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_empty_folder_behind_a_symbolic_link_is_filled(tmp_path, overwrite):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with atomic_folder(tmp_path / "link", overwrite=overwrite) as new:
        (new / "index").touch()
    assert (tmp_path / "real" / "index").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"real", "link"}


def test_a_partial_folder_without_documents_accepts_other_settings(tmp_path):
    folder = tmp_path / "p"
    PartialVectors(folder, SETTINGS).close()  # as a killed process leaves it
    (folder / "vectors").write_bytes(b"half a chunk")
    (folder / "docid").write_bytes(b"a\nb")
    with PartialVectors(folder, SETTINGS | {"dimension": 1, "max_length": 8}) as partial:
        assert partial.done == 0
        partial.append(["a", "b"], np.float32([[1], [2]]))
        assert partial.vectors().tolist() == [[1], [2]]
    with pytest.raises(TourError, match="max_length was 8, now 9"):
        PartialVectors(folder, SETTINGS | {"dimension": 1, "max_length": 9})
    with PartialVectors(folder, SETTINGS | {"dimension": 1, "max_length": 8}) as partial:  # no lock is left
        assert partial.done == 2


def test_versions_of_installed_and_missing_packages():
    assert version_of("numpy") == np.__version__
    assert version_of("no-such-package-at-all") is None


def clustered(count, dimension=8):
    return np.random.default_rng(2).normal(size=(count, dimension)).astype(np.float32)


@pytest.mark.parametrize("factory", ["Flat", "SQ8", "SQfp16", "IVF4,Flat", "IVF4,SQ8", "IVF4,PQ4x4", "PCA4,IVF2,Flat"])
def test_a_factory_string_builds_the_same_index_each_time(tmp_path, factory, monkeypatch):
    monkeypatch.setattr(faiss_factory, "SAMPLE", 100)  # fewer than there are
    monkeypatch.setattr(faiss_factory, "ROWS_PER_ADD", 70)
    vectors = clustered(300)
    for name in ("first", "second"):
        write_index(vectors, tmp_path / name, kind="factory", factory=factory, nprobe=3, threads=1)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    index = read_faiss(tmp_path / "first")
    assert (index.ntotal, index.d) == (300, 8)
    assert FaissIndex(index).search(vectors[:5], 3).ids.shape == (5, 3)
    inverted = faiss.try_extract_index_ivf(index)
    assert inverted is None or inverted.nprobe == min(3, inverted.nlist)
    mapped = FaissIndex(read_faiss(tmp_path / "first", mapped=True))
    for mine, theirs in zip(mapped.search(vectors, 9), FaissIndex(index).search(vectors, 9), strict=True):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("factory", ["PQ4x4", "IVF4,PQ4x4", "PCA4,PQ2x4", "IVF4,PQ4x4,RFlat"])
def test_a_product_quantizer_gives_the_hits_of_faiss_without_polysemous_training(factory):
    vectors = clustered(300)
    theirs = faiss.index_factory(8, factory, faiss.METRIC_INNER_PRODUCT)
    theirs.train(vectors)
    theirs.add(vectors)
    ours = build_index(vectors, kind="factory", factory=factory, nprobe=1, threads=1)
    for mine, other in zip(ours.search(vectors[:20], 9), theirs.search(vectors[:20], 9), strict=True):
        assert np.array_equal(mine, other)
    inner = getattr(ours, "base_index", None) or getattr(ours, "index", None) or ours
    assert not faiss.downcast_index(inner).do_polysemous_training


def test_training_sees_a_sample_that_spreads_over_all_vectors(monkeypatch):
    monkeypatch.setattr(faiss_factory, "SAMPLE", 50)
    vectors = np.arange(2000, dtype=np.float32)[:, None]
    sample = faiss_factory._sample(vectors, "SQ8")[:, 0]
    assert len(set(sample.tolist())) == 50 and (np.diff(sample) > 0).all()
    assert sample.min() < 300 and sample.max() > 1700
    assert len(faiss_factory._sample(vectors, "IVF4,Flat")) == 4 * faiss_factory.SAMPLE_PER_CENTROID


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("Flot", "not an index of 8 dimensions that FAISS knows: could not parse index string Flot"),
        ("", "could not parse"),
        ("PQ3x4", "multiple of the number of subquantizers"),
        ("IVF17,Flat", "17 centroids, which need at least as many documents, but there are 16"),
        ("IVF99999999999999999999,Flat", "centroids"),
        ("PQ4", "256 centroids"),
        ("IVF0,Flat", "at least 1 list"),
        ("HNSW1", "at least 2 neighbours"),
        ("LSH", "not an index"),
    ],
)
def test_factory_strings_that_do_not_fit_are_refused_before_anything_is_encoded(factory, message):
    with pytest.raises(TourError, match=message):
        check_fit(16, 8, kind="factory", factory=factory)


def test_what_faiss_cannot_fill_is_one_sentence():
    with pytest.raises(TourError, match=r"FAISS cannot build --factory IDMap,Flat: .*; give another string"):
        build_index(clustered(16), kind="factory", factory="IDMap,Flat")


@pytest.mark.parametrize("count", [1, 70, 300])
def test_a_flat_index_written_from_its_vectors_has_the_bytes_of_faiss(tmp_path, count, monkeypatch):
    monkeypatch.setattr(faiss_writing, "_ROWS", 64)
    vectors = clustered(count)
    write_index(vectors, tmp_path / "streamed")
    write_faiss_index(build_index(vectors), tmp_path / "built")
    assert (tmp_path / "streamed").read_bytes() == (tmp_path / "built").read_bytes()
