"""Phrase encoders from folders: old and new checkpoints of DensePhrases, and those of this package."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_phrases import DOCUMENTS, configuration, save_encoder, save_tokenizer
from transformers import AutoModel, BertModel

from tour_pyserini.data.documents import Document
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.encoder import (
    EncoderSettings,
    find_model,
    load_phrase_encoder,
    read_encoder_settings,
    windows_of,
)
from tour_pyserini.phrases.model import model_from_base

pytestmark = pytest.mark.usefixtures("one_thread")

PASSAGES = [Document(record["_id"], record["title"], record["text"]) for record in DOCUMENTS]
LONG = Document("long", "A title", " ".join(f"word{i} the river" for i in range(60)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("published") / "encoder")


@pytest.fixture(scope="module")
def encoder(folder):
    return load_phrase_encoder(folder)


def plain_hidden(folder, part, encoded):
    """The last hidden states from a plain BERT with the weights of one part."""
    model = BertModel(configuration()).eval()
    state = load_file(folder / "model.safetensors")
    model.load_state_dict(
        {name.removeprefix(f"{part}."): value for name, value in state.items() if name.startswith(part)}
    )
    with torch.no_grad():
        return model(**encoded).last_hidden_state[0].numpy()


def test_a_question_vector_joins_the_first_tokens_of_two_encoders(folder, encoder):
    encoded = encoder.tokenizer("Who won the first prize", return_tensors="pt")
    vector = encoder.encode("  Who won the first prize?")
    parts = [plain_hidden(folder, part, encoded)[0] for part in ("query_start_encoder", "query_end_encoder")]
    assert vector == pytest.approx(np.concatenate(parts), abs=1e-5)
    assert vector.dtype == np.float32
    many = encoder.encode_batch(["a longer question about the moon", "Who won the first prize", "king"])
    assert np.array_equal(many[1], vector)
    assert encoder.encode_batch([]).shape == (0, 32)


def test_token_vectors_are_the_output_of_the_phrase_encoder_for_title_and_text(folder, encoder):
    title, text = PASSAGES[0].title, PASSAGES[0].text
    tokens = encoder.passages(PASSAGES, first=7, threshold=-np.inf)
    coded = encoder.tokenizer(title, text, return_offsets_mapping=True, return_tensors="pt")
    offsets = coded.pop("offset_mapping")[0].tolist()
    hidden = plain_hidden(folder, "phrase_encoder", coded)
    second = [i for i, sequence in enumerate(coded.sequence_ids(0)) if sequence == 1]
    rows, vectors = tokens[0]
    first = next(i for i in second if text[slice(*offsets[i])] == "prize")
    row = next(i for i, span in enumerate(rows) if text[span["begin"] : span["end"]] == "prize")
    assert vectors[row] == pytest.approx(hidden[first], abs=1e-5)
    assert set(rows["passage"].tolist()) == {7}
    assert [len(passage.rows) for passage in tokens].index(0) == 2  # the empty passage


def test_offsets_refer_to_the_original_text(encoder):
    for document, (rows, vectors) in zip(PASSAGES, encoder.passages(PASSAGES, threshold=-np.inf), strict=True):
        words = [document.text[row["begin"] : row["end"]] for row in rows]
        assert len(words) == len(vectors)
        assert all(word == word.strip() != "" for word in words)
    assert {"e\u0301tude", "👩‍👩‍👧"} <= {
        PASSAGES[3].text[row["begin"] : row["end"]] for row in encoder.passages(PASSAGES, threshold=-np.inf)[3].rows
    }


def test_the_filter_keeps_tokens_with_logits_above_the_threshold(folder, encoder):
    state = load_file(folder / "model.safetensors")
    everything = encoder.passages(PASSAGES[:1], threshold=-np.inf)[0]
    logits = everything.vectors @ state["filter_linear.weight"].numpy().T + state["filter_linear.bias"].numpy()
    threshold = float(np.median(logits))
    rows = encoder.passages(PASSAGES[:1], threshold=threshold)[0].rows
    starts = (everything.rows["roles"] & 1 > 0) & (logits[:, 0] > threshold)
    assert 0 < starts.sum() < len(everything.rows)
    assert rows["begin"][rows["roles"] & 1 > 0].tolist() == everything.rows["begin"][starts].tolist()


@pytest.mark.parametrize(("max_length", "stride"), [(64, 16), (48, 0), (40, 20), (64, 7), (64, 31), (16, 8)])
def test_each_token_of_a_long_passage_is_taken_from_one_window(encoder, max_length, stride):
    settings = EncoderSettings(max_length=max_length, stride=stride)
    documents = (LONG, PASSAGES[1], LONG._replace(title="t " * 200))
    passages = [(document.title, document.text) for document in documents]
    windows = windows_of(passages, encoder.tokenizer, settings)
    assert all(len(window.inputs["input_ids"]) <= max_length for window in windows)
    for i, (_, text) in enumerate(passages):
        offsets = np.concatenate([window.offsets for window in windows if window.passage == i])
        expected = encoder.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        assert offsets.tolist() == [list(pair) for pair in expected]


@pytest.mark.parametrize("stride", [8, 16, 32])
def test_windows_share_as_many_tokens_as_the_stride(encoder, stride):
    windows = windows_of([("", "a " * 200)], encoder.tokenizer, EncoderSettings(max_length=64, stride=stride))
    lengths = [len(window.inputs["input_ids"]) - 3 for window in windows]  # [CLS] [SEP] ... [SEP]
    assert set(lengths[:-1]) == {61}
    assert sum(lengths) - 200 == stride * (len(windows) - 1)


def test_a_short_title_with_many_bytes_is_truncated():
    """With bytes as tokens, three turtles are three characters but twelve tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    (window,) = windows_of([("🐢🐢🐢", "twelve bytes")], tokenizer, EncoderSettings(max_length=16, stride=0))
    assert tokenizer.decode(window.inputs["input_ids"]) == "🐢twelve bytes"
    assert window.tokens.tolist() == list(range(4, 16))


@pytest.mark.parametrize("name", ["roberta-large", "princeton-nlp/densephrases-multi", "gpt2", "a/b.c"])
def test_names_on_the_model_hub_are_downloaded(name, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: asked.append(name) or tmp_path)
    assert find_model(name) == tmp_path
    assert asked == [name]


@pytest.mark.parametrize(
    "name", ["models/a/b", "./a", "../a", ".a", "/nowhere/a", "models/", "a/", "~/a", "default", "a b", "here.txt"]
)
def test_a_missing_folder_is_not_downloaded(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.txt").touch()
    monkeypatch.setattr("huggingface_hub.snapshot_download", None)
    with pytest.raises(TourError, match="there is no model"):
        find_model(name)


def test_a_checkpoint_with_old_names_in_an_old_file_is_loaded(folder, encoder, tmp_path):
    state = load_file(folder / "model.safetensors")
    old = {"phrase_encoder": "bert_start", "query_start_encoder": "bert_q_start", "query_end_encoder": "bert_q_end"}
    renamed = {}
    for name, value in state.items():
        head, _, rest = name.partition(".")
        renamed[f"{old.get(head, head)}.{rest}"] = value
    renamed["cross_encoder.something"] = renamed["qa_outputs.weight"] = torch.zeros(2)
    save_tokenizer(tmp_path)
    configuration().save_pretrained(tmp_path)
    torch.save(renamed, tmp_path / "pytorch_model.bin")
    other = load_phrase_encoder(str(tmp_path))
    assert np.array_equal(other.encode("the king"), encoder.encode("the king"))
    assert np.array_equal(other.passages(PASSAGES[:1])[0].vectors, encoder.passages(PASSAGES[:1])[0].vectors)
    assert other.fingerprint() == encoder.fingerprint()


def test_a_checkpoint_with_only_query_encoders_encodes_questions(folder, encoder, tmp_path):
    state = {name: value for name, value in load_file(folder / "model.safetensors").items() if name.startswith("query")}
    save_tokenizer(tmp_path)
    configuration().save_pretrained(tmp_path)
    torch.save(state, tmp_path / "pytorch_model.bin")
    other = load_phrase_encoder(tmp_path)
    assert np.array_equal(other.encode("the king"), encoder.encode("the king"))
    assert other.fingerprint() is None
    with pytest.raises(TourError, match="has only query encoders"):
        other.passages(PASSAGES)


def test_a_model_to_train_has_three_copies_of_the_base_model(tmp_path):
    torch.manual_seed(3)
    BertModel(configuration()).save_pretrained(tmp_path)
    model = model_from_base(tmp_path)
    base = AutoModel.from_pretrained(tmp_path).state_dict()
    for part in (model.phrase_encoder, model.query_start_encoder, model.query_end_encoder):
        assert all(torch.equal(value, base[name]) for name, value in part.state_dict().items())


def test_settings_are_read_from_the_folder(tmp_path):
    assert read_encoder_settings(tmp_path) == EncoderSettings()
    settings = EncoderSettings(pooling="mean", lower_case=True, filter_threshold=float("-inf"))
    settings.save(tmp_path)
    assert read_encoder_settings(tmp_path) == settings
    assert settings.question(" Who wrote Hamlet ? ") == "who wrote hamlet"
    assert EncoderSettings(strip_question_mark=False).question("Who??") == "Who??"
    assert EncoderSettings().question("Who??") == "Who?"  # only one question mark is removed, as in the published code
    (tmp_path / "tour-phrase-encoder.json").write_text(json.dumps({"poling": "cls"}))
    with pytest.raises(TourError, match="does not describe a phrase encoder"):
        read_encoder_settings(tmp_path)


def test_windows_are_not_longer_than_the_model_allows(encoder, caplog):
    assert (encoder.settings.max_length, encoder.settings.stride) == (128, 64)  # DensePhrases' own are 384 and 128
    rows, _ = encoder.passages([LONG], threshold=-np.inf)[0]
    assert LONG.text[rows["begin"][-1] : rows["end"][-1]] == "river"


def test_mean_pooling_ignores_padding(tmp_path):
    encoder = load_phrase_encoder(save_encoder(tmp_path, pooling="mean"))
    alone = encoder.encode("king")
    rows = encoder.tensors(encoder.question_rows(["king", "a much longer question about the first prize"]))
    with torch.no_grad():
        together = torch.cat(encoder.model.questions(rows, "mean"), dim=1)[0].numpy()
    assert together == pytest.approx(alone, abs=1e-5)
    cls = load_phrase_encoder(save_encoder(tmp_path / "cls", pooling="cls"))
    assert not np.allclose(cls.encode("king"), alone)
    assert cls.fingerprint() == encoder.fingerprint()
    assert load_phrase_encoder(save_encoder(tmp_path / "other", seed=1)).fingerprint() != encoder.fingerprint()


def test_folders_without_a_complete_phrase_encoder_are_refused(folder, tmp_path):
    with pytest.raises(TourError, match="there is no model"):
        load_phrase_encoder(tmp_path / "nowhere")
    with pytest.raises(TourError, match="cannot run on the device 'nonsense'"):
        load_phrase_encoder(folder, device="nonsense")
    with pytest.raises(TourError, match="is not a phrase encoder: config"):
        load_phrase_encoder(tmp_path)
    BertModel(configuration()).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(TourError, match="has no query_start_encoder"):
        load_phrase_encoder(tmp_path)
    state = load_file(folder / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    torch.save(
        {n: v for n, v in state.items() if "query_end_encoder.encoder.layer.1" not in n}, tmp_path / "pytorch_model.bin"
    )
    with pytest.raises(TourError, match=r"query_end_encoder in .* lacks 16 weights"):
        load_phrase_encoder(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"no")
    with pytest.raises(TourError, match="cannot be read"):
        load_phrase_encoder(tmp_path)


def test_a_checkpoint_without_poolers_always_has_the_same_fingerprint(folder, tmp_path):
    import shutil

    from safetensors.torch import save_file

    shutil.copytree(folder, tmp_path / "encoder")
    state = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in state.items() if ".pooler." not in name}
    assert len(kept) < len(state)
    save_file(kept, tmp_path / "encoder" / "model.safetensors", metadata={"format": "pt"})
    assert len({load_phrase_encoder(tmp_path / "encoder").fingerprint() for _ in range(2)}) == 1


def test_a_checkpoint_configured_for_float16_is_loaded_in_float32(folder, encoder, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "encoder")
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "encoder" / "config.json").write_text(json.dumps({**config, "dtype": "float16"}))
    half = load_phrase_encoder(tmp_path / "encoder")
    assert np.array_equal(half.encode("the moon"), encoder.encode("the moon"))
    assert half.passages(PASSAGES[:1])[0].vectors.shape == encoder.passages(PASSAGES[:1])[0].vectors.shape
