"""Archives: all runs of a setup in one small file."""

import json
import lzma
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.core.config import TourConfig
from tour_pyserini.data.runs import read_rankings
from tour_pyserini.errors import TourError
from tour_pyserini.experiments.stored_runs import Archive, algorithm_of, is_current, read_record, write_stored_run

NAMES = st.text("abc019é-", min_size=1, max_size=4)
LISTS = st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=6, unique=True), min_size=1, max_size=4)


def packed(folder, name, lists):
    lines = [
        f"{query} Q0 {docid} {rank} {-0.25 * rank:.6f} t\n"
        for query, docids in lists.items()
        for rank, docid in enumerate(docids, start=1)
    ]
    write_stored_run("".join(lines).encode(), folder / f"{name}.trec.gz", {"settings": name, "costs": {"pairs": 3}})
    return folder / f"{name}.trec.gz"


@settings(max_examples=40, deadline=None)
@given(runs=st.dictionaries(st.sampled_from(["dense", "mix-30", "hard"]), LISTS, min_size=1))
def test_an_archive_has_the_order_of_hits_and_the_records_of_its_runs(tmp_path_factory, runs):
    folder = tmp_path_factory.mktemp("archive")
    paths = {name: packed(folder, name, lists) for name, lists in runs.items()}
    Archive(folder / "a.runs.xz").write(paths)
    archive = Archive(folder / "a.runs.xz")
    assert archive.docids == runs
    assert archive.records == {name: {"settings": name, "costs": {"pairs": 3}} for name in runs}
    before = (folder / "a.runs.xz").read_bytes()
    Archive(folder / "a.runs.xz").write(paths)
    assert (folder / "a.runs.xz").read_bytes() == before
    for name, lists in runs.items():
        scores: dict[str, list[float]] = {}
        for hit in archive.run(name):
            scores.setdefault(hit.query_id, []).append(hit.score)
        assert all(sorted(set(values), reverse=True) == values for values in scores.values())
        assert {query: [hit.doc_id for hit in hits] for query, hits in read_rankings(paths[name]).items()} == lists


def test_a_run_of_an_earlier_algorithm_is_not_current(monkeypatch):
    def current(config, **record):
        return is_current({"settings": "s", "config": str(config), **record}, settings="s", config=config, inputs={})

    hard = TourConfig("hard")
    assert current(hard, algorithm={"method": 1})
    later = TourConfig(replace(hard.chosen, version=2))
    assert not current(later, algorithm={"method": 1})
    assert current(later, algorithm={"method": 2})


def test_the_algorithm_of_a_record():
    assert algorithm_of({"config": "method=hard depth=10", "algorithm": {"method": 2, "scale": 1}}) == ("hard", 2)
    assert algorithm_of({"config": "method=hard depth=10"}) == ("hard", 1)
    assert algorithm_of({}) is algorithm_of(None) is None


def test_runs_that_only_the_archive_has_stay_in_it(tmp_path):
    archive = Archive(tmp_path / "a.runs.xz")
    runs = {name: packed(tmp_path, name, {"q": [name]}) for name in ("dense", "hard", "old")}
    archive.write(runs)
    changed = {"dense": packed(tmp_path, "dense", {"q": ["b"]})}
    archive.write(changed, keep=["dense", "hard"])
    assert archive.docids == {"dense": {"q": ["b"]}, "hard": {"q": ["hard"]}}
    archive.write(changed)
    assert list(archive.records) == ["dense"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("q1\tdense\ta b\n", "not an archive"),
        ('{"dense": {}}\nq1\tdense\n', "line 2"),
        ('{"dense": {}}\nq1\tmix\ta\n', "line 2"),
        (None, "cannot read"),
    ],
)
def test_damaged_archives_are_refused(tmp_path, content, says):
    archive = tmp_path / "a.runs.xz"
    archive.write_bytes(b"no xz" if content is None else lzma.compress(content.encode()))
    with pytest.raises(TourError, match=says):
        Archive(archive).docids  # noqa: B018 (reads the file)


def test_a_run_that_does_not_match_its_record_is_refused(tmp_path):
    run = packed(tmp_path, "dense", {"q": ["a"]})
    run.with_name("dense.trec.gz.json").write_text(json.dumps({"run": {"sha256": "0"}}))
    assert read_record(run) is None
    with pytest.raises(TourError, match="does not match its record"):
        Archive(tmp_path / "a.runs.xz").write({"dense": run})
    assert not (tmp_path / "a.runs.xz").exists() and Archive(tmp_path / "a.runs.xz").records == {}
