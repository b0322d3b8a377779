"""The passage re-ranker of R2-D2, against its modules of torch."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tiny_r2d2 import IDS, TinyR2D2  # noqa: E402

from tour_pyserini.data.texts import Passage  # noqa: E402
from tour_pyserini.errors import TourError  # noqa: E402
from tour_pyserini.rerankers.loading import load_reranker  # noqa: E402

TRIPLES = [
    ("who wrote hamlet", "Hamlet", "Hamlet is a tragedy by William Shakespeare."),
    ("who wrote hamlet", "", "It was written by Shakespeare."),
    ("who wrote hamlet", "Hamlet", ""),
    ("who was moses' brother", "Aar\u00f4n", "Aaron (Ah\u00e4r\u00f4n) is a prophet."),
    ("q", "A long one", "word " * 80),
]


def pairs(triples):
    return [(question, Passage(title, text)) for question, title, text in triples]


@pytest.fixture
def tiny(tmp_path):
    return TinyR2D2(tmp_path / "r2d2")


def save_as_published(tiny, path, **more):
    """Save a checkpoint like the published ones: with an object of a library and the loss in the same file."""
    config = {"encoder": "roberta-base", "encoder_config": tiny.config, "max_length": 256, **more}
    config["training"] = {"criterion": torch.nn.CrossEntropyLoss(), "lr": 2e-5}
    positions = {"encoder.embeddings.position_ids": torch.arange(302)[None]}
    torch.save({"model": tiny.weights | positions, "config": config}, path)


@pytest.mark.parametrize(("size", "asked", "longest"), [(None, 512, 256), (1, 256, 256), (3, 40, 40)])
def test_scores_equal_those_computed_by_hand_with_the_plain_modules(tiny, size, asked, longest):
    """Long inputs are cut at the end."""
    triples = [*TRIPLES, ("why " * 5, "T", "word " * 200)]
    scores = load_reranker(tiny.save(), batch_size=size, max_length=asked).predict(pairs(triples))
    expected = tiny.scores(triples, longest)
    assert np.ptp(expected) > 0.05
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_a_published_checkpoint_gives_the_same_scores_and_its_code_is_not_run(tiny, tmp_path):
    witness = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (open, (str(witness), "w"))

    save_as_published(tiny, tiny.folder / "reranker_roberta-base.ckpt", evil=Evil())
    reranker = load_reranker(tiny.folder)
    np.testing.assert_allclose(reranker.predict(pairs(TRIPLES)), tiny.scores(TRIPLES), atol=1e-5)
    assert not witness.exists()
    first = reranker.fingerprint
    tiny.head.weight.data *= 2
    save_as_published(tiny, tiny.folder / "reranker_roberta-base.ckpt")
    assert load_reranker(tiny.folder).fingerprint != first


def test_a_passage_without_a_known_title_has_an_empty_one(tiny):
    reranker = load_reranker(tiny.save())
    plain, titled = reranker.predict([("q", "Hamlet is a tragedy"), ("q", Passage("Hamlet", "is a tragedy"))])
    np.testing.assert_allclose([plain], tiny.scores([("q", "", "Hamlet is a tragedy")]), atol=1e-5)
    np.testing.assert_allclose([titled], tiny.scores([("q", "Hamlet", "is a tragedy")]), atol=1e-5)
    assert abs(plain - titled) > 1e-3
    # A long question is cut to half of the room.
    score = load_reranker(tiny.folder, max_length=44).predict([("x" * 90, Passage("T", "word " * 20))])
    expected = tiny.score(tiny.input_ids("x" * 20, "T", "word " * 20, 44))
    np.testing.assert_allclose(score, [expected], atol=1e-5)


def test_a_cross_encoder_with_a_ckpt_file_is_not_read_as_r2d2(bert_folder):
    folder = bert_folder()
    plain = load_reranker(folder)
    (folder / "last.ckpt").write_bytes(b"from training")
    assert type(load_reranker(folder)) is type(plain)
    assert load_reranker(folder).fingerprint == plain.fingerprint


def drop_layer(tiny):
    config = json.loads((tiny.save() / "config.json").read_text())
    (tiny.folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))


def drop_marks(tiny):
    words = {word: number for word, number in IDS.items() if not word.startswith("madeup")}
    (tiny.save() / "vocab.json").write_text(json.dumps(words))


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (drop_layer, "do not fit .*layer"),
        (drop_marks, "madeupword0001"),
        (lambda tiny: (tiny.folder / "a.ckpt").write_bytes(b"garbage"), "one file"),
        (lambda tiny: torch.save({"model": {"weight": torch.ones(1)}}, tiny.folder / "a.ckpt"), r"lacks vt\.weight"),
        (lambda tiny: [(tiny.folder / name).write_bytes(b"x") for name in ("a.ckpt", "b.ckpt")], "one file"),
    ],
)
def test_what_is_no_r2d2_is_refused(tiny, damage, word):
    damage(tiny)
    with pytest.raises(TourError, match=word) as caught:
        load_reranker(tiny.folder)
    assert "\n" not in str(caught.value)
