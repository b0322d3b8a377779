"""The experiment command on a small experiment."""

import gzip
import json
import os
import shlex
from string import Template

import pytest
from small_experiment import definition

from tour_pyserini import search
from tour_pyserini.data.records import read_costs
from tour_pyserini.errors import TourError
from tour_pyserini.experiments import running
from tour_pyserini.experiments.archive import read_records, write_packed
from tour_pyserini.experiments.definition import read_experiment

RUNS = [f"letters.tiny.{run}" for run in ("flat.dense", "flat.rerank-3", "flat.rerank-6", "flat.hard")] + [
    f"letters.tiny.pq.{run}" for run in ("dense", "rerank-3", "rerank-6")
]


def kept(small):
    return {path.name: path.stat().st_mtime_ns for path in small.runs.glob("*.trec.gz")}


def test_an_experiment_from_beginning_to_end(small, capsys, monkeypatch):
    assert small.command() == 0
    assert sorted(kept(small)) == sorted(f"{run}.trec.gz" for run in RUNS)
    assert {path.name for path in (small.folder / "indexes").iterdir()} == {"letters.tiny.flat", "letters.tiny.pq"}
    first = capsys.readouterr()
    assert "7 runs made, 0 existed" in first.err
    # Four of the six judged topics, evenly spaced.
    judged = [line.split()[0] for line in (small.runs / "letters.qrels").read_text().splitlines()]
    assert list(dict.fromkeys(judged)) == ["q0", "q1", "q3", "q4"]
    assert "main: letters, tiny, exact" in first.out

    # Existing runs are not made again, but they are measured.
    before = kept(small)
    with monkeypatch.context() as patch:
        patch.setattr(running, "search", None)
        assert small.command() == 0
    assert kept(small) == before
    again = capsys.readouterr()
    assert "0 runs made, 7 existed" in again.err
    assert again.out == first.out

    # The command of a run's record makes the same run, from freshly opened models.
    folders = {"DATA": small.folder, "INDEXES": small.folder / "indexes", "RUNS": small.folder}
    (small.folder / "letters.qrels").write_bytes((small.runs / "letters.qrels").read_bytes())
    for name in ("letters.tiny.flat.hard", "letters.tiny.pq.rerank-3"):
        record = json.loads((small.runs / f"{name}.trec.gz.json").read_text())
        command = Template(record["command"]).substitute(os.environ, **folders)
        assert command.startswith("python -m tour_pyserini.search ")
        search.main([*shlex.split(command)[3:], "--no-cache"])
        packed = gzip.decompress((small.runs / f"{name}.trec.gz").read_bytes())
        assert packed == (small.folder / f"{name}.trec").read_bytes()
    costs = read_costs(small.runs / "letters.tiny.flat.hard.trec.gz")
    assert costs is not None and costs.queries == 4  # of the six topics

    # The record has no path of this machine.
    record = (small.runs / "letters.tiny.pq.rerank-3.trec.gz.json").read_text()
    assert str(small.folder) not in record
    assert json.loads(record)["settings"].endswith("--method rerank --depth 3 --hits 20")

    _check_that_changes_make_runs_again(small, before, capsys)


def _check_that_changes_make_runs_again(small, before, capsys):
    changed = definition()
    changed["conditions"]["hard"]["flags"]["depth"] = 4
    small.write(changed)
    damaged = small.runs / "letters.tiny.pq.dense.trec.gz"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    small.command()
    after = kept(small)
    assert [name for name in before if after[name] != before[name]] == [
        name for name in before if name in (damaged.name, "letters.tiny.flat.hard.trec.gz")
    ]
    (small.folder / "topics.tsv").write_text((small.folder / "topics.tsv").read_text().replace("q0\t", "q0\tj "))
    capsys.readouterr()
    small.command("--condition", "dense", "--index", "flat")
    assert "1 runs made, 0 existed" in capsys.readouterr().err
    corpus = small.folder / "corpus.jsonl"
    corpus.write_text(corpus.read_text() + '{"_id": "new", "title": "", "text": "a"}\n')
    with pytest.raises(TourError, match="built from another corpus"):
        small.command("--condition", "dense")


def test_an_interrupted_experiment_is_continued(small, capsys, monkeypatch):
    real, requests = running.search, []

    def interrupted(request, **options):
        requests.append(request)
        if len(requests) == 2:
            raise KeyboardInterrupt
        return real(request, **options)

    monkeypatch.setattr(running, "search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small.command("--index", "flat")
    assert list(kept(small)) == ["letters.tiny.flat.dense.trec.gz"]
    small.command("--index", "flat")
    assert "3 runs made, 1 existed" in capsys.readouterr().err


def test_dry_run_prints_the_commands_and_does_nothing(small, capsys):
    assert small.command("--dry-run", "--condition", "rerank", "--index", "pq") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines] == ["tour_pyserini.index"] * 2 + ["tour_pyserini.search"] * 2
    assert f"--pq --pq-m 4 --pq-nbits 4 --vectors {small.folder}/indexes/letters.tiny.flat" in lines[1]
    assert lines[2].endswith(f"--output {small.runs}/letters.tiny.pq.rerank-3.trec")
    assert not (small.folder / "runs").exists() and not (small.folder / "indexes").exists()


def test_list_shows_the_parts_of_a_file_or_the_packaged_files(small, capsys):
    from tour_pyserini.experiment import main

    small.command("--list")
    assert "conditions (7 runs):\n  dense: dense\n  rerank-3: re-rank, depth 3" in capsys.readouterr().out
    main(["--list"])
    assert "demo\n" in capsys.readouterr().out
    with pytest.raises(TourError, match="no experiment is given"):
        main([])


def test_wrong_conditions_are_reported_before_the_first_search(small, monkeypatch):
    monkeypatch.setattr(running, "search", None)
    for flags, message in (
        ({"methd": "x"}, "the condition hard: there is no flag --methd"),
        ({"method": "hard", "tau": -1}, "the condition hard: tau must be"),
        ({"method": "dense", "tau": 1}, "the condition hard: the method dense has no setting 'tau'"),
        ({"method": "dense", "threads": "many"}, "the condition hard: --threads must be a whole number above 0"),
    ):
        values = definition()
        values["conditions"]["hard"]["flags"] = flags
        small.write(values)
        with pytest.raises(TourError, match=message):
            small.command()
    assert not (small.folder / "indexes").exists()


def test_report_expected_scores_archives_and_time(small, capsys):
    with pytest.raises(TourError, match="no runs that can be measured"):
        small.command("--report")
    small.command("--index", "flat")
    small.command("--time-labels", "--index", "flat")
    assert "letters, tiny: 0." in capsys.readouterr().err
    small.file.write_text("# a comment that stays\n" + small.file.read_text())
    small.command("--write-expected")
    text = small.file.read_text()
    assert text.startswith("# a comment that stays\n")
    small.command("--write-expected")
    assert small.file.read_text() == text

    capsys.readouterr()
    report = small.folder / "report"
    assert small.command("--report", "--output", str(report)) == 0
    assert "scores as expected: 8 ok, 0 okish, 0 FAIL, 0 new" in capsys.readouterr().out
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
    small.command("--unpack")
    assert small.command("--report", "--output", str(report)) == 0
    assert {path.name: path.read_bytes() for path in report.iterdir()} == before

    expected = read_experiment(small.file).expected["letters.tiny.flat"]["hard"]["nDCG@10"]
    small.file.write_text(
        text.replace(f'hard: {{"nDCG@10": {expected:.4f}', f'hard: {{"nDCG@10": {expected - 0.01:.4f}')
    )
    capsys.readouterr()
    assert small.command("--report") == 1
    assert (
        f"letters.tiny.flat hard nDCG@10: {expected:.4f} [FAIL] expected {expected - 0.01:.4f}"
        in capsys.readouterr().out
    )


def test_passages_are_judged_by_answers_if_there_are_no_qrels(small, capsys):
    values = definition()
    del values["collections"]["letters"]["qrels"], values["collections"]["letters"]["limit"]
    values["collections"]["letters"]["topics"] = "${DATA}/questions.jsonl"
    values |= {
        "measures": ["Success@20"],
        "indexes": {"flat": {}},
        "conditions": {"dense": {"flags": {"method": "dense"}}},
    }
    values |= {"tables": {}, "figures": {}}
    small.write(values)
    questions = [{"_id": "q1", "text": "a b", "answers": ["a"]}, {"_id": "q2", "text": "c d", "answers": ["nowhere"]}]
    (small.folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    assert small.command() == 0
    dense = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("dense"))
    assert dense.split()[1] == "0.5000"


def test_packing_some_runs_does_not_lose_the_others_of_the_archive(small):
    for condition in ("dense", "hard"):
        write_packed(
            b"q0 Q0 a 1 2.0 t\n", small.runs / f"letters.tiny.flat.{condition}.trec.gz", {"settings": condition}
        )
    small.command("--pack")
    archive = small.runs / "letters.tiny.flat.runs.xz"
    whole = archive.read_bytes()
    (small.runs / "letters.tiny.flat.hard.trec.gz").unlink()
    with pytest.raises(TourError, match="would lose 1 runs that are not files, such as hard; --unpack them first"):
        small.command("--pack")
    assert archive.read_bytes() == whole
    small.command("--unpack")
    small.command("--pack")
    assert list(read_records(archive)) == ["dense", "hard"]
