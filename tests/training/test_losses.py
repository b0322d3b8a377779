"""Losses agree with their definitions."""

import numpy as np
import pytest
import torch

from tour_pyserini.training.phrase_encoder import filter_loss, marginal_loss, side_loss


def test_marginal_loss_by_hand():
    logits = torch.log(torch.tensor([[1.0, 2.0, 5.0, 7.0]]))
    gold = torch.tensor([[True, False, True, False]])
    allowed = torch.tensor([[True, True, True, False]])
    assert marginal_loss(logits, gold, allowed).exp().tolist() == pytest.approx([8 / 6])
    assert marginal_loss(logits, gold, torch.ones_like(gold)).exp().tolist() == pytest.approx([15 / 6])


def test_side_loss_by_hand():
    """Two passages of three tokens in one dimension, and two questions."""
    tokens = torch.tensor([[[0.5], [1.0], [2.0]], [[-1.0], [3.0], [0.2]]])
    questions = torch.tensor([[1.0], [-2.0]])
    able = torch.tensor([[True, True, True], [True, True, False]])
    gold, known = torch.zeros(2, 2, 3, dtype=torch.bool), torch.zeros(2, 2, 3, dtype=torch.bool)
    gold[0, 0, 1] = known[0, 0, 1] = known[0, 1, 1] = True  # the first question's answer is in the other passage too
    gold[1, 1, 0] = known[1, 1, 0] = True
    inside, across = side_loss(questions, tokens, own=torch.tensor([0, 1]), gold=gold, able=able, known=known)
    e = np.exp
    first = -np.log(e(1.0) / (e(0.5) + e(1.0) + e(2.0)))
    second = -np.log(e(2.0) / (e(2.0) + e(-6.0)))
    assert float(inside) == pytest.approx((first + second) / 2)
    first = -np.log(e(1.0) / (e(0.5) + e(1.0) + e(2.0) + e(-1.0)))
    second = -np.log(e(2.0) / (e(2.0) + e(-6.0) + e(-1.0) + e(-2.0) + e(-4.0)))
    assert float(across) == pytest.approx((first + second) / 2)


def test_the_filter_loss_weighs_right_tokens_more():
    able = torch.tensor([[True, True, True, False]])
    gold = torch.tensor([[False, True, False, False]])
    logits = torch.tensor([[0.0, 0.0, 0.0, 99.0]])
    assert float(filter_loss(logits, gold, able)) == pytest.approx(np.log(2) * (1 + 3 + 1) / 3)
    sure = torch.tensor([[-20.0, 20.0, -20.0, 99.0]])
    assert float(filter_loss(sure, gold, able)) == pytest.approx(0, abs=1e-6)
