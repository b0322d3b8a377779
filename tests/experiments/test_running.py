"""The experiment command on a small experiment."""

import gzip
import json
import re
import shlex
from pathlib import Path

import pytest
from small_experiment import definition

from tour_pyserini import search
from tour_pyserini.core import method as registry
from tour_pyserini.data.run_records import read_record
from tour_pyserini.errors import TourError
from tour_pyserini.experiment import main
from tour_pyserini.experiments import running
from tour_pyserini.experiments.definition import read_experiment
from tour_pyserini.index import demo_index

RUNS = ["flat.dense", "flat.rerank-3", "flat.rerank-6", "flat.hard", "pq.dense", "pq.rerank-3", "pq.rerank-6"]


def kept(small):
    return {path.name: path.stat().st_mtime_ns for path in small.runs.glob("*.trec.gz")}


def test_an_experiment_from_beginning_to_end(small, capsys, monkeypatch):
    real, requests = running.search, []

    def interrupted(request, **options):
        requests.append(request)
        if len(requests) == 2:
            raise KeyboardInterrupt
        return real(request, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(running, "search", interrupted)
        small.command()
    assert list(kept(small)) == ["letters.tiny.flat.dense.trec.gz"]
    assert small.command() == 0  # it is continued
    assert sorted(kept(small)) == sorted(f"letters.tiny.{run}.trec.gz" for run in RUNS)
    assert {path.name for path in (small.folder / "indexes").iterdir()} == {"letters.tiny.flat", "letters.tiny.pq"}
    first = capsys.readouterr()
    assert "6 runs made, 1 existed" in first.err
    # Four of the six judged topics, evenly spaced.
    judged = [line.split()[0] for line in (small.runs / "letters.qrels").read_text().splitlines()]
    assert list(dict.fromkeys(judged)) == ["q0", "q1", "q3", "q4"]
    assert "main: letters, tiny, exact" in first.out

    # Existing runs are not made again, but they are measured.
    before = kept(small)
    with monkeypatch.context() as patch:
        patch.setattr(running, "search", None)
        assert small.command() == 0
    again = capsys.readouterr()
    assert "0 runs made, 7 existed" in again.err
    assert again.out == first.out

    # The printed commands make the same runs, from freshly opened models.
    small.command("--dry-run", "--condition", "hard", "rerank-3")
    commands = [shlex.split(line)[2:] for line in capsys.readouterr().out.splitlines()]
    for _, *flags in (command for command in commands if command[0] == "tour_pyserini.search"):
        run = Path(flags[flags.index("--output") + 1])
        search.main([*flags, "--no-cache"])
        assert gzip.decompress(run.with_name(f"{run.name}.gz").read_bytes()) == run.read_bytes()
    assert read_record(small.runs / "letters.tiny.flat.hard.trec.gz")["costs"]["queries"] == 4  # of the six topics

    # The record has no path of this machine.
    record = (small.runs / "letters.tiny.pq.rerank-3.trec.gz.json").read_text()
    assert str(small.folder) not in record
    assert json.loads(record)["settings"].endswith("--method rerank --depth 3 --hits 20")

    # What changes is made again.
    changed = definition()
    changed["conditions"]["hard"]["flags"]["depth"] = 4
    small.write(changed)
    damaged = small.runs / "letters.tiny.pq.dense.trec.gz"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    small.command()
    after = kept(small)
    again = {name for name in before if after[name] != before[name]}
    assert again == {damaged.name, "letters.tiny.flat.hard.trec.gz"}
    (small.folder / "topics.tsv").write_text((small.folder / "topics.tsv").read_text().replace("q0\t", "q0\tj "))
    capsys.readouterr()
    small.command("--condition", "dense", "--index", "flat")
    assert "1 runs made, 0 existed" in capsys.readouterr().err
    corpus = small.folder / "corpus.jsonl"
    corpus.write_text(corpus.read_text() + '{"_id": "new", "title": "", "text": "a"}\n')
    with pytest.raises(TourError, match="built with another corpus"):
        small.command("--condition", "dense")


def test_dry_run_prints_the_commands_and_does_nothing(small, capsys):
    assert small.command("--dry-run", "--condition", "rerank", "--index", "pq") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines] == ["tour_pyserini.index"] * 2 + ["tour_pyserini.search"] * 2
    assert f"--factory PQ4x4 --vectors {small.folder}/indexes/letters.tiny.flat" in lines[1]
    assert lines[2].endswith(f"--output {small.runs}/letters.tiny.pq.rerank-3.trec")
    assert not (small.folder / "runs").exists() and not (small.folder / "indexes").exists()
    small.command("--list")
    main(["--list"])
    listed = capsys.readouterr().out
    assert "rerank-3: re-rank, depth 3" in listed and "demo\n" in listed


def test_wrong_files_are_refused_before_the_first_search(small, monkeypatch):
    monkeypatch.setattr(running, "search", None)
    alone = {"tables": {}, "figures": {}}
    for change, says in (
        ({"conditions": {"hard": {"flags": {"methd": "x"}}}}, "condition hard: .*--methd"),
        ({"conditions": {"hard": {"flags": {"method": "hard", "tau": -1}}}}, "condition hard: tau"),
        ({"conditions": {"hard": {"flags": {"trace": "/x"}}}}, "may not give --trace"),
        ({"conditions": {"hard": {"flags": {"depth": "${NOWHERE}"}}}}, "variable NOWHERE"),
        ({"encoders": {"tiny": {"index": {"overwrite": True}}}}, "may not give --overwrite"),
        ({"plugins": ["nowhere.py"]}, "nowhere.py is not a Python file"),
    ):
        small.write(definition() | alone | change)
        with pytest.raises(TourError, match=says):
            small.command()
    assert not (small.folder / "indexes").exists()
    with pytest.raises(TourError, match="--report and --pack"):
        small.command("--report", "--pack")


def test_a_plugin_of_the_file_registers_a_method(small, capsys, monkeypatch):
    monkeypatch.setitem(registry._METHODS, "mine", None)  # what is registered is gone after the test
    monkeypatch.delitem(registry._METHODS, "mine")
    (small.folder / "mine.py").write_text(
        "from dataclasses import replace\n"
        "from tour_pyserini.core.method import METHODS, register_method\n"
        "register_method(replace(METHODS['dense'], name='mine', version=3))\n"
    )
    mine = {"plugins": ["mine.py"], "conditions": {"mine": {"flags": {"method": "mine"}}}, "tables": {}, "figures": {}}
    small.write(definition() | mine)
    assert small.command("--index", "flat") == 0
    assert "1 runs made, 0 existed" in capsys.readouterr().err
    assert small.command("--dry-run") == 0 and "tour_pyserini.search --plugin mine.py " in capsys.readouterr().out
    assert small.command("--write-expected", "--index", "flat") == 0
    assert "mine: {method: mine, version: 3, " in small.file.read_text()
    small.file.write_text(small.file.read_text().replace("version: 3", "version: 2"))
    capsys.readouterr()
    assert small.command("--index", "flat") == 0
    assert "0 FAIL, 0 new, 2 stale\n2 scores are stale" in capsys.readouterr().out


def test_report_expected_scores_and_archives(small, capsys):
    with pytest.raises(TourError, match="no runs"):
        small.command("--report")
    small.command("--index", "flat")
    small.file.write_text("# a comment that stays\n" + small.file.read_text())
    small.command("--write-expected")
    text = small.file.read_text()
    assert text.startswith("# a comment that stays\n") and "hard: {method: hard, version: 1, " in text
    small.command("--write-expected")
    assert small.file.read_text() == text

    capsys.readouterr()
    report = small.folder / "report"
    assert small.command("--report", "--output", str(report)) == 0
    out = capsys.readouterr().out
    assert "scores as expected: 8 ok, 0 okish, 0 FAIL, 0 new, 0 stale\n" in out
    assert max(map(len, out.splitlines())) <= 100
    assert {path.name for path in report.iterdir()} == {"tables.txt", "tables.md", "tables.tex", "labels.png"}
    assert (report / "labels.png").read_bytes().startswith(b"\x89PNG")
    before = {path.name: path.read_bytes() for path in report.iterdir()}

    # The same report from archives alone.
    small.command("--pack")
    for path in small.runs.glob("*.trec.gz*"):
        path.unlink()
    assert small.command("--report", "--output", str(report)) == 0
    assert {path.name: path.read_bytes() for path in report.iterdir()} == before
    capsys.readouterr()
    small.command("--index", "flat")
    assert "0 runs made, 4 existed" in capsys.readouterr().err

    expected = read_experiment(small.file).expected["letters.tiny.flat"]["hard"]["nDCG@10"]
    wrong = f"hard: {{method: hard, version: 1, nDCG@10: {expected - 0.01:.4f}"
    small.file.write_text(text.replace(f"hard: {{method: hard, version: 1, nDCG@10: {expected}", wrong))
    assert small.command("--report") == 1
    assert f"hard nDCG@10: {expected:.4f} [FAIL] expected {expected - 0.01:.4f}" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "conditions", [["dense", "rerank-5"], pytest.param(["rocchio", "default"], marks=pytest.mark.long)]
)
def test_the_demo_has_its_expected_scores(tmp_path, monkeypatch, capsys, conditions):
    (tmp_path / "indexes").mkdir()
    (tmp_path / "indexes" / "demo.minilm.flat").symlink_to(demo_index())  # built on first use and kept
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    flags = ["--runs", str(tmp_path / "runs"), "--indexes", str(tmp_path / "indexes")]
    assert main(["demo", *flags, "--index", "flat", "--condition", *conditions]) == 0
    # The default re-ranker computes in 8 bits, and processors round differently; the other scores are exact.
    assert re.search(r"expected: [3-6] ok, [0-3] okish, 0 FAIL, 0 new, 0 stale\n", capsys.readouterr().out)
