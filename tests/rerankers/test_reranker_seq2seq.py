import numpy as np
import pytest

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

WORDS = ["Query:", "Document:", "Relevant:", "who", "wrote", "hamlet", "the", "cat", "sat", "on", "mat"]


@pytest.fixture
def t5_folder(tmp_path):
    """Makes a random T5 with one token per word; tokens are spelled as in T5's vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    def make(answers=("▁true", "▁false")):
        words = ["<pad>", "</s>", "<unk>", *(f"▁{word}" for word in WORDS), *answers]
        tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
        torch.manual_seed(0)
        config = transformers.T5Config(
            vocab_size=len(words),
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=2,
            num_heads=2,
            decoder_start_token_id=0,
            initializer_factor=3.0,
        )
        folder = tmp_path / "t5"
        transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
        ).save_pretrained(folder)
        return folder

    return make


def plain(folder, text):
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    true, false = tokenizer.convert_tokens_to_ids(["▁true", "▁false"])
    with torch.no_grad():
        coded = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        logits = model(**coded, decoder_input_ids=torch.tensor([[0]])).logits[0, 0].double()
    return float(logits[true] - logits[false])


def test_the_score_is_true_minus_false(t5_folder):
    folder = t5_folder()
    pairs = [("who wrote hamlet", "the cat"), ("who", "the cat sat on the mat " * 5), ("hamlet", "")]
    scores = load_reranker(folder).predict(pairs)
    expected = [plain(folder, f"Query: {query} Document: {passage} Relevant:") for query, passage in pairs]
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(scores, expected, atol=1e-4)  # batches round differently on some processors


def test_the_passage_is_cut_and_the_query_kept(t5_folder):
    folder = t5_folder()
    # Ten tokens: Query: who wrote Document: the cat sat on Relevant: </s>
    (score,) = load_reranker(folder, max_length=10).predict([("who wrote", "the cat sat on the mat")])
    assert score == pytest.approx(plain(folder, "Query: who wrote Document: the cat sat on Relevant:"), abs=1e-5)


def test_a_query_that_leaves_no_room_is_cut_to_half_of_the_room(t5_folder):
    folder = t5_folder()
    query = " ".join(["who wrote hamlet"] * 4)
    (score,) = load_reranker(folder, max_length=10).predict([(query, "the cat sat on the mat")])
    assert score == pytest.approx(plain(folder, "Query: who wrote hamlet Document: the cat sat Relevant:"), abs=1e-5)


def test_a_tokenizer_without_tokens_for_true_and_false_is_refused(t5_folder):
    with pytest.raises(TourError, match="no token for 'false'"):
        load_reranker(t5_folder(answers=("▁true", "▁maybe")))


def test_the_fingerprint_depends_on_the_length(t5_folder):
    folder = t5_folder()
    assert load_reranker(folder, max_length=64).fingerprint != load_reranker(folder).fingerprint
