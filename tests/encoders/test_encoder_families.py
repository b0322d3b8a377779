"""Each family of encoders gives the vectors of transformers or sentence-transformers: the table of docs/models.md."""

import json

import numpy as np
import pytest
from tiny_models import save_modules, save_static, save_transformer, with_prompts

from tour_pyserini import index as index_command
from tour_pyserini import search as search_command
from tour_pyserini.encoders.graph_runner import GraphRunner
from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder

TEXTS = ["a b c", "d", "e f g h i j k l m n o p a b c d", "b " * 100, "  C  a ", "zz not known"]
INSTRUCTION = {"query": "find a passage: ", "document": ""}
BOTH = {"query": "query: ", "document": "passage: "}

# name -> (how its folder is made, whether the graph runs it)
FAMILIES = {
    "BERT, mean, norm": (lambda folder: save_modules(folder, "bert"), True),
    "BERT, cls": (lambda folder: save_modules(folder, "bert", pooling="cls", norm=False), True),
    "XLM-R, cls, norm": (lambda folder: save_modules(folder, "xlm-roberta", pooling="cls"), True),
    "MPNet, mean, norm": (lambda folder: save_modules(folder, "mpnet"), True),
    "ModernBERT, cls": (lambda folder: save_modules(folder, "modernbert", pooling="cls"), True),
    "max and mean together": (lambda folder: save_modules(folder, "bert", pooling=("max", "mean")), True),
    "weighted mean": (lambda folder: save_modules(folder, "qwen3", pooling="weightedmean"), True),
    "Qwen3, last token, instruction": (
        lambda folder: save_modules(folder, "qwen3", pooling="lasttoken", prompts=INSTRUCTION),
        True,
    ),
    "Gemma, Dense, prompts": (
        lambda folder: save_modules(folder, "gemma3_text", dense=48, prompts=BOTH),
        False,
    ),
    "BERT, Dense": (lambda folder: save_modules(folder, "bert", dense=48), True),
    "Matryoshka": (lambda folder: save_modules(folder, "bert", truncate_dim=8), True),
    "prompts of both": (lambda folder: with_prompts(save_modules(folder, "bert"), BOTH), True),
    "prompt of queries alone": (lambda folder: with_prompts(save_modules(folder, "bert"), {"query": "find "}), True),
    "default prompt, one for queries": (
        lambda folder: with_prompts(save_modules(folder, "bert"), {"query": "query: ", "x": "find "}, "x"),
        True,
    ),
    "static": (save_static, False),
}


PROMPTED = {
    "Qwen3, last token, instruction": ["query"],
    "Gemma, Dense, prompts": ["query", "document"],
    "prompts of both": ["query", "document"],
    "prompt of queries alone": ["query"],
    "default prompt, one for queries": ["query"],
}
"""Families with prompts, and for which texts they have one."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """The folder of a model, whether the graph runs it, and the model as its own library loads it."""
    from sentence_transformers import SentenceTransformer

    make, graph = FAMILIES[request.param]
    folder = make(tmp_path_factory.mktemp("models") / "model")
    model = SentenceTransformer(str(folder), device="cpu")
    for role in PROMPTED.get(request.param, ()):  # otherwise the tests below would not notice a forgotten prompt
        difference = getattr(model, f"encode_{role}")(TEXTS) - model.encode(TEXTS, prompt="")
        assert np.abs(difference).max() > 0.1
    return folder, graph, model


def close(actual, expected):
    assert actual.dtype == np.float32
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_a_folder_gives_the_librarys_vectors(family, backend):
    folder, graph, model = family
    queries, documents = (load(folder, backend=backend) for load in (load_query_encoder, load_document_encoder))
    assert isinstance(queries.runner, GraphRunner) is (graph and backend == "auto")
    close(queries.encode_batch(TEXTS), model.encode_query(TEXTS))
    close(documents.encode(TEXTS), model.encode_document(TEXTS))
    # A vector does not depend on what else is encoded.
    assert np.array_equal(queries.encode(TEXTS[2]), queries.encode_batch(TEXTS)[2])
    close(documents.encode(TEXTS[:1]), model.encode_document(TEXTS[:1]))


def test_a_name_on_the_hub_and_an_object_give_the_same(family, monkeypatch):
    import huggingface_hub

    folder, _, model = family
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(folder))
    for spec in ("someone/some-model", model):
        close(load_query_encoder(spec).encode_batch(TEXTS), model.encode_query(TEXTS))
        close(load_document_encoder(spec).encode(TEXTS), model.encode_document(TEXTS))


def test_the_commands_give_the_same(family, tmp_path):
    folder, _, model = family
    texts = ["a b c", "d e", "f g h i", "b o " * 60]
    rows = [{"_id": f"d{i}", "title": "", "text": text.strip()} for i, text in enumerate(texts)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "q.tsv").write_text("1\tc a\n2\td\n")
    index_command.main(["--corpus", str(tmp_path), "--index", str(tmp_path / "index"), "--encoder", str(folder)])
    words = ["--topics", "q.tsv", "--index", "index", "--method", "dense", "--output", "run.trec", "--no-cache"]
    search_command.main([str(tmp_path / word) if "." in word or word == "index" else word for word in words])
    expected = model.encode_query(["c a", "d"]) @ model.encode_document([row["text"] for row in rows]).T
    lines = [line.split() for line in (tmp_path / "run.trec").read_text().splitlines()]
    assert len(lines) == 8
    for topic, _, docid, _, score, _ in lines:
        assert float(score) == pytest.approx(expected[int(topic) - 1, int(docid[1:])], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_a_folder_of_transformers_alone_gives_its_first_token(tmp_path, kind):
    import torch
    import transformers

    folder = save_transformer(tmp_path / "bare", kind)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    coded = tokenizer(TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        states = transformers.AutoModel.from_pretrained(folder).eval()(**coded)[0]
    mask = coded["attention_mask"][..., None]
    mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    for backend in ("torch", "onnx"):
        close(load_query_encoder(folder, backend=backend).encode_batch(TEXTS), states[:, 0].numpy())
        asked = load_document_encoder(folder, pooling="mean", l2_norm=True, backend=backend)
        close(asked.encode(TEXTS), mean.numpy())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_other_numbers_are_close_and_are_recorded(tmp_path, dtype):
    folder = save_modules(tmp_path / "model", "bert", dense=48)
    exact = load_document_encoder(folder).encode(TEXTS)
    encoder = load_document_encoder(folder, dtype=dtype)
    assert encoder.settings["dtype"] == dtype
    vectors = encoder.encode(TEXTS)
    assert vectors.dtype == np.float32
    assert 1e-6 < np.abs(vectors - exact).max() < 0.05
