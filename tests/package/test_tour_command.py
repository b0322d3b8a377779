"""The program `tour`: its sub-commands, names in help texts, --version, and Tab completion."""

import importlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

import tour_pyserini
from tour_pyserini.__main__ import COMMANDS, main, summary
from tour_pyserini.core import method as registry

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("numpy", "torch", "transformers", "faiss", "pyserini", "onnxruntime", "tqdm")


@pytest.fixture
def script(tmp_path):
    """A file like the one that pip makes for the entry point `tour`."""
    path = tmp_path / "tour"
    path.write_text("import sys\nfrom tour_pyserini.__main__ import tour\nsys.exit(tour())\n")
    return path


def run(*command, code=0, **variables):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **variables}
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_every_entry_module_is_a_sub_command_with_a_line_of_help(script):
    sources = {path.stem: path.read_text() for path in (ROOT / "tour_pyserini").glob("*.py")}
    entries = {name: source for name, source in sources.items() if '__name__ == "__main__"' in source}
    assert {command.replace("-", "_") for command in COMMANDS} == entries.keys() - {"__main__", "command"}
    lines = run(script, "--help").splitlines()
    for command in COMMANDS:
        assert "PYTHON_ARGCOMPLETE_OK" in entries[command][:1024], command
        assert f"  {command:<10}  {summary(command)}" in lines and len(summary(command)) <= 64


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_load_no_heavy_library_and_no_sub_command(flag):
    program = (
        "import sys\nfrom tour_pyserini.__main__ import main\n"
        f"try:\n    main([{flag!r}])\nexcept SystemExit:\n    print('loaded:', *sys.modules)"
    )
    loaded = run("-c", program).rpartition("loaded:")[2].split()
    assert not {*loaded} & {*HEAVY, *(f"tour_pyserini.{command}" for command in COMMANDS)}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fills_one_screen_and_every_command_has_a_version(command, capsys, monkeypatch):
    for name, method in [*registry._METHODS.items()]:  # without the plugins that other tests have loaded
        if not method.run.__module__.startswith("tour_pyserini."):
            monkeypatch.delitem(registry._METHODS, name)
    main = importlib.import_module(f"tour_pyserini.{command}").main
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit):
            main(["--help"])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 40 and max(map(len, lines)) < columns
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert (left.value.code, capsys.readouterr().out) == (0, f"tour_pyserini {tour_pyserini.__version__}\n")


def test_version_is_that_of_the_installed_package(monkeypatch):
    assert tour_pyserini.__version__ == importlib.metadata.version("tour_pyserini")
    monkeypatch.setattr(importlib.metadata, "version", Mock(side_effect=importlib.metadata.PackageNotFoundError))
    assert tour_pyserini.__version__ == "0+unknown"


def test_help_names_the_program_as_the_user_typed_it_and_a_sub_command_gives_its_exit_code(script):
    assert run(script, "cache", "stats", "--help").startswith("usage: tour cache stats [")
    assert run("-m", "tour_pyserini", "answers", "--help").startswith("usage: python -m tour_pyserini answers --")
    assert run("-m", "tour_pyserini.answers", "--help").startswith("usage: python -m tour_pyserini.answers --")
    run(script, "convert", "qrels", "--input", "absent.tsv", "--output", "absent.trec", code=2)


def test_without_a_known_sub_command_the_exit_code_is_2(capsys):
    assert main([]) == 2 and "COMMAND ..." in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(["serach"])
    assert left.value.code == 2 and "serach" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words", "expected"),
    [
        ("tour sea", 1, ["search"]),
        ("tour search --method r", 1, ["rerank", "rocchio"]),
        ("tour cache prune --unus", 1, ["--unused-for"]),
        ("python -m tour_pyserini search --met", 3, ["--method"]),
        ("python -m tour_pyserini.search --met", 3, ["--method"]),
    ],
)
def test_tab_completion(script, tmp_path, line, words, expected):
    """The protocol of argcomplete: the shell runs the program with these variables and reads the file."""
    pytest.importorskip("argcomplete")
    program = [script] if words == 1 else line.split()[1:3]
    found = tmp_path / "completions"
    own = {"": str(words), "_STDOUT_FILENAME": str(found), "_SUPPRESS_SPACE": "1", "_IFS": "\n", "_SHELL": "bash"}
    protocol = {f"_ARGCOMPLETE{name}": value for name, value in own.items()}
    assert run(*program, **protocol, COMP_LINE=line, COMP_POINT=str(len(line)), COMP_TYPE="9") == ""
    assert sorted(found.read_text().split("\n")) == expected
