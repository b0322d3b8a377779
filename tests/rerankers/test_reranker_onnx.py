import time
from pathlib import Path

import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker, verify_default_reranker
from tour_pyserini.rerankers import loading as default
from tour_pyserini.rerankers.local_reranker import CHUNK
from tour_pyserini.support.onnx_graphs import is_dynamically_quantised, open_graph


def test_the_score_equals_the_sum_of_ids_computed_by_hand(onnx_folder, word_ids):
    (score,) = load_reranker(onnx_folder()).predict([("who wrote", "hamlet")])
    assert score == 2 + word_ids["who"] + word_ids["wrote"] + 3 + word_ids["hamlet"] + 3


def test_the_score_of_two_logits_is_their_difference(onnx_folder, pairs):
    one = load_reranker(onnx_folder("one")).predict(pairs)
    two = load_reranker(onnx_folder("two", outputs=2)).predict(pairs)  # -2 sum, -1 sum
    assert two.tolist() == one.tolist()


def test_three_logits_and_unknown_inputs_are_refused(onnx_folder):
    with pytest.raises(TourError, match="3 outputs"):
        load_reranker(onnx_folder("three", outputs=3)).predict([("a", "b")])
    with pytest.raises(TourError, match="pixel_values"):
        load_reranker(onnx_folder("image", inputs=("input_ids", "pixel_values")))


def test_a_graph_in_the_subfolder_onnx_is_loaded(onnx_folder):
    assert load_reranker(onnx_folder(graph_path="onnx/model.onnx")).predict([("who", "who")]).shape == (1,)


def test_the_passage_is_cut_and_the_query_kept(onnx_folder, word_ids):
    reranker = load_reranker(onnx_folder(), max_length=8)  # five words and [CLS], [SEP], [SEP]
    (score,) = reranker.predict([("who wrote hamlet", "the cat sat on")])
    kept = ["who", "wrote", "hamlet", "the", "cat"]
    assert score == 2 + 3 + 3 + sum(word_ids[word] for word in kept)


def test_a_query_that_leaves_no_room_is_cut_too(onnx_folder, word_ids):
    reranker = load_reranker(onnx_folder(), max_length=8)
    (score,) = reranker.predict([("who wrote hamlet is a tragedy", "cat mat")])
    kept = ["who", "wrote", "hamlet", "cat", "mat"]
    assert score == 2 + 3 + 3 + sum(word_ids[word] for word in kept)


def test_scores_do_not_depend_on_batches_and_progress_counts_every_pair(onnx_folder, pairs):
    folder = onnx_folder()
    many = pairs * (CHUNK // len(pairs) + 2)  # more than one chunk
    alone = np.array([load_reranker(folder).predict([pair])[0] for pair in pairs])
    seen = []
    for size in (None, 1, 7):
        reranker = load_reranker(folder, batch_size=size)
        reranker.on_progress = seen.append
        assert reranker.predict(many).tolist() == np.tile(alone, len(many) // len(pairs)).tolist()
    assert sum(seen) == 3 * len(many)


def test_an_interruption_stops_without_scoring_the_other_pairs(onnx_folder, monkeypatch):
    reranker = load_reranker(onnx_folder(), threads=2)
    ran = []
    monkeypatch.setattr(reranker, "_forward", lambda batch: ran.append(time.sleep(0.01)) or np.zeros(1))

    def interrupt(_):
        raise KeyboardInterrupt

    reranker.on_progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        reranker.predict([("who", f"cat {number}") for number in range(500)])
    assert len(ran) < 50


def test_no_pairs_give_no_scores(onnx_folder):
    assert load_reranker(onnx_folder()).predict([]).shape == (0,)


def test_half_a_surrogate_pair_is_scored(onnx_folder):
    assert load_reranker(onnx_folder()).predict([("who \ud800", "\udfff")]).shape == (1,)


def test_the_error_names_the_damaged_file(onnx_folder):
    folder = onnx_folder()
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(TourError, match=r"tokenizer\.json"):
        load_reranker(folder)
    (folder / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(TourError, match=r"model\.onnx"):
        load_reranker(folder)


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


def test_an_unknown_device_is_refused(onnx_folder):
    with pytest.raises(TourError, match="quantum"):
        load_reranker(onnx_folder(), device="quantum")


@pytest.fixture(scope="module")
def default_reranker():
    try:
        verify_default_reranker()
    except TourError as error:
        pytest.skip(str(error))
    return load_reranker("default")


HAMLET = [
    ("who wrote hamlet", "Hamlet is a tragedy by William Shakespeare."),
    ("who wrote hamlet", "A hamlet is a small human settlement."),
    ("who wrote hamlet", "The cat sat on the mat. " * 20),
    ("is it far", ""),
]


def test_the_default_reranker_prefers_the_relevant_passage(default_reranker):
    scores = default_reranker.predict(HAMLET)
    assert scores[0] > 5 > -1 > scores[2]
    assert scores[0] > scores[1] > scores[2]


def test_a_score_of_the_default_reranker_depends_only_on_its_pair(default_reranker):
    assert is_dynamically_quantised(verify_default_reranker() / "model.onnx")
    together = default_reranker.predict(HAMLET)
    backwards = load_reranker("default", threads=3, batch_size=16).predict(HAMLET[::-1])
    assert together.tolist() == backwards[::-1].tolist()
    assert together.tolist() == [default_reranker.predict([pair])[0] for pair in HAMLET]


def test_a_changed_file_of_the_default_reranker_is_refused(default_reranker, monkeypatch):
    monkeypatch.setattr(default, "SHA256", {"model.onnx": "0" * 64})
    with pytest.raises(TourError, match=r"model\.onnx.*force-reinstall"):
        load_reranker("default")


def test_the_error_says_how_to_install_a_missing_default_reranker(monkeypatch):
    monkeypatch.setattr(default, "PACKAGE", "no_such_package_here")
    with pytest.raises(TourError, match=r'pip install "tour_pyserini\[models\]"'):
        load_reranker("default")


def test_a_graph_that_cannot_be_quantised_is_refused_with_one_sentence(onnx_folder, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no such operator.\nmore")

    quantisation = pytest.importorskip("onnxruntime.quantization")
    monkeypatch.setattr(quantisation, "quantize_dynamic", fail)
    with pytest.raises(
        TourError, match=r"model\.onnx cannot be quantised \(no such operator\); use the precision fp32"
    ):
        load_reranker(onnx_folder(), precision="int8")


@pytest.mark.parametrize(
    ("device", "provider"),
    [
        ("cpu", "CPUExecutionProvider"),
        ("cuda", ("CUDAExecutionProvider", {"device_id": "0"})),
        ("cuda:1", ("CUDAExecutionProvider", {"device_id": "1"})),
    ],
)
def test_a_graph_is_run_on_the_gpu_with_that_number(monkeypatch, device, provider):
    import onnxruntime

    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, providers, **__: providers)
    assert open_graph(Path("model.onnx"), device=device) == [provider]
