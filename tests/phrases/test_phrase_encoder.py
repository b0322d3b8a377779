"""Phrase encoders from folders: old and new checkpoints of DensePhrases, and those of this package."""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_phrases import DOCUMENTS, configuration, save_encoder, save_tokenizer
from transformers import BertModel

from tour_pyserini.data.texts import Document
from tour_pyserini.errors import TourError
from tour_pyserini.phrases.phrase_encoder import EncoderSettings, PhraseEncoder, load_phrase_encoder

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
    model.load_state_dict({name[len(part) + 1 :]: value for name, value in state.items() if name.startswith(part)})
    with torch.no_grad():
        return model(**encoded).last_hidden_state[0].numpy()


def with_weights(folder, tmp_path, state, *, old=False):
    """A copy of a folder with other weights."""
    copy = shutil.copytree(folder, tmp_path / "copy", dirs_exist_ok=True)
    if old:
        (copy / "model.safetensors").unlink(missing_ok=True)
        torch.save(state, copy / "pytorch_model.bin")
    else:
        save_file(state, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


def test_a_question_vector_joins_the_first_tokens_of_two_encoders(folder, encoder):
    encoded = encoder.tokenizer("Who won the first prize", return_tensors="pt")
    vector = encoder.encode("  Who won the first prize?")
    parts = [plain_hidden(folder, part, encoded)[0] for part in ("query_start_encoder", "query_end_encoder")]
    assert vector == pytest.approx(np.concatenate(parts), abs=1e-5)
    many = encoder.encode_batch(["a longer question about the moon", "Who won the first prize", "king"])
    assert np.array_equal(many[1], vector) and encoder.encode_batch([]).shape == (0, 32)


def test_token_vectors_are_the_output_of_the_phrase_encoder_for_title_and_text(folder, encoder):
    title, text = PASSAGES[0].title, PASSAGES[0].text
    tokens = encoder.passages(PASSAGES, first=7, threshold=-np.inf)
    coded = encoder.tokenizer(title, text, return_offsets_mapping=True, return_tensors="pt")
    offsets = coded.pop("offset_mapping")[0].tolist()
    hidden = plain_hidden(folder, "phrase_encoder", coded)
    rows, vectors = (part[: (tokens[0]["passage"] == 7).sum()] for part in tokens)
    second = [i for i, sequence in enumerate(coded.sequence_ids(0)) if sequence == 1]
    first = next(i for i in second if text[slice(*offsets[i])] == "prize")
    row = next(i for i, span in enumerate(rows) if text[span["begin"] : span["end"]] == "prize")
    assert vectors[row] == pytest.approx(hidden[first], abs=1e-5)
    assert set(tokens[0]["passage"].tolist()) == {7, 8, 10, 11}  # the third passage is empty
    words = [PASSAGES[3].text[row["begin"] : row["end"]] for row in tokens[0] if row["passage"] == 10]
    assert {"e\u0301tude", "👩‍👩‍👧"} <= set(words)


@pytest.mark.parametrize(("max_length", "stride"), [(48, 0), (64, 31)])
def test_each_token_of_a_long_passage_is_taken_from_one_window(encoder, max_length, stride):
    read = encoder.settings
    assert (read.max_length, read.stride) == (128, 64)  # the model's; DensePhrases': 384 and 128
    reader = PhraseEncoder(encoder.model, encoder.tokenizer, EncoderSettings(max_length=max_length, stride=stride))
    documents = (LONG, PASSAGES[1], LONG._replace(title="t " * 200))
    passages = [(document.title, document.text) for document in documents]
    windows = reader.windows(passages)
    assert all(len(window.inputs["input_ids"]) <= max_length for window in windows)
    for i, (_, text) in enumerate(passages):
        offsets = np.concatenate([window.offsets for window in windows if window.passage == i])
        expected = encoder.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        assert offsets.tolist() == [list(pair) for pair in expected]


def test_a_checkpoint_with_old_names_in_an_old_file_is_loaded(folder, encoder, tmp_path):
    names = {"phrase_encoder": "bert_start", "query_start_encoder": "bert_q_start", "query_end_encoder": "bert_q_end"}
    renamed = {"cross_encoder.something": torch.zeros(2)}
    for name, value in load_file(folder / "model.safetensors").items():
        head, _, rest = name.partition(".")
        renamed[f"{names.get(head, head)}.{rest}"] = value
    other = load_phrase_encoder(str(with_weights(folder, tmp_path, renamed, old=True)))
    assert np.array_equal(other.encode("the king"), encoder.encode("the king"))
    assert np.array_equal(other.passages(PASSAGES[:1])[1], encoder.passages(PASSAGES[:1])[1])
    assert other.fingerprint() == encoder.fingerprint()


def test_a_checkpoint_may_have_query_encoders_alone_and_may_lack_poolers(folder, encoder, tmp_path):
    state = load_file(folder / "model.safetensors")
    queries = {name: value for name, value in state.items() if name.startswith("query")}
    other = load_phrase_encoder(with_weights(folder, tmp_path, queries))
    assert np.array_equal(other.encode("the king"), encoder.encode("the king"))
    assert other.fingerprint() is None
    with pytest.raises(TourError, match="only query encoders"):
        other.passages(PASSAGES)
    copy = with_weights(folder, tmp_path, {name: value for name, value in state.items() if ".pooler." not in name})
    assert len({load_phrase_encoder(copy).fingerprint() for _ in range(2)}) == 1


def test_mean_pooling_ignores_padding(tmp_path):
    encoder = load_phrase_encoder(save_encoder(tmp_path, pooling="mean"))
    assert encoder.settings == EncoderSettings(pooling="mean", max_length=64, stride=16, filter_threshold=-np.inf)
    together = encoder.encode_batch(["king", "a much longer question about the first prize"])
    with torch.no_grad():
        sides = encoder.question_sides(["king", "a much longer question about the first prize"])
    assert torch.cat(sides, dim=1).numpy() == pytest.approx(together, abs=1e-5)
    assert load_phrase_encoder(save_encoder(tmp_path / "other", seed=1)).fingerprint() != encoder.fingerprint()


def test_folders_without_a_complete_phrase_encoder_are_refused(folder, tmp_path):
    state = load_file(folder / "model.safetensors")
    plain = tmp_path / "plain"
    save_tokenizer(plain)
    BertModel(configuration()).save_pretrained(plain)
    lacking = {name: value for name, value in state.items() if "query_end_encoder.encoder.layer.1" not in name}
    for make, message in [
        (lambda: tmp_path, "not a phrase encoder: config"),
        (lambda: plain, "no query_start_encoder"),
        (lambda: with_weights(folder, tmp_path, lacking), "lacks weights"),
    ]:
        with pytest.raises(TourError, match=message):
            load_phrase_encoder(make())
