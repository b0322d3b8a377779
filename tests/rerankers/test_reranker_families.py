"""Each family of re-rankers gives the scores that transformers or sentence-transformers give it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

from model_hub import serve
from reranker_families import FAMILIES, LENGTH, PAIRS

from tour_pyserini.rerankers import load_reranker, load_reranker_later
from tour_pyserini.rerankers.loading import LazyReranker

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
LIBRARY = [family for family, row in FAMILIES.items() if row.engine == "sentence-transformers"] + ["default prompt"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Saves the model of a family, once."""
    folders = {}

    def save(family):
        if family not in folders:
            folders[family] = tmp_path_factory.mktemp("family") / FAMILIES[family].name
            folders[family].mkdir()
            FAMILIES[family].save(folders[family])
        return folders[family]

    return save


@pytest.fixture
def copied(saved, tmp_path):
    """A copy of a family's folder that a test may change."""
    return lambda family: Path(shutil.copytree(saved(family), tmp_path / FAMILIES[family].name))


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_the_reference(family, saved):
    folder, row = saved(family), FAMILIES[family]
    expected = row.scores(folder, LENGTH)
    assert np.ptp(expected) > 0.05
    reranker = load_reranker(folder, max_length=LENGTH)
    assert reranker.description.engine == row.engine or row.engine is None
    assert reranker.description.max_length == LENGTH
    np.testing.assert_allclose(reranker.predict(PAIRS), expected, **CLOSE)
    # alone, and in other batches
    np.testing.assert_allclose([reranker.predict([pair])[0] for pair in PAIRS], expected, **CLOSE)
    other = load_reranker(folder, max_length=LENGTH, batch_size=3, backend=row.other_backend)
    np.testing.assert_allclose(other.predict(PAIRS[::-1])[::-1], expected, **CLOSE)


@pytest.mark.parametrize("family", LIBRARY)
def test_an_object_has_the_scores_of_its_folder(family, saved):
    from sentence_transformers import CrossEncoder

    folder = saved(family)
    model = CrossEncoder(str(folder), device="cpu", max_length=LENGTH)
    reranker = load_reranker(model)
    np.testing.assert_allclose(reranker.predict(PAIRS), FAMILIES[family].scores(folder, LENGTH), **CLOSE)
    assert reranker.description.engine == "sentence-transformers"
    first = reranker.fingerprint
    model.tokenizer.chat_template = "{{ messages[0].content }} {{ messages[1].content }}"
    assert load_reranker(model).fingerprint != first


@pytest.mark.parametrize("family", ["LogitScore", "Dense", "qwen3 classifier, chat template", "qwen3-reranker", "bert"])
def test_a_name_on_the_hub_has_the_scores_of_its_folder(family, saved, tmp_path, monkeypatch):
    """Only the files that are asked for are there after a download."""
    folder, snapshot = saved(family), tmp_path / "snapshot"
    downloads = serve(folder, snapshot, monkeypatch)
    named = load_reranker(f"somebody/{FAMILIES[family].name}", max_length=LENGTH)
    np.testing.assert_allclose(named.predict(PAIRS), FAMILIES[family].scores(folder, LENGTH), **CLOSE)
    assert named.fingerprint == load_reranker(folder, max_length=LENGTH).fingerprint or family == "LogitScore"
    assert set(downloads) == {f"somebody/{FAMILIES[family].name}"}
    assert not (snapshot / "plain").exists()


def test_a_name_on_the_hub_is_recognised_by_its_model_card(copied, tmp_path, monkeypatch):
    folder = copied("qwen3-reranker")
    (folder / "README.md").write_text("---\nbase_model: Qwen/Qwen3-Reranker-0.6B\n---\n")
    serve(folder, tmp_path / "snapshot", monkeypatch)
    named = load_reranker("somebody/mine", max_length=LENGTH)
    np.testing.assert_allclose(named.predict(PAIRS), FAMILIES["qwen3-reranker"].scores(folder, LENGTH), **CLOSE)


def swapped_answers(text):
    settings = json.loads(text)
    yes, no = settings["true_token_id"], settings["false_token_id"]
    return json.dumps(settings | {"true_token_id": no, "false_token_id": yes})


@pytest.mark.parametrize(
    ("family", "file", "change"),
    [
        ("qwen3 classifier, chat template", "chat_template.jinja", lambda text: text.replace("Judge", "Decide")),
        (
            "LogitScore",
            "1_LogitScore/config.json",
            swapped_answers,
        ),
        ("LogitScore", "config_sentence_transformers.json", lambda text: text.replace("web search", "log search")),
        ("default prompt", "config_sentence_transformers.json", lambda text: text.replace("search for", "find")),
    ],
)
def test_every_file_that_changes_scores_changes_the_fingerprint(family, file, change, copied):
    folder = copied(family)
    first = load_reranker_later(folder)
    assert isinstance(load_reranker_later(folder), LazyReranker)
    before = (folder / file).read_text()
    (folder / file).write_text(change(before))
    assert (folder / file).read_text() != before
    second = load_reranker_later(folder)
    assert not isinstance(second, LazyReranker)
    assert second.fingerprint != first.fingerprint


def test_the_name_of_a_folder_is_part_of_what_is_remembered(copied):
    folder = copied("qwen3 classifier, by name")
    prompted = load_reranker_later(folder)
    link = folder.with_name("another")
    link.symlink_to(folder)
    plain = load_reranker_later(link)
    assert not isinstance(plain, LazyReranker)
    assert plain.fingerprint != prompted.fingerprint
    assert plain.description.prompt is None


def test_modules_in_another_order_have_another_fingerprint(copied):
    folder = copied("Dense")
    first = load_reranker(folder).fingerprint
    (folder / "2_Dense").rename(folder / "3_Dense")
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["path"] = "3_Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert load_reranker(folder).fingerprint != first
