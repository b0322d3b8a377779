"""Options, tokens and batches of models that run here.

Two texts that are tokenised separately give the same pair as when the tokenizer gets them together.
"""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers import load_reranker
from tour_pyserini.rerankers.local_reranker import (
    CHUNK,
    FastPairTokens,
    Options,
    SlowPairTokens,
    pair_tokens,
    relevance_logits,
    truncation_strategy,
)

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
processors = tokenizers.processors


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"max_length": 3}, "maximum length"),
        ({"batch_size": 0}, "batch size"),
        ({"threads": 0}, "threads"),
        ({"backend": "jax"}, "back end"),
        ({"precision": "int4"}, "precision"),
        ({"precision": "int8", "backend": "torch"}, "int8"),
        ({"precision": "int8", "device": "cuda"}, "int8"),
        ({"dtype": "int3"}, "dtype"),
        ({"dtype": "bfloat16", "backend": "onnx"}, "torch"),
        ({"dtype": "float16", "precision": "int8"}, "torch"),
    ],
)
def test_impossible_options_are_refused(wrong, word):
    with pytest.raises(TourError, match=word):
        Options(**wrong)


def test_one_logit_is_the_score_two_give_their_difference_three_are_refused():
    assert relevance_logits(np.array([1.0, 2.0]), "m").tolist() == [1.0, 2.0]
    assert relevance_logits(np.array([[1.0], [2.0]]), "m").tolist() == [1.0, 2.0]
    assert relevance_logits(np.array([[1.0, 4.0], [2.0, 1.0]]), "m").tolist() == [3.0, -1.0]
    with pytest.raises(TourError, match="3 outputs"):
        relevance_logits(np.zeros((2, 3)), "m")


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
    assert load_reranker(folder).predict([]).shape == (0,)


def test_an_interruption_stops_without_scoring_the_other_pairs(onnx_folder, monkeypatch):
    reranker = load_reranker(onnx_folder(), threads=2)
    ran = []
    monkeypatch.setattr(type(reranker._runner), "__call__", lambda _, rows: ran.append(time.sleep(0.01)) or np.zeros(1))

    def interrupt(_):
        raise KeyboardInterrupt

    reranker.on_progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        reranker.predict([("who", f"cat {number}") for number in range(500)])
    assert len(ran) < 50


SEP, CLS = ("[SEP]", 3), ("[CLS]", 2)
PROCESSORS = {
    "none": None,
    "bert": processors.BertProcessing(SEP, CLS),
    "roberta": processors.RobertaProcessing(SEP, CLS),
    "template": processors.TemplateProcessing(
        single="[CLS] $A", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[SEP, CLS]
    ),
}
# Words, emoji, other scripts, names of special tokens, empty texts and long texts.
TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from(["who", "wrote", "😀", "日本", "é", "[SEP]", "🤷🏽"]), max_size=40).map(" ".join),
    st.integers(0, 60).map(lambda count: "cat " * count),
)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8)
LENGTHS = st.integers(8, 40)


def byte_tokenizer(processor):
    """One token per byte, so that no text is unknown."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    if processor is not None:
        tokenizer.post_processor = processor
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    return tokenizer


def together(tokenizer, pair, length):
    """The tokenizer's own result for one pair."""
    room = length - tokenizer.num_special_tokens_to_add(is_pair=True)
    tokenizer.no_truncation()
    query = len(tokenizer.encode(pair[0], add_special_tokens=False))
    tokenizer.enable_truncation(length, strategy=truncation_strategy(query, room))
    coded = tokenizer.encode(*pair)
    return {"input_ids": coded.ids, "attention_mask": coded.attention_mask, "token_type_ids": coded.type_ids}


def listed(rows):
    return [{name: np.asarray(values).tolist() for name, values in row.items()} for row in rows]


def of_transformers(side):
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = byte_tokenizer(PROCESSORS["bert"])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, truncation_side=side, **names)


@pytest.mark.parametrize("processor", PROCESSORS.values(), ids=PROCESSORS)
@settings(max_examples=40, deadline=None)
@given(pairs=PAIRS, length=LENGTHS)
def test_texts_tokenised_separately_give_the_same_pair_as_together(processor, pairs, length):
    rows = FastPairTokens(byte_tokenizer(processor), max_length=length).rows(pairs)
    other = byte_tokenizer(processor)
    assert listed(rows) == [together(other, pair, length) for pair in pairs]
    assert max(len(row["input_ids"]) for row in rows) <= length


@settings(max_examples=40, deadline=None)
@given(pairs=PAIRS, length=LENGTHS, side=st.sampled_from(["right", "left"]))
def test_a_fast_tokenizer_of_transformers_gives_the_same_rows_as_a_call_of_it(pairs, length, side):
    fast = pair_tokens(of_transformers(side), max_length=length).rows(pairs)
    called = SlowPairTokens(of_transformers(side), max_length=length).rows(pairs)
    assert listed(fast) == listed(called)


@pytest.mark.parametrize("make", [pair_tokens, SlowPairTokens])
def test_threads_that_share_it_get_the_rows_of_one_thread(make):
    """Queries that leave room for the passage and queries that do not, which are cut in different ways."""
    tokens = make(of_transformers("right"), max_length=32)
    calls = [[("who " * (number % 12 + 1), "wrote it " * (20 - number))] * 3 for number in range(20)]
    expected = [listed(tokens.rows(pairs)) for pairs in calls]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: listed(tokens.rows(calls[number % 20])), range(400)))
    assert found == expected * 20


@pytest.mark.parametrize("make", [pair_tokens, SlowPairTokens])
def test_it_can_be_sent_to_another_process(make):
    tokens = make(of_transformers("right"), max_length=32)
    pairs = [("who " * 20, "wrote " * 20), ("who", "wrote " * 20)]
    assert listed(pickle.loads(pickle.dumps(tokens)).rows(pairs)) == listed(tokens.rows(pairs))


def test_real_texts_give_the_same_rows_as_a_call_of_a_real_tokenizer(shared):
    folder = shared / "models" / "ms-marco-MiniLM-L-12-v2"
    corpus = (shared / "collections" / "scifact" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:60]
    pairs = [("do statins prevent stroke?" * times, text) for times in (1, 40, 200) for text in corpus]
    fast = pair_tokens(transformers.AutoTokenizer.from_pretrained(folder), max_length=256).rows(pairs)
    called = SlowPairTokens(transformers.AutoTokenizer.from_pretrained(folder), max_length=256).rows(pairs)
    assert listed(fast) == listed(called)
