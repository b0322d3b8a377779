"""Query vectors from ONNX Runtime agree with those of torch."""

import numpy as np
import pytest

from tour_pyserini.encoders import onnx_encoder
from tour_pyserini.encoders.encoder_loading import load_query_encoder
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


def test_a_graph_with_other_vectors_is_refused(monkeypatch):
    monkeypatch.setattr(onnx_encoder, "GRAPH", "another")
    monkeypatch.setattr(onnx_encoder, "TOLERANCE", 0.0)
    with pytest.raises(TourError, match=r"gives other vectors.*--encoder-backend torch"):
        load_query_encoder("default", backend="onnx")


def test_what_onnx_runtime_cannot_encode_is_refused():
    for options in ({"device": "cuda"}, {"encoder_class": "dpr"}, {"tokenizer": "bert-base-uncased"}):
        with pytest.raises(TourError, match="--encoder-backend torch"):
            load_query_encoder("default", backend="onnx", **options)
    with pytest.raises(TourError, match="unknown back end 'jax'"):
        load_query_encoder("default", backend="jax")
