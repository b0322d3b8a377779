"""Vectors from ONNX Runtime agree with those of torch, also if threads share the tokenizer."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny_models import change_json, save_modules, save_transformer

from tour_pyserini.encoders import graph_runner
from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder
from tour_pyserini.encoders.sentence_model import TorchRunner
from tour_pyserini.errors import TourError
from tour_pyserini.support.onnx_graphs import write_graph

pytestmark = pytest.mark.usefixtures("module_cache")

pytest.importorskip("onnx")
tokenizers = pytest.importorskip("tokenizers")


def test_a_graph_with_other_vectors_is_refused_and_this_is_remembered(monkeypatch, tmp_path):
    folder = save_modules(tmp_path / "model", "bert")
    monkeypatch.setattr(graph_runner, "TOLERANCE", 0.0)
    with pytest.raises(TourError, match="--encoder-backend torch"):
        load_query_encoder(folder, backend="onnx")
    exports = []
    monkeypatch.setattr(graph_runner, "write_graph", lambda *args, **_: exports.append(args))
    with pytest.raises(TourError, match="other vectors"):
        load_query_encoder(folder, backend="onnx")
    assert isinstance(load_query_encoder(folder).runner, TorchRunner)  # auto: torch instead
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


def test_threads_that_ask_for_other_lengths_get_the_vectors_of_one_thread(tmp_path):
    """Also on the side on which the tokenizer cuts, and of what it makes of special words."""
    folder = save_modules(tmp_path / "model", "bert")
    change_json(folder / "tokenizer_config.json", truncation_side="left")
    encoder, torch = (load_document_encoder(folder, backend=backend) for backend in ("onnx", "torch"))
    texts, lengths = ["", "a", "a b c </s> d " * 9, "unknown a " * 3], [4, 9, 16, None]
    expected = [torch.encode(texts, max_length=length) for length in lengths]
    for each in (encoder, torch, pickle.loads(pickle.dumps(torch))):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda number: each.encode(texts, max_length=lengths[number % 4]), range(40)))  # noqa: B023
        for number, vectors in enumerate(found):
            assert np.array_equal(vectors, found[number % 4])
            assert vectors == pytest.approx(expected[number % 4], abs=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean", "last", "max"])
def test_a_folder_with_an_onnx_graph_alone_gives_the_vectors_of_its_model(tmp_path, pooling):
    import transformers

    folder = save_transformer(tmp_path / "model", "bert")
    asked = {"pooling": pooling, "l2_norm": pooling != "max"}
    texts = ["a b c", "d", "query: e f " * 40]
    expected = [load(folder, backend="torch", **asked) for load in (load_query_encoder, load_document_encoder)]
    expected = [expected[0].encode_batch(texts), expected[1].encode(texts=texts)]
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval().requires_grad_(False)

    example = np.ones((1, 5), dtype=np.int64)
    inputs = {"input_ids": example, "attention_mask": example}
    graph = folder / "model.onnx"
    write_graph(model, lambda named: model(**named).last_hidden_state, inputs, graph, output="last_hidden_state")
    (folder / "model.safetensors").unlink()
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(length=12)  # as published graphs often have it
    tokenizer.enable_truncation(5)
    tokenizer.save(str(folder / "tokenizer.json"))
    query, document = load_query_encoder(folder, **asked), load_document_encoder(folder, **asked)
    assert query.encode_batch(texts) == pytest.approx(expected[0], abs=1e-5)
    assert document.encode(texts=texts) == pytest.approx(expected[1], abs=1e-5)
    for bad in ({}, {**asked, "backend": "torch"}, {**asked, "pooling": "weighted"}):
        with pytest.raises(TourError, match="pooling"):
            load_query_encoder(folder, **bad)
