"""A tokenizer that gives numbers beyond the model's vocabulary is refused in one sentence."""

import json

import pytest
from tiny_models import SIZES, WORDS, save_modules, save_static, save_tokenizer

from tour_pyserini.encoders.loading import load_document_encoder, load_query_encoder
from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.loading import load_reranker

pytestmark = pytest.mark.usefixtures("own_cache")
transformers = pytest.importorskip("transformers")


def save_classifier(folder, _):
    sizes = {**SIZES, "vocab_size": len(WORDS), "pad_token_id": 0, "num_labels": 1}
    transformers.BertForSequenceClassification(transformers.BertConfig(**sizes)).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.mark.parametrize(
    ("save", "load"),
    [
        (save_classifier, lambda folder: load_reranker(folder, backend="torch", max_length=32).predict),
        (save_classifier, lambda folder: load_reranker(folder, backend="onnx", max_length=32).predict),
        (save_modules, lambda folder: load_query_encoder(folder, backend="torch").encode_batch),
        (save_modules, lambda folder: load_document_encoder(folder, backend="torch").encode),
        (lambda folder, _: save_static(folder), lambda folder: load_query_encoder(folder).encode_batch),
    ],
)
def test_a_number_that_the_weights_do_not_have_is_refused(tmp_path, save, load):
    folder = save(tmp_path / "model", "bert")
    for path in folder.rglob("tokenizer.json"):
        content = json.loads(path.read_text())
        content["model"]["vocab"]["h"] = 9_999
        path.write_text(json.dumps(content))
    work, known, unknown = load(str(folder)), ["a b", "c"], ["a b", "c h", "d"]
    if save is save_classifier:
        known, unknown = ([(text, "c d") for text in texts] for texts in (known, unknown))
    work(known)
    with pytest.raises(TourError, match=r"tokenizer or the maximum length of .* does not fit its weights") as refusal:
        work(unknown)
    assert "\n" not in str(refusal.value)
