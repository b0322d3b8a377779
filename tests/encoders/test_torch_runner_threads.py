"""Threads that share an encoder of torch: the length that the model reads is that of each call."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from tour_pyserini.encoders.sentence_model import TorchRunner

pytest.importorskip("torch")


class LengthModel(list):
    """A model of one module; the vector of a text is the length that is read. It is slow, so that calls overlap."""

    def __init__(self):
        super().__init__([SimpleNamespace(auto_model=None)])
        self.max_seq_length, self.device, self.dtype = 512, SimpleNamespace(type="cpu"), "torch.float32"
        self.prompts, self.default_prompt_name, self.truncate_dim, self.tokenizer = {}, None, None, "a tokenizer"

    def encode(self, texts, **_):
        time.sleep(0.001)
        return np.full((len(texts), 2), self.max_seq_length)


def test_the_length_of_one_call_does_not_reach_another():
    runner = TorchRunner(LengthModel(), "query")
    lengths = [16, 32, None, 64] * 25
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda length: runner.vectors(["text"], prompt="", max_length=length)[0, 0], lengths))
    assert found == [length or 512 for length in lengths]
    assert runner.model.max_seq_length == 512


def test_it_can_be_sent_to_another_process():
    sent = pickle.loads(pickle.dumps(TorchRunner(LengthModel(), "query")))
    assert sent.vectors(["text"], prompt="", max_length=8).tolist() == [[8, 8]]
