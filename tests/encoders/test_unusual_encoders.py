"""Encoders that are unusual, incomplete or damaged give the vectors of their library, or one sentence."""

import re

import numpy as np
import pytest
from model_hub import serve
from tiny_models import SIZES, WORDS, change_json, save_modules, save_tokenizer, save_transformer, with_prompts

from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder
from tour_pyserini.errors import TourError

TEXTS = ["a b c", "d", "e f g h i j k l m n o p a b c d", "b " * 100, "  C  a ", "a b c \n"]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def save_parts(folder, *parts, kind="bert", pooling="mean", **settings):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    plain = save_transformer(folder.with_name(f"{folder.name}-plain"), kind)
    modules = [Transformer(str(plain)), Pooling(SIZES["hidden_size"], pooling, **settings), *parts]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    return folder


def without_its_prompt(folder):
    save_parts(folder, include_prompt=False)
    return with_prompts(folder, {"query": "find a ", "document": "passage: "})


def with_activation(folder):
    import torch
    from sentence_transformers.sentence_transformer.modules import Dense

    torch.manual_seed(4)
    return save_parts(folder, Dense(SIZES["hidden_size"], 16, activation_function=torch.nn.GELU()))


def shorter_than_its_prompt(folder):
    with_prompts(save_modules(folder, "bert"), {"query": "find a b c d e f g h "})
    change_json(folder / "sentence_bert_config.json", max_seq_length=6)
    return folder


def in_a_subfolder(folder):
    save_modules(folder, "bert")
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        if path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(inner / path.name)
    text = (folder / "modules.json").read_text().replace('"path": ""', '"path": "0_Transformer"')
    (folder / "modules.json").write_text(text)
    return folder


def stored_in_half_precision(folder):
    import transformers

    save_modules(folder, "bert")
    transformers.AutoModel.from_pretrained(folder).half().save_pretrained(folder)
    return folder


def padded_on_the_right(folder):
    save_modules(folder, "qwen3", pooling="lasttoken")
    change_json(folder / "tokenizer_config.json", padding_side="right")
    return folder


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
    return folder


UNUSUAL = [
    without_its_prompt,
    with_activation,
    shorter_than_its_prompt,
    in_a_subfolder,
    stored_in_half_precision,
    padded_on_the_right,
    positions_from_the_left,
]


@pytest.mark.parametrize("make", UNUSUAL, ids=lambda make: make.__name__)
def test_the_vectors_are_those_that_the_library_gives_each_text_alone(make, tmp_path):
    from sentence_transformers import SentenceTransformer

    folder = make(tmp_path / "model")
    model = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"})
    for encode, load in (("encode_query", load_query_encoder), ("encode_document", load_document_encoder)):
        expected = getattr(model, encode)(TEXTS, batch_size=1)
        for spec, options in ((folder, {"backend": "torch"}), (folder, {}), (model, {})):
            encoder = load(spec, **options)
            actual = encoder.encode_batch(TEXTS) if load is load_query_encoder else encoder.encode(TEXTS)
            assert np.abs(actual - expected).max() <= 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_weights_that_are_missing_are_not_random(tmp_path, backend):
    from safetensors.torch import load_file, save_file

    folder = save_modules(tmp_path / "model", "bert")
    weights = load_file(folder / "model.safetensors")
    # The head that the transformer itself pools with is not used.
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler.")}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    load_query_encoder(folder, backend=backend)
    kept.pop("encoder.layer.1.output.dense.weight")
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TourError, match=r"lacks 1 weights, such as encoder\.layer\.1\.output\.dense\.weight"):
        load_query_encoder(folder, backend=backend)


def test_a_tokenizer_without_padding_is_one_sentence(tmp_path):
    folder = save_modules(tmp_path / "model", "qwen3", pooling="lasttoken")
    change_json(folder / "tokenizer_config.json", pad_token=None)
    with pytest.raises(TourError, match=r"has no padding token.*add pad_token"):
        load_query_encoder(folder)


@pytest.mark.parametrize(
    ("prompts", "default", "warned"),
    [
        (
            {"query": "query: ", "passage": "passage: "},
            None,
            ["'passage' is not used.*'document'; give it with --prefix"],
        ),
        ({"x": "find "}, "x", ["'x' is not used.*'query'; give it with --query-prefix", "'x' is not used.*--prefix"]),
        ({"query": "query: "}, "query", []),
        ({"query": "query: ", "document": "passage: ", "x": "find "}, None, []),
    ],
)
def test_a_prompt_that_the_library_does_not_use_is_named(tmp_path, caplog, prompts, default, warned):
    folder = with_prompts(save_modules(tmp_path / "model", "bert"), prompts, default)
    load_query_encoder(folder, query_prefix="")
    load_document_encoder(folder, prefix="passage:")
    assert caplog.messages == [], "a prefix decides"
    load_query_encoder(folder)
    load_document_encoder(folder)
    assert len(caplog.messages) == len(warned)
    assert all(re.search(*found) for found in zip(warned, caplog.messages, strict=True))


def test_weights_in_the_old_format_are_downloaded_for_each_part_that_has_no_others(tmp_path, monkeypatch):
    import torch
    from safetensors.torch import load_file

    folder, snapshot = with_activation(tmp_path / "model"), tmp_path / "snapshot"
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


@pytest.mark.parametrize("kind", ["roberta", "camembert", "roberta-prelayernorm", "data2vec-text", "ibert"])
def test_positions_that_begin_after_the_padding_are_counted(tmp_path, kind):
    folder = save_transformer(tmp_path / "model", kind, max_position_embeddings=40)
    change_json(folder / "tokenizer_config.json", model_max_length=10**30)
    encoder = load_document_encoder(folder, backend="torch")
    assert encoder.fitting_length(None) == 39
    assert np.isfinite(encoder.encode(["b " * 100])).all()
