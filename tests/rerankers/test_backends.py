import sys

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import backends, load_reranker
from tour_pyserini.rerankers.cross_encoders import choose_backend
from tour_pyserini.rerankers.local_reranker import Options
from tour_pyserini.support import quantise
from tour_pyserini.support.files import cache_home

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))


def graphs():
    return sorted((cache_home() / "graphs").glob("*.onnx"))


def test_onnx_and_torch_give_the_same_scores_under_different_fingerprints(bert_folder, pairs):
    folder = bert_folder()
    onnx, plain = (load_reranker(folder, backend=backend) for backend in ("onnx", "torch"))
    assert (onnx.backend, plain.backend) == ("onnx", "torch")
    np.testing.assert_allclose(onnx.predict(pairs), plain.predict(pairs), atol=1e-5)
    assert onnx.fingerprint != plain.fingerprint


WORDS = {"vocab_size": 32, "num_labels": 1, "pad_token_id": 0, "initializer_range": 0.5, "max_position_embeddings": 70}
SIZES = WORDS | {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
MODELS = {
    "roberta": SIZES,
    "electra": SIZES,
    "distilbert": WORDS | {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
    "albert": SIZES | {"embedding_size": 16},
    "deberta-v2": SIZES | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0},
    "modernbert": SIZES | {"global_attn_every_n_layers": 1},
}


@pytest.mark.parametrize("kind", MODELS)
def test_onnx_and_torch_agree_for_other_architectures(kind, bert_folder, pairs):
    transformers = pytest.importorskip("transformers")
    folder = bert_folder()
    torch.manual_seed(5)
    config = transformers.AutoConfig.for_model(kind, **MODELS[kind])
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    onnx, plain = (load_reranker(folder, backend=backend).predict(pairs) for backend in ("onnx", "torch"))
    assert np.ptp(plain) > 0.01
    np.testing.assert_allclose(onnx, plain, rtol=1e-4, atol=1e-4)


def test_the_score_of_a_graph_depends_only_on_its_pair(bert_folder, pairs):
    folder = bert_folder()
    for precision in ("fp32", "int8"):
        scores = load_reranker(folder, backend="onnx", precision=precision).predict(pairs)
        other = load_reranker(folder, backend="onnx", precision=precision, threads=3, batch_size=7)
        assert other.predict(pairs[::-1]).tolist() == scores[::-1].tolist()
        assert [other.predict([pair])[0] for pair in pairs] == scores.tolist()


def test_a_checkpoint_is_exported_once(bert_folder, own_cache, monkeypatch, pairs):
    folder = bert_folder()
    first = load_reranker(folder, backend="onnx").predict(pairs)
    monkeypatch.setattr(backends, "read_model", lambda *_: pytest.fail("the model was read again"))
    assert load_reranker(folder, backend="onnx", max_length=40).backend == "onnx"
    assert load_reranker(folder, backend="onnx").predict(pairs).tolist() == first.tolist()
    assert len(graphs()) == 1


def test_a_damaged_graph_is_exported_again(bert_folder, own_cache, pairs):
    folder = bert_folder()
    first = load_reranker(folder, backend="onnx").predict(pairs)
    (graph,) = graphs()
    graph.write_bytes(graph.read_bytes()[:-100])
    assert load_reranker(folder, backend="onnx").predict(pairs).tolist() == first.tolist()


def test_8_bit_scores_are_close_to_fp32_under_another_fingerprint(bert_folder, pairs):
    folder = bert_folder()
    exact, small = (load_reranker(folder, backend="onnx", precision=precision) for precision in ("fp32", "int8"))
    expected, actual = exact.predict(pairs), small.predict(pairs)
    assert 0 < np.abs(actual - expected).max() < 0.2 * np.ptp(expected)
    assert small.fingerprint != exact.fingerprint
    assert load_reranker(folder, precision="int8").fingerprint == small.fingerprint


def test_the_8_bit_fingerprint_depends_on_the_processor(bert_folder, monkeypatch):
    folder = bert_folder()
    prints = set()
    for flags in (("avx2",), ("avx2", "avx512_vnni"), None):
        monkeypatch.setattr(quantise, "cpu_flags", lambda flags=flags: flags)
        prints.add(load_reranker(folder, precision="int8").fingerprint)
    assert len(prints) == 2  # weights have 7 bits if 8 could overflow or the processor is unknown


def test_an_fp32_graph_is_quantised_and_a_quantised_graph_is_refused_for_fp32(bert_folder, tmp_path, own_cache, pairs):
    folder, graph_folder = bert_folder(), tmp_path / "graph"
    exact, small = load_reranker(folder, backend="onnx"), load_reranker(folder, precision="int8")
    graph_folder.mkdir()
    (graph,) = (path for path in graphs() if not quantise.is_dynamically_quantised(path))
    (graph_folder / "model.onnx").write_bytes(graph.read_bytes())
    (graph_folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    plain, eight = load_reranker(graph_folder), load_reranker(graph_folder, precision="int8")
    fits = [pair for pair in pairs if len(" ".join(pair).split()) < 60]
    assert plain.predict(fits).tolist() == exact.predict(fits).tolist()
    assert eight.predict(fits).tolist() == small.predict(fits).tolist()
    assert eight.fingerprint != plain.fingerprint
    (graph_folder / "model.onnx").write_bytes(
        next(p for p in graphs() if quantise.is_dynamically_quantised(p)).read_bytes()
    )
    with pytest.raises(TourError, match="8-bit"):
        load_reranker(graph_folder, precision="fp32")


def test_a_graph_with_other_logits_is_refused(bert_folder, own_cache, monkeypatch, caplog):
    from tour_pyserini.rerankers import onnx_export as export

    run = export.OnnxClassifier.__call__
    monkeypatch.setattr(export.OnnxClassifier, "__call__", lambda self, batch: run(self, batch) + 0.01)
    folder = bert_folder()
    with pytest.raises(TourError, match="other logits"):
        load_reranker(folder, backend="onnx")
    monkeypatch.setattr(backends, "cpu_flags", lambda: ("avx2",))
    assert load_reranker(folder).backend == "torch"
    assert "other logits" in caplog.text
    assert not graphs()


def test_a_model_that_cannot_be_exported_is_run_by_torch(bert_folder, own_cache, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(torch.onnx, "export", fail)
    monkeypatch.setattr(backends, "cpu_flags", lambda: ("avx2",))
    folder = bert_folder()
    reranker = load_reranker(folder)
    assert reranker.backend == "torch"
    assert "no such operator" in caplog.text
    assert reranker.fingerprint == load_reranker(folder, backend="torch").fingerprint
    with pytest.raises(TourError, match="no such operator"):
        load_reranker(folder, precision="int8")


@pytest.mark.parametrize(
    ("options", "flags", "installed", "expected"),
    [
        ({}, ("avx2", "avx512f"), True, "onnx"),
        ({}, ("avx2",), False, "torch"),
        ({}, (), True, "torch"),
        ({}, None, True, "torch"),
        ({"device": "cuda"}, ("avx2",), True, "torch"),
        ({"precision": "int8"}, None, False, "onnx"),
        ({"backend": "torch"}, ("avx2",), True, "torch"),
        ({"backend": "onnx"}, None, False, "onnx"),
    ],
)
def test_the_back_end_depends_on_device_processor_and_packages(monkeypatch, options, flags, installed, expected):
    monkeypatch.setattr(backends, "cpu_flags", lambda: flags)
    monkeypatch.setattr(backends, "find_spec", lambda _: object() if installed else None)
    assert choose_backend(Options(**options)) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"backend": "jax"},
        {"precision": "int4"},
        {"precision": "int8", "backend": "torch"},
        {"precision": "int8", "device": "cuda"},
    ],
)
def test_impossible_options_are_refused(wrong):
    with pytest.raises(TourError, match=r"give one of|use fp32"):
        load_reranker("default", **wrong)


def test_a_back_end_that_cannot_run_a_model_is_refused(onnx_folder, bert_folder):
    with pytest.raises(TourError, match="only by onnx"):
        load_reranker(onnx_folder(), backend="torch")
    with pytest.raises(TourError, match="use torch or cpu"):
        load_reranker(bert_folder(), backend="onnx", device="cuda")


def test_the_error_names_the_missing_package_onnx(bert_folder, own_cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(TourError, match=r'onnx.*pip install "tour_pyserini\[onnx\]"'):
        load_reranker(bert_folder(), backend="onnx")
