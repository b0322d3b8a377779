"""TouR once more, as plainly as it can be written: one query at a time, float64, brute force, no shared code."""

import math

import numpy as np


def retrieve(corpus, q, m):
    similarities = corpus @ q
    order = sorted(range(len(corpus)), key=lambda i: (-similarities[i], i))[:m]
    return order, similarities


def soft_max(values):
    top = max(values)
    exps = [math.exp(v - top) for v in values]
    return [e / sum(exps) for e in exps]


def nucleus(scores, tau, p):
    probabilities = soft_max([s / tau for s in scores])
    members, mass = [], 0.0
    for i in sorted(range(len(scores)), key=lambda i: (-probabilities[i], i)):
        if mass >= p:
            break
        members.append(i)
        mass += probabilities[i]
    return members


def tour(corpus, q0, score, c, hits):
    """Optimised vector, final list of (id, score), labels bought."""
    q, v, labels = q0.astype(float), None, {}
    for t in range(c.iterations + 1):
        order, similarities = retrieve(corpus, q, max(c.depth, hits))
        top = order[: c.depth]
        for i in top:
            labels.setdefault(i, score(i))
        s = [labels[i] for i in top]
        z = [c.similarity_scale * similarities[i] for i in top]
        members = nucleus(s, c.tau, c.p)
        if t == c.iterations:
            break
        stop = 0 in members if c.method == "hard" else s[0] >= max(s)
        if c.early_stopping and stop:
            break
        P = soft_max(z)
        if c.method == "hard":
            inside = soft_max([z[i] for i in members])
            T = [0.0] * len(top)
            for i, share in zip(members, inside, strict=True):
                T[i] = share
        else:
            T = soft_max([x / c.tau for x in s])
        g = sum((P[i] - T[i]) * corpus[top[i]] for i in range(len(top)))
        norm = np.linalg.norm(g)
        if norm > c.gradient_clip:
            g = g * c.gradient_clip / norm
        g = g + c.weight_decay * q
        v = g if v is None else c.momentum * v + g
        q = q - c.learning_rate * (c.iterations - t) / c.iterations * v
    chosen = top if c.final_list == "last" else list(labels)
    fused = {
        i: c.score_weight * labels[i] + (1 - c.score_weight) * c.similarity_scale * (corpus[i] @ q) for i in chosen
    }
    head = sorted(chosen, key=lambda i: -fused[i])
    tail = [i for i in order if i not in fused]
    return q, (head + tail)[:hits], fused, labels
