"""Building FAISS indexes, and the folders they are written to."""

import fcntl

import numpy as np
import pytest

from tour_pyserini.data.records import version_of
from tour_pyserini.errors import TourError
from tour_pyserini.stores.faiss_building import build_index, check_fit
from tour_pyserini.stores.partial_vectors import PartialVectors
from tour_pyserini.support.files import atomic_folder

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


def test_a_partial_folder_that_another_process_removes_is_created_again(tmp_path, monkeypatch):
    folder = tmp_path / "p"
    first = PartialVectors(folder, SETTINGS)
    lock = fcntl.flock

    def lock_when_the_owner_has_finished(*options):
        monkeypatch.setattr(fcntl, "flock", lock)
        first.discard()
        lock(*options)

    monkeypatch.setattr(fcntl, "flock", lock_when_the_owner_has_finished)
    with PartialVectors(folder, SETTINGS) as second:
        second.append(["a", "b"], np.float32([[1, 2], [3, 4]]))
    assert (folder / "docid").read_text() == "a\nb\n"
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_versions_of_installed_and_missing_packages():
    assert version_of("numpy") == np.__version__
    assert version_of("no-such-package-at-all") is None
