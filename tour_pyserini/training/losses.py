"""Losses of phrase encoders and readers."""

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def marginal_loss(logits: Tensor, gold: Tensor, allowed: Tensor) -> Tensor:
    """- log of the probability of the gold entries among the allowed ones; [q] for logits [q, n].

    Args:
        logits: [q, n].
        gold: [q, n] true for right entries; at least one in each row.
        allowed: [q, n] true for entries that compete; includes the gold ones.
    """
    low = torch.finfo(logits.dtype).min
    return logits.masked_fill(~allowed, low).logsumexp(1) - logits.masked_fill(~gold, low).logsumexp(1)


def side_loss(questions: Tensor, tokens: Tensor, *, own: Tensor, gold: Tensor, able: Tensor, known: Tensor) -> Tensor:
    """In-passage and in-batch loss of one side (starts or ends) as [2]: means over the questions.

    Args:
        questions: [q, d].
        tokens: [p, t, d] of the batch's passages.
        own: [q] each question's passage.
        gold: [q, p, t] true where an answer to the question begins (or ends) in its own passage.
        able: [p, t] true for tokens that can begin (or end) phrases.
        known: [q, p, t] true where an answer begins (or ends) in any passage; in a passage that is not the question's
            own, such a token counts neither as right nor as wrong.
    """
    logits = torch.einsum("qd,ptd->qpt", questions, tokens)
    rows = torch.arange(len(questions))
    inside = marginal_loss(logits[rows, own], gold[rows, own], able[own])
    allowed = able.unsqueeze(0) & (~known | gold)
    across = marginal_loss(logits.flatten(1), gold.flatten(1), allowed.flatten(1))
    return torch.stack([inside.mean(), across.mean()])


def filter_loss(logits: Tensor, gold: Tensor, able: Tensor) -> Tensor:
    """Weighted binary cross-entropy of the filter, which predicts the tokens at which an answer begins (or ends).

    A right token weighs as much as all tokens of its passage together: search never finds an answer that is filtered
    out.

    Args:
        logits: [p, t] of one side.
        gold: [p, t] true where some question's answer begins (or ends).
        able: [p, t] true for tokens that can begin (or end) phrases.
    """
    weight = 1 + gold * (able.sum(1, keepdim=True) - 1)
    losses = binary_cross_entropy_with_logits(
        logits, gold.to(logits.dtype), weight=weight.to(logits.dtype), reduction="none"
    )
    return ((losses * able).sum(1) / able.sum(1).clamp(min=1)).mean()
