"""Tokens and batches of models that run here."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tour_pyserini.rerankers.loading import load_reranker
from tour_pyserini.rerankers.local_reranker import _CHUNK, FilePairTokens, PairTokens

tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("transformers")

from reranker_families import tokenizer  # noqa: E402


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


LAYOUTS = ("plain", "bert", "bos")
# Words, emoji, other scripts, names of special tokens, empty texts and long texts.
TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(st.sampled_from(["who", "wrote", "😀", "日本", "é", "</s>", "🤷🏽"]), max_size=40).map(" ".join),
    st.integers(0, 60).map(lambda count: "cat " * count),
)


def of_transformers(layout, side="right"):
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return tokenizer(layout=layout, truncation_side=side, model_input_names=names)


def from_file(layout):
    return tokenizers.Tokenizer.from_str(of_transformers(layout).backend_tokenizer.to_str())


def listed(rows):
    return [{name: np.asarray(values).tolist() for name, values in row.items()} for row in rows]


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=40, deadline=None)
@given(pairs=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8), length=st.integers(8, 40))
def test_a_tokenizer_gives_the_same_rows_with_transformers_and_without(layout, pairs, length):
    """The passage is cut, and never the query unless it leaves no room."""
    known = of_transformers(layout)
    rows = listed(FilePairTokens(from_file(layout), max_length=length).rows(pairs))
    assert rows == listed(PairTokens(known, max_length=length).rows(pairs))
    room = length - known.num_special_tokens_to_add(pair=True)
    for (query, passage), row in zip(pairs, rows, strict=True):
        strategy = "only_second" if len(known.tokenize(query)) < room else "longest_first"
        alone = known([query], [passage], truncation=strategy, max_length=length)
        assert row["input_ids"] == alone["input_ids"][0]
        assert len(row["input_ids"]) <= length


@pytest.mark.parametrize("kind", [PairTokens, FilePairTokens])
def test_threads_and_processes_that_share_it_get_the_rows_of_one_thread(kind):
    """Queries that leave room for the passage and queries that do not, which are cut in different ways."""
    tokens = kind(of_transformers("bert", "left") if kind is PairTokens else from_file("bert"), max_length=32)
    calls = [[("who " * (number % 12 + 1), "wrote it " * (20 - number))] * 3 for number in range(20)]
    expected = [listed(tokens.rows(pairs)) for pairs in calls]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: listed(tokens.rows(calls[number % 20])), range(400)))
    assert found == expected * 20
    assert [listed(pickle.loads(pickle.dumps(tokens)).rows(pairs)) for pairs in calls] == expected


def test_a_text_is_cut_on_the_side_that_its_tokenizer_says():
    known = of_transformers("bert", "left")
    (row,) = PairTokens(known, max_length=8).rows([("zx", "qzqxqj")])  # one token for each letter
    assert known.decode(row["input_ids"], skip_special_tokens=True).replace(" ", "") == "zxxqj"
