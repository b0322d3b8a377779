import json
import shutil

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def one_at_a_time(folder, pairs, max_length=64):
    """Logits computed with transformers alone, without batches and padding."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = []
    for query, passage in pairs:
        coded = tokenizer([query], [passage], truncation="only_second", max_length=max_length, return_tensors="pt")
        with torch.no_grad():
            rows.append(model(**coded).logits[0].double().numpy())
    return np.array(rows)


@pytest.mark.parametrize("backend", ["onnx", "torch"])
@pytest.mark.parametrize("size", [None, 1, 5])
def test_one_logit_equals_a_plain_forward_pass(bert_folder, pairs, size, backend):
    folder = bert_folder()
    scores = load_reranker(folder, batch_size=size, backend=backend).predict(pairs)
    assert np.ptp(scores) > 0.1
    np.testing.assert_allclose(scores, one_at_a_time(folder, pairs)[:, 0], atol=1e-5)


def test_the_score_of_two_logits_is_the_log_odds(bert_folder, pairs):
    folder = bert_folder(labels=2)
    logits = one_at_a_time(folder, pairs)
    np.testing.assert_allclose(load_reranker(folder).predict(pairs), logits[:, 1] - logits[:, 0], atol=1e-5)


def test_three_logits_are_refused(bert_folder):
    folder = bert_folder(labels=3)
    with pytest.raises(TourError, match=f"{folder} gives 3 outputs"):
        load_reranker(str(folder))


def test_a_score_does_not_depend_on_order_or_other_pairs(bert_folder, pairs):
    reranker = load_reranker(bert_folder())
    scores = reranker.predict(pairs)
    order = np.random.default_rng(0).permutation(len(pairs))
    np.testing.assert_allclose(reranker.predict([pairs[index] for index in order]), scores[order], atol=1e-5)
    np.testing.assert_allclose(reranker.predict(pairs[:3]), scores[:3], atol=1e-5)
    assert reranker.predict([]).shape == (0,)


def test_a_model_with_few_positions_cuts_inputs_and_warns(bert_folder, pairs, caplog):
    folder = bert_folder(positions=16)
    scores = load_reranker(folder).predict(pairs)
    assert "at most 16 tokens, not 512" in caplog.text
    np.testing.assert_allclose(scores, one_at_a_time(folder, pairs, 16)[:, 0], atol=1e-5)


def test_the_number_of_torch_threads_is_restored(bert_folder):
    before = torch.get_num_threads()
    load_reranker(bert_folder(), threads=before + 1, backend="torch").predict([("who", "cat")])
    assert torch.get_num_threads() == before


def test_a_checkpoint_without_a_head_is_refused(bert_folder):
    folder = bert_folder()
    config = json.loads((folder / "config.json").read_text())
    transformers.BertModel(transformers.BertConfig(**config)).save_pretrained(folder)
    with pytest.raises(TourError, match=r"lacks .* weights .* bi-encoder"):
        load_reranker(folder)


def test_a_real_bi_encoder_is_refused(shared):
    with pytest.raises(TourError, match="gte-small is not a re-ranker"):
        load_reranker(shared / "models" / "gte-small")


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


def test_half_precision_weights_are_run_in_single_precision(bert_folder, pairs):
    folder = bert_folder()
    transformers.AutoModelForSequenceClassification.from_pretrained(folder).half().save_pretrained(folder)
    reranker = load_reranker(folder, backend="torch")
    assert {weight.dtype for weight in reranker._classifier.model.parameters()} == {torch.float32}
    assert np.isfinite(reranker.predict(pairs)).all()


def test_the_fingerprint_depends_on_content_and_length_but_not_on_the_path(bert_folder, tmp_path):
    folder = bert_folder()
    first = load_reranker(folder, max_length=32).fingerprint
    assert load_reranker(folder, max_length=33).fingerprint != first
    assert load_reranker(bert_folder("other", seed=1), max_length=32).fingerprint != first
    shutil.copytree(folder, tmp_path / "copy")
    assert load_reranker(tmp_path / "copy", max_length=32).fingerprint == first


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


def test_an_architecture_without_a_classifier_is_refused_by_its_name(bert_folder):
    folder = bert_folder()
    config = transformers.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    config.architectures = ["ViTForImageClassification"]
    config.save_pretrained(folder)
    with pytest.raises(TourError, match="is a ViTForImageClassification, which transformers does not run"):
        load_reranker(folder)
