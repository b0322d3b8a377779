"""What can be loaded as a re-ranker: names, folders, objects, functions and registered kinds; at once or later."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_models import change_json, with_code

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import loading
from tour_pyserini.rerankers.loading import load_reranker, load_reranker_later, register_reranker_kind
from tour_pyserini.rerankers.reranker import score_pairs
from tour_pyserini.rerankers.score_cache import CachedReranker

PAIRS = [("who wrote hamlet", "hamlet is a tragedy"), ("the cat", "sat on the mat")]


class Zeros:
    def predict(self, pairs):
        return [0.0 for _ in pairs]


def count_words(pairs):
    return [len(passage.split()) for _, passage in pairs]


def test_an_object_with_predict_and_a_function_are_rerankers():
    zeros = Zeros()
    assert load_reranker(zeros) is zeros and load_reranker_later(zeros) is zeros
    reranker = load_reranker(count_words)
    assert (reranker.name, score_pairs(reranker, PAIRS).tolist()) == ("count_words", [4.0, 4.0])


class WordsKind:
    """Folders with a file `words.txt`."""

    def accepts(self, folder):
        return (folder / "words.txt").is_file()

    def load(self, folder, options, *, name):
        return SimpleNamespace(folder=folder, options=options, name=name, predict=count_words)


@pytest.fixture(autouse=True)
def no_registered_kinds(monkeypatch):
    """Forget the kinds that a test registers."""
    monkeypatch.setattr(loading, "_registered_kinds", {})


def test_a_checkpoint_is_preferred_to_a_graph_unless_it_has_no_weights(bert_folder, onnx_folder):
    folder = bert_folder()
    (onnx_folder() / "model.onnx").rename(folder / "model.onnx")
    assert load_reranker(folder).fingerprint.startswith("sequence-classification:")
    (folder / "model.safetensors").unlink()
    assert load_reranker(folder).fingerprint.startswith("onnx:")


def test_a_registered_kind_is_tried_first_can_restrict_the_back_ends_and_has_a_name_of_its_own(onnx_folder, tmp_path):
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "words.txt").touch()
    with pytest.raises(TourError, match="holds no re-ranker"):
        load_reranker(tmp_path / "words")
    kind = WordsKind()
    register_reranker_kind("words", kind)
    for folder in (tmp_path / "words", onnx_folder()):
        (folder / "words.txt").touch()
        reranker = load_reranker(str(folder), max_length=100, backend="torch")
        assert (reranker.folder, reranker.name) == (folder, str(folder))
        assert (reranker.options.max_length, reranker.options.backend) == (100, "torch")
        assert reranker.predict(PAIRS) == [4, 4]
    kind.BACKENDS = ("torch",)
    for wrong in ({"backend": "onnx"}, {"precision": "int8"}):
        with pytest.raises(TourError, match="only"):
            load_reranker(tmp_path / "words", **wrong)
    for name in ("words", "onnx"):
        with pytest.raises(TourError, match="already"):
            register_reranker_kind(name, WordsKind())


@pytest.mark.parametrize(
    ("spec", "options", "word"),
    [
        *((spec, {}, "does not exist") for spec in ("./nowhere", "~/no such", "a/b/c", "", Path("nowhere"), __file__)),
        (str(Path(__file__).parent), {}, r"config\.json with .*, nor model\.onnx with"),
        (3, {}, "not 3"),
        (Zeros, {}, "not <class"),
        (Zeros(), {"prompt": "qwen3-reranker"}, "object has its own"),
        *(("default", {name: 0}, name) for name in ("max_length", "batch_size", "threads")),
        ("default", {"backend": "jax"}, "backend"),
        ("default", {"precision": "int8", "backend": "torch"}, "int8"),
        *(("default", {"dtype": "float16", **more}, "torch") for more in ({"backend": "onnx"}, {"precision": "int8"})),
    ],
)
def test_what_is_no_reranker_is_refused(spec, options, word):
    with pytest.raises(TourError, match=word):
        load_reranker(spec, **options)


@pytest.fixture
def loads(monkeypatch):
    """The specs of the re-rankers that were loaded."""
    seen = []
    plain = loading.load_reranker
    monkeypatch.setattr(loading, "load_reranker", lambda spec, **options: seen.append(spec) or plain(spec, **options))
    return seen


@pytest.mark.parametrize("kind", ["onnx", "torch"])
def test_the_second_time_it_is_loaded_for_its_first_pair_that_is_not_stored(
    loads, onnx_folder, bert_folder, tmp_path, kind
):
    folder = onnx_folder() if kind == "onnx" else bert_folder()
    options = {"max_length": 40, "backend": kind}
    first = load_reranker_later(folder, **options)
    with CachedReranker(first, tmp_path / "scores.sqlite") as reranker:
        expected = reranker.predict(PAIRS)
    later = load_reranker_later(folder, **options)
    assert later.fingerprint == first.fingerprint
    reported = []
    with CachedReranker(later, tmp_path / "scores.sqlite") as reranker:
        reranker.on_progress = reported.append
        assert np.array_equal(reranker.predict(PAIRS), expected)
        assert len(loads) == 1
        reranker.predict([*PAIRS, ("cat", "mat")])
    assert (len(loads), sum(reported)) == (2, 5)
    assert np.array_equal(later.predict(PAIRS), expected)
    load_reranker_later(folder, max_length=50, backend=kind)
    (folder / "more.json").write_text("{}")
    load_reranker_later(folder, **options)
    assert len(loads) == 4


def test_a_re_ranker_that_is_no_longer_the_same_is_refused_once(onnx_folder, monkeypatch):
    folder = onnx_folder()
    fingerprint = load_reranker_later(folder).fingerprint
    later = load_reranker_later(folder)
    plain = loading.load_reranker

    def changed(spec, **options):
        reranker = plain(spec, **options)
        reranker.fingerprint = "another"
        return reranker

    monkeypatch.setattr(loading, "load_reranker", changed)
    with pytest.raises(TourError, match="run the command again"):
        later.predict(PAIRS)
    assert load_reranker_later(folder).fingerprint == "another" != fingerprint


def test_code_is_refused_unless_it_is_asked_for_and_is_part_of_the_fingerprint(bert_folder, tmp_path, pairs):
    """Also if transformers has similar code."""
    mark, expected = tmp_path / "mark", load_reranker(bert_folder()).predict(pairs)
    folder = with_code(bert_folder("own_code"), mark, head="ForSequenceClassification")
    for model_type in ("bert", "payload"):
        change_json(folder / "config.json", model_type=model_type)
        with pytest.raises(TourError, match=r"own_code brings Python code of its own .*--trust-remote-code"):
            load_reranker(folder)
    assert not mark.exists()
    trusted = load_reranker(folder, trust_remote_code=True)
    assert mark.exists()
    np.testing.assert_allclose(trusted.predict(pairs), expected, atol=1e-4)
    with (folder / "payload.py").open("a") as file:
        file.write("# changed\n")
    assert load_reranker(folder, trust_remote_code=True).fingerprint != trusted.fingerprint


DENSE = "sentence_transformers.base.modules.Dense"


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("modules.json", [{"path": "", "type": "own.Transformer"}], r"own\.Transformer in modules\.json"),
        ("modules.json", [{"path": "../other", "type": DENSE}], "not in the folder"),
        ("0_Transformer/config.json", {"auto_map": {"AutoModel": ["own.Model", None]}}, "auto_map in 0_Transformer"),
    ],
)
def test_code_and_paths_of_modules_and_tokenizers_are_refused(bert_folder, name, content, word):
    folder = bert_folder()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))
    with pytest.raises(TourError, match=word):
        load_reranker(folder)
