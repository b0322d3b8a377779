"""Models that bring Python code along: never run unless the user says so in that call."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.support.model_files import check_code

CODE = """
from pathlib import Path
from transformers import BertConfig, BertForSequenceClassification

Path({witness!r}).write_text("it ran")

class OwnConfig(BertConfig):
    model_type = "own-bert"

class OwnModel(BertForSequenceClassification):
    config_class = OwnConfig

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.logits = output.logits + 7
        return output
"""


@pytest.fixture
def own_code(bert_folder, tmp_path, monkeypatch):
    """A cross-encoder whose own code adds 7 to its logits."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = bert_folder("own_code")
    (folder / "own.py").write_text(CODE.format(witness=str(tmp_path / "witness")))
    config = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "own-bert", "auto_map": classes}))
    return folder


@pytest.mark.parametrize("model_type", ["own-bert", "bert"])
def test_it_is_refused_in_one_sentence_even_if_transformers_has_similar_code(own_code, tmp_path, model_type):
    config = json.loads((own_code / "config.json").read_text())
    (own_code / "config.json").write_text(json.dumps(config | {"model_type": model_type}))
    with pytest.raises(TourError, match=r"own_code brings Python code of its own .*--trust-remote-code"):
        load_reranker(own_code)
    assert not (tmp_path / "witness").exists()


def test_it_is_run_on_request_and_is_part_of_the_fingerprint(own_code, bert_folder, tmp_path, pairs):
    trusted = load_reranker(own_code, trust_remote_code=True)
    assert (tmp_path / "witness").exists()
    np.testing.assert_allclose(trusted.predict(pairs), load_reranker(bert_folder()).predict(pairs) + 7, atol=1e-4)
    with (own_code / "own.py").open("a") as file:
        file.write("# changed\n")
    assert load_reranker(own_code, trust_remote_code=True).fingerprint != trusted.fingerprint


def test_modules_and_tokenizers_with_own_code_are_refused(bert_folder):
    folder = bert_folder()
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "own.Transformer"}]))
    with pytest.raises(TourError, match=r"own\.Transformer in modules\.json.*--trust-remote-code"):
        load_reranker(folder)
    (folder / "modules.json").unlink()
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps(settings | {"auto_map": {"AutoTokenizer": ["own.T", None]}})
    )
    with pytest.raises(TourError, match=r"auto_map in tokenizer_config\.json.*--trust-remote-code"):
        load_reranker(folder)


def test_a_path_outside_the_folder_is_refused(bert_folder):
    folder = bert_folder()
    module = {"idx": 0, "name": "0", "path": "../other", "type": "sentence_transformers.base.modules.Dense"}
    (folder / "modules.json").write_text(json.dumps([module]))
    with pytest.raises(TourError, match="not in the folder"):
        load_reranker(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "processor_config.json"])
def test_code_that_a_module_asks_for_is_refused_too(tmp_path, name):
    (tmp_path / "0_Transformer").mkdir()
    (tmp_path / "0_Transformer" / name).write_text('{"auto_map": {"AutoModel": "own.Model"}}')
    with pytest.raises(TourError, match=f"auto_map in 0_Transformer/{name}"):
        check_code(tmp_path, trusted=False)
    check_code(tmp_path, trusted=True)
