"""Batches of similar lengths, and padding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tour_pyserini.support.model_files import length_sorted_batches, padded

LENGTHS = st.lists(st.integers(0, 600), max_size=200)
LARGEST = st.none() | st.integers(1, 20)


@given(LENGTHS, st.integers(1, 3000), LARGEST)
def test_a_batch_is_as_large_as_budget_and_size_allow(lengths, budget, largest):
    batches = list(length_sorted_batches(lengths, budget=budget, largest=largest))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    longest = [max(1, *(lengths[index] for index in batch)) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for number, batch in enumerate(batches):
        assert len(batch) == 1 or len(batch) * longest[number] <= budget
        assert largest is None or len(batch) <= largest
        if number < len(batches) - 1:
            assert (len(batch) + 1) * longest[number] > budget or len(batch) == largest


def test_rows_are_padded_right_or_left():
    rows = [{"input_ids": [5, 6], "attention_mask": [1, 1]}, {"input_ids": [7], "attention_mask": [1]}]
    right = padded(rows, {"input_ids": 9})
    assert right["input_ids"].tolist() == [[5, 6], [7, 9]]
    assert right["attention_mask"].tolist() == [[1, 1], [1, 0]]
    left = padded(rows, {"input_ids": 9}, left=True)
    assert left["input_ids"].tolist() == [[5, 6], [9, 7]]
    assert left["attention_mask"].tolist() == [[1, 1], [0, 1]]
    assert left["input_ids"].dtype == np.int64
