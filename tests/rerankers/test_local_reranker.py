"""Options, tokens and batches of models that run here."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.errors import TourError
from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.rerankers.local_reranker import _CHUNK, FilePairTokens, Options, PairTokens

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
processors = tokenizers.processors


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"max_length": 3}, "max_length"),
        ({"batch_size": 0}, "batch_size"),
        ({"backend": "jax"}, "backend"),
        ({"precision": "int8", "backend": "torch"}, "int8"),
        ({"dtype": "bfloat16", "backend": "onnx"}, "torch"),
        ({"dtype": "float16", "precision": "int8"}, "torch"),
    ],
)
def test_impossible_options_are_refused(wrong, word):
    with pytest.raises(TourError, match=word):
        Options(**wrong)


def test_scores_do_not_depend_on_batches_and_progress_counts_every_pair(onnx_folder, pairs):
    folder = onnx_folder()
    many = pairs * (_CHUNK // len(pairs) + 2)  # more than one chunk
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


def of_transformers(side, processor="bert"):
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    names["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer = byte_tokenizer(PROCESSORS[processor])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, truncation_side=side, **names)


def listed(rows):
    return [{name: np.asarray(values).tolist() for name, values in row.items()} for row in rows]


@pytest.mark.parametrize("processor", PROCESSORS)
@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8), length=st.integers(8, 40))
def test_a_tokenizer_gives_the_same_rows_with_transformers_and_without(processor, pairs, length):
    """The passage is cut, and never the query unless it leaves no room."""
    tokenizer = of_transformers("right", processor)
    rows = listed(FilePairTokens(byte_tokenizer(PROCESSORS[processor]), max_length=length).rows(pairs))
    assert rows == listed(PairTokens(tokenizer, max_length=length).rows(pairs))
    room = length - tokenizer.num_special_tokens_to_add(pair=True)
    for (query, passage), row in zip(pairs, rows, strict=True):
        strategy = "only_second" if len(tokenizer.tokenize(query)) < room else "longest_first"
        alone = tokenizer([query], [passage], truncation=strategy, max_length=length)
        assert row["input_ids"] == alone["input_ids"][0]
        assert len(row["input_ids"]) <= length


@pytest.mark.parametrize("kind", [PairTokens, FilePairTokens])
def test_threads_and_processes_that_share_it_get_the_rows_of_one_thread(kind):
    """Queries that leave room for the passage and queries that do not, which are cut in different ways."""
    tokens = kind(of_transformers("left") if kind is PairTokens else byte_tokenizer(PROCESSORS["bert"]), max_length=32)
    calls = [[("who " * (number % 12 + 1), "wrote it " * (20 - number))] * 3 for number in range(20)]
    expected = [listed(tokens.rows(pairs)) for pairs in calls]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: listed(tokens.rows(calls[number % 20])), range(400)))
    assert found == expected * 20
    assert [listed(pickle.loads(pickle.dumps(tokens)).rows(pairs)) for pairs in calls] == expected
    if kind is PairTokens:  # a text is cut on the side that its tokenizer says
        (row,) = PairTokens(of_transformers("left"), max_length=8).rows([("ab", "cdefgh")])
        read = of_transformers("left").decode(row["input_ids"], skip_special_tokens=True)
        assert read.replace(" ", "") == "abfgh"
