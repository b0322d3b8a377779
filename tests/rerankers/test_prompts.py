"""What language models read as re-rankers: known families, prompts of the user, and refusals with the true reason."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

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
    tokenizer,
)

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.language_models import FAMILIES as PROMPTS
from tour_pyserini.rerankers.language_models import Prompt, PromptTokens, family_of, read_prompt

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture
def language_model(tmp_path):
    folder = tmp_path / "mine"
    save_answers("qwen3", chat_template=CHAT_ONLY)(folder)
    return folder


def test_the_user_can_name_the_family(language_model):
    reranker = load_reranker(language_model, max_length=LENGTH, prompt="qwen3-reranker")
    expected = answer_scores(qwen3_input, "yes", "no")(language_model, LENGTH)
    np.testing.assert_allclose(reranker.predict(PAIRS), expected, **CLOSE)
    assert reranker.description.score == "logit of 'yes' minus logit of 'no'"
    assert reranker.description.prompt.endswith("</think>\n\n")


def test_the_user_can_give_a_prompt_in_a_file(language_model, tmp_path):
    file = tmp_path / "prompt.json"
    file.write_text(json.dumps({"prompt": "Q {query} P {passage} so:", "yes": "Yes"}))

    def own_input(tokens, query, passage, length):
        after = ids_of(tokens, " so:")
        return ids_of(tokens, f"Q {query} P {passage}")[: length - len(after)] + after

    reranker = load_reranker(language_model, max_length=LENGTH, prompt=str(file))
    expected = answer_scores(own_input, "Yes", None)(language_model, LENGTH)
    np.testing.assert_allclose(reranker.predict(PAIRS), expected, **CLOSE)
    file.write_text(json.dumps({"prompt": "Q {query} P {passage} so?", "yes": "Yes"}))
    assert load_reranker(language_model, max_length=LENGTH, prompt=str(file)).fingerprint != reranker.fingerprint


def test_a_classifier_of_chats_needs_to_be_told_what_it_reads(tmp_path):
    folder = tmp_path / "chat"
    settings = {"chat_template": CHAT_ONLY}
    save_model(
        folder, "qwen3", "SequenceClassification", layout="plain", token_settings=settings, num_labels=1,
        pad_token_id=0, **DECODER,
    )  # fmt: skip
    with pytest.raises(TourError, match=r"no place for a query and a passage; .*--reranker-prompt.*: pair"):
        load_reranker(folder)
    plain = load_reranker(folder, max_length=LENGTH, prompt="pair")
    np.testing.assert_allclose(plain.predict(PAIRS), classifier_scores(folder, LENGTH), **CLOSE)
    assert load_reranker(folder, max_length=LENGTH, prompt="qwen3-reranker").fingerprint != plain.fingerprint


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"prompt": "{query}{passage}", "yes": "yes", "true": 1}, "not a prompt"),
        ({"prompt": "{query}{passage}"}, "not a prompt"),
        ({"prompt": "{passage} then {query}", "yes": "yes"}, "once"),
        ({"prompt": "{query} {query} {passage}", "yes": "yes"}, "once"),
        (["{query}"], "JSON dict"),
    ],
)
def test_a_file_that_is_no_prompt_is_refused(content, word, tmp_path):
    (tmp_path / "prompt.json").write_text(json.dumps(content))
    with pytest.raises(TourError, match=word):
        read_prompt(tmp_path / "prompt.json")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "--reranker-prompt"),
        ({"prompt": "pair"}, "--reranker-prompt"),
        ({"prompt": "qwen4"}, "known name"),
        ({"prompt": {"prompt": "{query}{passage}", "yes": "undoubtedly"}}, "undoubtedly"),
        ({"prompt": "qwen3-reranker", "max_length": 50}, "--reranker-max-length"),
    ],
)
def test_a_language_model_without_a_prompt_that_fits_is_refused(language_model, tmp_path, options, word):
    if isinstance(options.get("prompt"), dict):
        (tmp_path / "prompt.json").write_text(json.dumps(options["prompt"]))
        options = {"prompt": str(tmp_path / "prompt.json")}
    with pytest.raises(TourError, match=word):
        load_reranker(language_model, **options)


@pytest.mark.parametrize("family", ["monot5", "onnx folder", "LogitScore"])
def test_a_prompt_for_a_model_that_has_its_own_is_refused(family, tmp_path):
    FAMILIES[family].save(tmp_path)
    with pytest.raises(TourError, match="no prompt"):
        load_reranker(tmp_path, prompt="qwen3-reranker")


@pytest.mark.parametrize(
    ("model_type", "name", "head", "expected"),
    [
        ("qwen3", "Qwen/Qwen3-Reranker-8B", "", "qwen3-reranker"),
        ("qwen3", "models/qwen3-reranker-0.6b-seq-cls", "", "qwen3-reranker"),
        ("qwen3", "Qwen/Qwen3-0.6B", "", None),
        ("qwen3", "mine", "---\nbase_model: Qwen/Qwen3-Reranker-4B\n---\n", "qwen3-reranker"),
        (
            "qwen3",
            "mine",
            "---\nlicense: mit\nbase_model:\n- Qwen/Qwen3-Reranker-4B\ntags: [x]\n---\n",
            "qwen3-reranker",
        ),
        ("qwen3", "mine", "---\nbase_model: Qwen/Qwen3-4B\n---\nBetter than Qwen3-Reranker-4B.\n", None),
        ("bert", "distilled-from-qwen3-reranker-8b", "", None),
        ("qwen2", "mixedbread-ai/mxbai-rerank-large-v2", "", "mxbai-rerank-v2"),
        ("deberta-v2", "mixedbread-ai/mxbai-rerank-large-v1", "", None),
        ("gemma", "BAAI/bge-reranker-v2-gemma", "", "bge-reranker-v2-gemma"),
        ("xlm-roberta", "BAAI/bge-reranker-v2-m3", "", None),
    ],
)
def test_a_family_is_known_by_architecture_and_name(model_type, name, head, expected, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    if head:
        (tmp_path / "README.md").write_text(head)
    assert family_of(tmp_path, name) == expected


@pytest.mark.parametrize("family", PROMPTS)
def test_a_query_that_leaves_no_room_is_cut_and_the_end_of_the_prompt_stays(family):
    tokens, prompt = tokenizer(layout="bos", bos_token="<s>"), PROMPTS[family].prompt
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


def test_a_prompt_without_a_part_after_the_passage():
    tokens = tokenizer(layout="plain")
    made = PromptTokens(tokens, Prompt((), ("{query}: {passage}",), (), "yes", None), max_length=12, name="it")
    (row,) = made.rows([("a", "b")])
    assert row["input_ids"] == ids_of(tokens, "a: b")
