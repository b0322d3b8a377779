"""Archives: all runs of a setup in one small file."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.data.run_records import record_path
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.running import Archive
from tour_pyserini.support.files import sha256

NAMES = st.text("abc019é-", min_size=1, max_size=4)
LISTS = st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=6, unique=True), min_size=1, max_size=4)


def run(folder, name, lists, **record):
    """A run with its record; the file has other scores than an archive."""
    path = folder / f"{name}.trec"
    lines = [f"{query} Q0 {docid} 1 {-0.25 * i:.6f} t\n" for query, ids in lists.items() for i, docid in enumerate(ids)]
    path.write_text("".join(lines))
    record = {"settings": name, "costs": {"pairs": 3}, "run": {"sha256": sha256(path)}, **record}
    record_path(path).write_text(json.dumps(record))
    return path


def docids(archive):
    found = {name: {} for name in archive.records}
    for name in archive.records:
        for hit in sorted(archive.stored_run(name), key=lambda hit: -hit.score):
            found[name].setdefault(hit.query_id, []).append(hit.doc_id)
    return found


@settings(max_examples=40, deadline=None)
@given(runs=st.dictionaries(st.sampled_from(["dense", "mix-30", "hard"]), LISTS, min_size=1))
def test_an_archive_has_the_order_of_hits_and_the_records_of_its_runs(tmp_path_factory, runs):
    folder = tmp_path_factory.mktemp("archive")
    paths = {name: run(folder, name, lists) for name, lists in runs.items()}
    archive = Archive(folder / "a.runs.xz")
    archive.write(paths)
    assert docids(archive) == runs
    assert archive.records == {name: {"settings": name, "costs": {"pairs": 3}} for name in runs}
    before = archive.path.read_bytes()
    Archive(archive.path).write(paths)
    assert archive.path.read_bytes() == before


def test_runs_that_only_the_archive_has_stay_in_it(tmp_path):
    archive = Archive(tmp_path / "a.runs.xz")
    archive.write({name: run(tmp_path, name, {"q": [name]}) for name in ("dense", "hard", "old")})
    changed = {"dense": run(tmp_path, "dense", {"q": ["b"]})}
    archive.write(changed, keep=["dense", "hard"])
    assert docids(archive) == {"dense": {"q": ["b"]}, "hard": {"q": ["hard"]}}
    archive.write(changed)
    assert list(archive.records) == ["dense"]
    other = run(tmp_path, "other", {"q": ["a"]}, run={"sha256": "0"})
    with pytest.raises(TourError, match="does not match its record"):
        archive.write({"other": other})
    assert list(Archive(archive.path).records) == ["dense"]
