"""The tokens of a graph are those of its tokenizer, cut to the maximum length, also if threads share it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tour_pyserini.encoders.graph_runner import GraphRunner

tokenizers = pytest.importorskip("tokenizers")
processors = tokenizers.processors

SEP, CLS = ("[SEP]", 3), ("[CLS]", 2)
PROCESSORS = {
    "none": None,
    "bert": processors.BertProcessing(SEP, CLS),
    "end": processors.TemplateProcessing(single="$A [SEP]", pair="$A $B [SEP]", special_tokens=[SEP]),
    "bytes": processors.ByteLevel(),
}
TEXTS = ["", "who", "who wrote it", "wrote it [SEP] who " * 9, "unknown words " * 3]


def word_tokenizer(processor):
    words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "wrote", "it")
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
    if processor is not None:
        tokenizer.post_processor = processor
    return tokenizer


def runner(tokenizer, *, side="right", cut=None):
    """A runner without a graph."""
    made = GraphRunner.__new__(GraphRunner)
    made._tokenizer, made._side, made._cut = tokenizer, side, cut
    return made


@pytest.mark.parametrize("processor", PROCESSORS.values(), ids=PROCESSORS)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("length", [None, 4, 12])
def test_they_are_those_of_a_tokenizer_that_cuts(processor, side, length):
    plain = word_tokenizer(processor)
    if length:
        plain.enable_truncation(length, direction=side)
    expected = [encoding.ids for encoding in plain.encode_batch(TEXTS)]
    assert runner(word_tokenizer(processor), side=side).tokens(TEXTS, length) == expected
    assert runner(word_tokenizer(processor), side=side, cut=length).tokens(TEXTS) == expected


def test_threads_with_different_lengths_do_not_disturb_each_other():
    shared = runner(word_tokenizer(PROCESSORS["bert"]))
    lengths = [4, 9, 16, None]
    expected = [shared.tokens(TEXTS, length) for length in lengths]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: shared.tokens(TEXTS, lengths[number % 4]), range(400)))
    assert found == expected * 100
