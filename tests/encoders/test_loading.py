"""Encoders of every family give the vectors of their library, or one sentence: the table of docs/models.md."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from model_hub import serve
from tiny_models import (
    SIZES,
    WORDS,
    change_json,
    save_modules,
    save_static,
    save_tokenizer,
    save_transformer,
    with_code,
    with_prompts,
)

from tour_pyserini.encoders.graph_runner import GraphRunner
from tour_pyserini.encoders.loading import encoder_fingerprint, load_document_encoder, load_query_encoder
from tour_pyserini.errors import TourError

TEXTS = ["a b c", "d", "e f g h i j k l m n o p a b c d", "b " * 100, "  C  a ", "zz not known", "a b c \n"]
pytestmark = pytest.mark.usefixtures("module_cache")

INSTRUCTION = {"query": "find a passage: ", "document": ""}
BOTH = {"query": "query: ", "document": "passage: "}


def without_its_prompt(folder):
    save_modules(folder, "bert", norm=False, include_prompt=False)
    return with_prompts(folder, {"query": "find a ", "document": "passage: "})


def shorter_than_its_prompt(folder):
    with_prompts(save_modules(folder, "bert"), {"query": "find a b c d e f g h "})
    change_json(folder / "sentence_bert_config.json", max_seq_length=6)


def in_a_subfolder(folder):
    save_modules(folder, "bert")
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        if path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(inner / path.name)
    text = (folder / "modules.json").read_text().replace('"path": ""', '"path": "0_Transformer"')
    (folder / "modules.json").write_text(text)


def padded_on_the_right(folder):
    save_modules(folder, "qwen3", pooling="lasttoken")
    change_json(folder / "tokenizer_config.json", padding_side="right")


def positions_from_the_left(folder):
    """Padded on the left, where GPT-2 begins to count positions: padding changes its vectors."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    plain = folder.with_name(f"{folder.name}-plain")
    torch.manual_seed(3)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 66, "bos_token_id": 2, "eos_token_id": 3}
    config = transformers.GPT2Config(vocab_size=len(WORDS), pad_token_id=0, **sizes)
    transformers.GPT2Model(config).save_pretrained(plain)
    save_tokenizer(plain, ends="after", side="left")
    SentenceTransformer(modules=[Transformer(str(plain)), Pooling(32, "lasttoken")], device="cpu").save(str(folder))


def default_prompt(folder):
    with_prompts(save_modules(folder, "bert"), {"query": "query: ", "x": "find "}, "x")


# name -> how its folder is made (or the arguments of save_modules), whether the graph runs it, its prompts
FAMILIES = {
    "BERT, mean, norm": ({"kind": "bert"}, True, []),
    "XLM-R, cls, norm": ({"kind": "xlm-roberta", "pooling": "cls"}, True, []),
    "MPNet, mean, norm": ({"kind": "mpnet"}, True, []),
    "ModernBERT, cls": ({"kind": "modernbert", "pooling": "cls", "norm": False}, True, []),
    "max and mean, Dense": ({"kind": "bert", "pooling": ("max", "mean"), "dense": 48}, True, []),
    "weighted mean": ({"kind": "qwen3", "pooling": "weightedmean"}, True, []),
    "Qwen3": ({"kind": "qwen3", "pooling": "lasttoken", "prompts": INSTRUCTION}, True, ["query"]),
    "Gemma, Dense": ({"kind": "gemma3_text", "dense": 48, "prompts": BOTH}, False, ["query", "document"]),
    "Matryoshka": ({"kind": "bert", "truncate_dim": 8}, True, []),
    "default prompt, one for queries": (default_prompt, True, ["query"]),
    "static": (save_static, False, []),
    "without its prompt": (without_its_prompt, False, ["query", "document"]),
    "shorter than its prompt": (shorter_than_its_prompt, True, ["query"]),
    "in a subfolder": (in_a_subfolder, True, []),
    "padded on the right": (padded_on_the_right, True, []),
    "positions from the left": (positions_from_the_left, None, []),
}


def close(actual, expected):
    assert actual.dtype == np.float32
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_a_name_and_an_object_give_the_librarys_vectors(family, tmp_path, monkeypatch):
    from sentence_transformers import SentenceTransformer

    (make, graph, prompted), folder = FAMILIES[family], tmp_path / "model"
    save_modules(folder, **make) if isinstance(make, dict) else make(folder)
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"})
    for role in prompted:  # otherwise the test would not notice a forgotten prompt
        difference = getattr(model, f"encode_{role}")(TEXTS) - model.encode(TEXTS, prompt="")
        assert np.abs(difference).max() > 0.1
    queries, documents = (encode(TEXTS, batch_size=1) for encode in (model.encode_query, model.encode_document))
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: str(folder))
    for spec, options in ((folder, {"backend": "torch"}), (folder, {}), (model, {}), ("someone/some-model", {})):
        encoder = load_query_encoder(spec, **options)
        close(encoder.encode_batch(TEXTS), queries)
        assert np.array_equal(encoder.encode(TEXTS[2]), encoder.encode_batch(TEXTS)[2])
        close(load_document_encoder(spec, **options).encode(TEXTS), documents)
        if graph is not None and spec is folder:
            assert isinstance(encoder.runner, GraphRunner) is (graph and not options)


def test_a_folder_of_transformers_alone_is_pooled_as_it_is_said(tmp_path):
    import torch
    import transformers

    folder = save_transformer(tmp_path / "bare", "xlm-roberta")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    coded = tokenizer(TEXTS, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        states = transformers.AutoModel.from_pretrained(folder).eval()(**coded)[0]
    mask = coded["attention_mask"][..., None]
    mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    for backend in ("torch", "onnx"):
        close(load_query_encoder(folder, pooling="cls", backend=backend).encode_batch(TEXTS), states[:, 0].numpy())
        asked = load_document_encoder(folder, pooling="mean", l2_norm=True, backend=backend)
        close(asked.encode(TEXTS), mean.numpy())
    for load, options in ((load_query_encoder, {}), (load_query_encoder, {"cache": "q"}), (load_document_encoder, {})):
        with pytest.raises(TourError, match="--pooling mean"):
            load(folder, encoder_class="auto", **options)


def test_a_prefix_replaces_the_prompt_and_an_empty_one_removes_it(tmp_path):
    folder = save_modules(tmp_path / "model", "bert", prompts=BOTH)
    own, other, none = (load_query_encoder(folder, query_prefix=prefix) for prefix in (None, "find", ""))
    assert (own.prompt, other.prompt, none.prompt) == ("query: ", "find ", "")
    assert other.encode("a b") == pytest.approx(none.encode("find a b"), abs=1e-6)
    documents = load_document_encoder(folder)
    assert documents.prompt == "passage: " and documents.encode([]).shape == (0, 0)


@pytest.mark.parametrize(
    ("prompts", "default", "warned"),
    [
        ({"query": "query: ", "passage": "passage: "}, None, ["'passage'.*--prefix"]),
        ({"x": "find "}, "x", ["'x'.*--query-prefix", "'x'.*--prefix"]),
        ({"query": "query: ", "document": "passage: ", "x": "find "}, None, []),
    ],
)
def test_a_prompt_that_the_library_does_not_use_is_named(tmp_path, caplog, prompts, default, warned):
    folder = with_prompts(save_modules(tmp_path / "model", "bert"), prompts, default)
    load_document_encoder(folder, prefix="passage:")
    assert caplog.messages == [], "a prefix decides"
    load_query_encoder(folder)
    load_document_encoder(folder)
    assert all(re.search(*found) for found in zip(warned, caplog.messages, strict=True))


def test_functions_and_other_encoders_can_be_given():
    def lengths(texts):
        return [[len(text), 1.0] for text in texts]

    own = load_query_encoder(lengths)
    assert own.encode_batch(["ab", "abc"]).tolist() == [[2, 1], [3, 1]] and load_query_encoder(own) is own
    assert load_document_encoder(lengths, prefix="x:").encode(["ab"], titles=["T"]).tolist() == [[7, 1]]


def test_static_embeddings_of_model2vec(tmp_path):
    model2vec = pytest.importorskip("model2vec")
    from tokenizers import Tokenizer

    save_tokenizer(tmp_path / "tokens")
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokens" / "tokenizer.json"))
    model = model2vec.StaticModel(vectors, tokenizer, config={"normalize": True})
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    expected = model.encode(["a b", "c"])
    assert load_query_encoder(folder).encode_batch(["a b", "c"]) == pytest.approx(expected, abs=1e-6)
    (folder / "modules.json").unlink(missing_ok=True)
    assert load_document_encoder(folder).encode(["a b", "c"]) == pytest.approx(expected, abs=1e-6)
    assert load_query_encoder(folder, truncate_dim=3).encode("a").shape == (3,)
    for options, word in (({"pooling": "mean"}, "pooling"), ({"backend": "onnx"}, "--encoder-backend torch")):
        with pytest.raises(TourError, match=word):
            load_query_encoder(folder, **options)


def test_other_numbers_are_close_and_are_recorded(tmp_path):
    folder = save_modules(tmp_path / "model", "bert")
    exact, encoder = load_document_encoder(folder).encode(TEXTS), load_document_encoder(folder, dtype="bfloat16")
    vectors = encoder.encode(TEXTS)
    assert (encoder.settings["dtype"], vectors.dtype) == ("bfloat16", np.float32)
    assert 1e-6 < np.abs(vectors - exact).max() < 0.05
    small = load_document_encoder(folder, precision="int8")
    assert 0.9 < (exact * small.encode(TEXTS)).sum(axis=1).min() < 0.99999 and small.settings["precision"] == "int8"


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_a_tokenizer_may_be_another_one(tmp_path, backend):
    folder, tokens = save_modules(tmp_path / "model", "bert"), tmp_path / "tokens"
    save_tokenizer(tokens, length=4)  # the length stays that of the model
    own, other = (load_query_encoder(folder, tokenizer=t, backend=backend) for t in (None, str(tokens)))
    assert np.array_equal(own.encode("a b c d e f"), other.encode("a b c d e f"))
    text = (tokens / "tokenizer.json").read_text().replace('"a": 4', '"b": 4').replace('"b": 5', '"a": 5')
    (tokens / "tokenizer.json").write_text(text)
    swapped = load_query_encoder(folder, tokenizer=str(tokens), backend=backend)
    close(swapped.encode("a a b"), own.encode("b b a"))


@pytest.mark.parametrize(
    ("spec", "options", "word"),
    [
        (Path("nowhere"), {}, "nowhere' does not exist"),
        ("./nowhere", {"encoder_class": "dpr"}, "does not exist"),
        ("default", {"encoder_class": "zz"}, "choose one of"),
        *(("some/model", {"encoder_class": name}, "--trust-remote-code") for name in ("qwen3", "dse")),
        ("some/model", {"encoder_class": "dpr", "truncate_dim": 8}, "--truncate-dim"),
        ("some/model", {"encoder_class": "dpr", "precision": "int8"}, "int8"),
        ("default", {"backend": "onnx", "encoder_class": "dpr"}, "--encoder-backend torch"),
        ("default", {"backend": "onnx", "device": "cuda"}, "--encoder-backend torch"),
        ("default", {"pooling": "eos"}, "'eos'"),
        ("default", {"truncate_dim": 500}, "384"),
        ("default", {"batch_size": 0}, "1 or more"),
        (len, {"pooling": "mean"}, "leave pooling out"),
        (3, {}, "int is no encoder"),
    ],
)
def test_what_cannot_be_loaded_is_refused(spec, options, word):
    for load in (load_query_encoder, load_document_encoder):
        with pytest.raises(TourError, match=word):
            load(spec, **options)
    with pytest.raises(TourError, match="tokenizer of the model"):
        load_document_encoder("some/model", encoder_class="dpr", tokenizer="x")


def test_code_of_a_model_runs_only_if_it_is_trusted(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    folder = with_code(save_transformer(tmp_path / "bare", "bert"), mark)
    modular = save_modules(tmp_path / "modular", "bert")
    types = json.loads((modular / "modules.json").read_text())
    types[1]["type"] = "payload.Pooling"
    (modular / "modules.json").write_text(json.dumps(types))
    (modular / "payload.py").write_text(f"open({str(mark)!r}, 'w')")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: str(folder))
    for load in (load_query_encoder, load_document_encoder, encoder_fingerprint):
        for spec in (folder, modular, "some/qwen3-dse"):
            with pytest.raises(TourError, match="--trust-remote-code"):
                load(spec)
    assert not mark.exists()
    trusted = load_query_encoder(folder, trust_remote_code=True, pooling="cls", backend="torch")
    assert trusted.encode("a b").shape == (32,) and mark.exists()


def test_weights_in_the_old_format_are_downloaded_for_each_part_that_has_no_others(tmp_path, monkeypatch):
    import torch
    from safetensors.torch import load_file

    folder, snapshot = save_modules(tmp_path / "model", "bert", dense=SIZES["hidden_size"]), tmp_path / "snapshot"
    dense = folder / "2_Dense"
    torch.save(load_file(dense / "model.safetensors"), dense / "pytorch_model.bin")
    (dense / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"the same as model.safetensors")
    downloads = serve(folder, snapshot, monkeypatch)
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_: "modules.json")
    named = load_document_encoder("somebody/model", backend="torch").encode(TEXTS)
    assert np.array_equal(named, load_document_encoder(folder, backend="torch").encode(TEXTS))
    assert downloads == ["somebody/model"] * 2
    assert not (snapshot / "pytorch_model.bin").exists()
