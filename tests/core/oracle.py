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


def standard(values):
    values = np.asarray(values, dtype=float)
    spread = values.std()
    return (values - values.mean()) / spread if spread > 1e-9 * abs(values).max() else np.zeros(len(values))


def default(corpus, q0, scores, signal, c):
    """Optimised vector, final list of (id, score), labels: the method `tour` with at most one signal for all documents.

    All documents fit into the sample on which signals are standardised.
    """
    everything = range(len(corpus))
    first = corpus @ q0
    sd0 = first.std() or 1.0
    offset = np.zeros(len(corpus))
    if signal is not None and signal.std() > 0:
        offset = c.signal_weight * sd0 * (signal - signal.mean()) / signal.std()
    q, labels = q0, {}
    ranked = sorted(((i, first[i] + offset[i]) for i in everything), key=lambda one: -one[1])
    order = [i for i, _ in ranked]
    while True:
        new = [i for i in order if i not in labels][: max(min(c.depth, c.budget - len(labels)), 0)]
        if not new:
            return q, ranked, labels
        labels |= {i: scores[i] for i in new}
        known = list(labels)
        z = standard([labels[i] for i in known])
        w = soft_max(list(z))
        u = np.linalg.norm(q0) / np.sqrt((corpus[known] ** 2).sum(axis=1).mean())
        q = q0 + c.step * u * sum((w[j] - 1 / len(known)) * corpus[i] for j, i in enumerate(known))
        now = corpus @ q
        level = np.mean(first[known]) - np.mean(now[known])
        final = {i: now[i] + offset[i] + level for i in everything}
        beta = c.reranker_weight * (2 if signal is None else 1)
        final |= {i: first[i] + offset[i] + beta * sd0 * math.exp(z[j]) for j, i in enumerate(known)}
        ranked = sorted(final.items(), key=lambda one: -one[1])
        order = sorted(everything, key=lambda i: -(now[i] + offset[i]))
        if c.early_stopping and len({i for i, _ in ranked[:10]} & set(new)) <= 1:
            return q, ranked, labels
