"""Vectors from ONNX Runtime agree with those of torch."""

import subprocess
import sys

import numpy as np
import pytest
from tiny_models import save_modules

from tour_pyserini.encoders import graph_runner, sentence_model
from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder
from tour_pyserini.errors import TourError

pytest.importorskip("onnx")
QUERIES = ["who wrote hamlet", "far?", "Zürich, 東京 and naïve résumés", "sea " * 700]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("options", [{}, {"pooling": "cls", "l2_norm": False}, {"query_prefix": "query:"}])
def test_vectors_agree_with_those_of_torch(options):
    torch, onnx = (load_query_encoder("default", backend=backend, **options) for backend in ("torch", "onnx"))
    vectors = onnx.encode_batch(QUERIES)
    assert (vectors.dtype, vectors.shape) == (np.float32, (4, 384))
    assert vectors == pytest.approx(torch.encode_batch(QUERIES), abs=1e-5)
    assert np.array_equal(onnx.encode(QUERIES[1]), vectors[1])
    assert onnx.encode(QUERIES[0], max_length=4) == pytest.approx(torch.encode(QUERIES[0], max_length=4), abs=1e-5)


def test_a_graph_with_other_vectors_is_refused_and_this_is_remembered(monkeypatch, tmp_path):
    folder = save_modules(tmp_path / "model", "bert")
    monkeypatch.setattr(graph_runner, "TOLERANCE", 0.0)
    with pytest.raises(TourError, match=r"gives other vectors.*--encoder-backend torch"):
        load_query_encoder(folder, backend="onnx")
    exports = []
    monkeypatch.setattr(graph_runner, "write_graph", lambda *args, **_: exports.append(args))
    with pytest.raises(TourError, match=r"gives other vectors"):
        load_query_encoder(folder, backend="onnx")
    assert isinstance(load_query_encoder(folder).runner, sentence_model.TorchRunner)  # auto: torch instead
    assert exports == []


def test_a_graph_is_opened_without_torch(tmp_path):
    folder = save_modules(tmp_path / "model", "bert", prompts={"query": "query: "})
    load_query_encoder(folder, backend="onnx")
    code = (
        "import sys; from tour_pyserini.encoders.loading import load_query_encoder\n"
        f"print(load_query_encoder({str(folder)!r}).encode('a b').shape)\n"
        "assert not {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "(32,)\n"), done.stderr


def test_8_bits_are_close_and_are_recorded():
    exact, small = (load_document_encoder("default", precision=name) for name in ("fp32", "int8"))
    texts = ["The Nobel Prize was first awarded in 1901.", "far", "a longer passage about the sea " * 8]
    similarity = (exact.encode(texts) * small.encode(texts)).sum(axis=1)
    assert 0.95 < similarity.min() < 0.99999
    assert small.settings["precision"] == "int8"
    with pytest.raises(TourError, match="int8 needs --encoder-backend onnx"):
        load_document_encoder("default", precision="int8", backend="torch")


def test_what_onnx_runtime_cannot_encode_is_refused():
    for options in (
        {"device": "cuda"},
        {"encoder_class": "dpr"},
        {"tokenizer": "bert-base-uncased"},
        {"dtype": "float16"},
    ):
        with pytest.raises(TourError, match="--encoder-backend torch"):
            load_query_encoder("default", backend="onnx", **options)
    with pytest.raises(TourError, match="unknown back end 'jax'"):
        load_query_encoder("default", backend="jax")
