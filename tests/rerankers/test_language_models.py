"""Each family of re-rankers gives the scores that transformers or sentence-transformers give it, in any precision."""

import json

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import torch
import transformers
from model_hub import serve
from reranker_families import (
    CHAT_ONLY,
    DECODER,
    FAMILIES,
    LENGTH,
    PAIRS,
    answer_scores,
    classifier_scores,
    ids_of,
    qwen3_input,
    save_answers,
    save_model,
    t5_scores,
    tokenizer,
)

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.language_models import FAMILIES as PROMPTS
from tour_pyserini.rerankers.language_models import PromptTokens
from tour_pyserini.rerankers.loading import load_reranker, load_reranker_later
from tour_pyserini.support import model_files

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
HALF = ["bert", "qwen3-reranker", "LogitScore", "monot5"]


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_the_reference(family, saved):
    folder, row = saved(family), FAMILIES[family]
    expected = row.scores(folder, LENGTH)
    assert np.ptp(expected) > 0.05
    reranker = load_reranker(folder, max_length=LENGTH)
    assert reranker.engine == row.engine or row.engine is None
    np.testing.assert_allclose(reranker.predict(PAIRS), expected, **CLOSE)
    # alone, and in other batches
    np.testing.assert_allclose([reranker.predict([pair])[0] for pair in PAIRS], expected, **CLOSE)
    other = load_reranker(folder, max_length=LENGTH, batch_size=3, backend=row.other_backend)
    np.testing.assert_allclose(other.predict(PAIRS[::-1])[::-1], expected, **CLOSE)


@pytest.mark.parametrize("family", ["LogitScore", "qwen3-reranker"])
def test_a_name_on_the_hub_has_the_scores_of_its_folder(family, copied, tmp_path, monkeypatch):
    """Only the files that are asked for are there after a download."""
    folder, snapshot = copied(family), tmp_path / "snapshot"
    downloads = serve(folder, snapshot, monkeypatch)
    named = load_reranker("somebody/qwen3-reranker-1b-mine", max_length=LENGTH)
    np.testing.assert_allclose(named.predict(PAIRS), FAMILIES[family].scores(folder, LENGTH), **CLOSE)
    assert set(downloads) == {"somebody/qwen3-reranker-1b-mine"}
    assert not (snapshot / "plain").exists()


def swapped_answers(text):
    return text.replace("true_token", "other").replace("false_token", "true_token").replace("other", "false_token")


@pytest.mark.parametrize(
    ("family", "file", "change"),
    [
        ("qwen3 classifier, chat template", "chat_template.jinja", lambda text: text.replace("Judge", "Decide")),
        ("LogitScore", "1_LogitScore/config.json", swapped_answers),
        (
            "qwen3 classifier, by name",
            "config.json",
            lambda text: text.replace("1e-06", "1e-05"),
        ),
        ("default prompt", "config_sentence_transformers.json", lambda text: text.replace("search for", "find")),
    ],
)
def test_every_file_that_changes_scores_changes_the_fingerprint(family, file, change, copied):
    folder = copied(family)
    first = load_reranker_later(folder)
    assert load_reranker_later(folder).fingerprint == first.fingerprint
    before = (folder / file).read_text()
    (folder / file).write_text(change(before))
    assert (folder / file).read_text() != before
    second = load_reranker_later(folder)
    assert second.fingerprint != first.fingerprint
    if family == "qwen3 classifier, by name":  # the name of a folder counts too
        (link := folder.with_name("another")).symlink_to(folder)
        assert load_reranker_later(link).fingerprint not in (first.fingerprint, second.fingerprint)


@pytest.mark.parametrize("family", HALF)
def test_half_precision_is_close_and_if_it_is_stored_it_runs_in_single_precision_unless_it_is_large(
    family, copied, monkeypatch
):
    folder = copied(family)
    exact, half = (load_reranker(folder, max_length=LENGTH, dtype=dtype) for dtype in ("auto", "bfloat16"))
    assert half.fingerprint != exact.fingerprint
    assert exact.fingerprint == load_reranker(folder, max_length=LENGTH, dtype="float32").fingerprint
    expected, scores = exact.predict(PAIRS), half.predict(PAIRS)
    assert 0 < np.median(np.abs(scores - expected)) < 0.2 * np.ptp(expected)
    assert [half.predict([pair])[0] for pair in PAIRS] == scores.tolist()
    config = transformers.AutoConfig.from_pretrained(folder)
    model = getattr(transformers, config.architectures[0]).from_pretrained(folder, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    small = load_reranker(folder, max_length=LENGTH)
    monkeypatch.setattr(model_files, "LARGE", 1000)
    large = load_reranker(folder, max_length=LENGTH)
    assert large.engine != "onnx"
    assert large.fingerprint != small.fingerprint
    assert load_reranker(folder, max_length=LENGTH, dtype="float32").fingerprint == small.fingerprint


def test_monot5_cuts_a_long_query_to_half_of_the_room(saved):
    folder, pairs = saved("monot5"), [("of the sea " * 200, "yes no " * 200)]
    scores = load_reranker(folder, max_length=LENGTH).predict(pairs)
    np.testing.assert_allclose(scores, t5_scores(folder, LENGTH, pairs), **CLOSE)
    assert load_reranker(folder, max_length=64).fingerprint != load_reranker(folder, max_length=65).fingerprint


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "mine"
    save_answers("qwen3", chat_template=CHAT_ONLY)(folder)
    return folder


def test_the_user_can_name_the_family_or_give_a_prompt_in_a_file(language_model, tmp_path):
    reranker = load_reranker(language_model, max_length=LENGTH, prompt="qwen3-reranker")
    expected = answer_scores(qwen3_input, "yes", "no")(language_model, LENGTH)
    np.testing.assert_allclose(reranker.predict(PAIRS), expected, **CLOSE)

    def own_input(tokens, query, passage, length):
        after = ids_of(tokens, " so:")
        return ids_of(tokens, f"Q {query} P {passage}")[: length - len(after)] + after

    file = tmp_path / "prompt.json"
    file.write_text(json.dumps({"prompt": "Q {query} P {passage} so:", "yes": "Yes"}))
    reranker = load_reranker(language_model, max_length=LENGTH, prompt=str(file))
    expected = answer_scores(own_input, "Yes", None)(language_model, LENGTH)
    np.testing.assert_allclose(reranker.predict(PAIRS), expected, **CLOSE)
    file.write_text(json.dumps({"prompt": "Q {query} P {passage} so?", "yes": "Yes"}))
    assert load_reranker(language_model, max_length=LENGTH, prompt=str(file)).fingerprint != reranker.fingerprint


def test_a_classifier_of_chats_needs_to_be_told_what_it_reads(tmp_path):
    folder = tmp_path / "chat"
    settings = {"token_settings": {"chat_template": CHAT_ONLY}, "num_labels": 1, "pad_token_id": 0}
    save_model(folder, "qwen3", "SequenceClassification", layout="plain", **settings, **DECODER)
    with pytest.raises(TourError, match="--reranker-prompt: pair"):
        load_reranker(folder)
    plain = load_reranker(folder, max_length=LENGTH, prompt="pair")
    np.testing.assert_allclose(plain.predict(PAIRS), classifier_scores(folder, LENGTH), **CLOSE)
    assert load_reranker(folder, max_length=LENGTH, prompt="qwen3-reranker").fingerprint != plain.fingerprint


@pytest.mark.parametrize(
    ("family", "prompt", "options", "word"),
    [
        (None, None, {}, "--reranker-prompt"),
        (None, "qwen4", {}, "neither one of the prompts"),
        (None, {"prompt": "{query}{passage}", "yes": "undoubtedly"}, {}, "undoubtedly"),
        (None, {"prompt": "{query}{passage}", "yes": "yes", "true": 1}, {}, "JSON file"),
        (None, {"prompt": "{passage} then {query}", "yes": "yes"}, {}, "once"),
        (None, "qwen3-reranker", {"max_length": 50}, "--reranker-max-length"),
        *((family, "qwen3-reranker", {}, "no prompt") for family in ("monot5", "onnx folder", "LogitScore")),
    ],
)
def test_a_prompt_that_does_not_fit_is_refused(language_model, saved, tmp_path, family, prompt, options, word):
    if isinstance(prompt, dict):
        (tmp_path / "prompt.json").write_text(json.dumps(prompt))
        prompt = str(tmp_path / "prompt.json")
    with pytest.raises(TourError, match=word):
        load_reranker(saved(family) if family else language_model, prompt=prompt, **options)


@pytest.mark.parametrize("family", PROMPTS)
def test_a_query_that_leaves_no_room_is_cut_and_the_end_of_the_prompt_stays(family):
    tokens, prompt = tokenizer(layout="bos", bos_token="<s>"), PROMPTS[family][0]
    long = " of the sea" * 300
    made = PromptTokens(tokens, prompt, max_length=LENGTH, name="it")
    row, other = made.rows([(f"first{long}", f"second{long}"), (f"first{long}", "short")])
    after = [token for part in prompt.after for token in ids_of(tokens, part)]
    for ids in (row["input_ids"], other["input_ids"]):
        assert len(ids) == LENGTH
        assert ids[-len(after) :] == after
        assert "first of the sea" in tokens.decode(ids)
        assert tokens.decode(ids).count(prompt.body[-1].removesuffix("{passage}").split("}")[-1].strip()) == 1
    assert "second of the sea" in tokens.decode(row["input_ids"])
    assert "short" in tokens.decode(other["input_ids"])
