"""Functions that take all weights as one argument, right or with the mistake that `wrong` says, and their makers."""

from typing import NamedTuple

import numpy as np


class Weights(NamedTuple):
    into: np.ndarray  # query, key and value side by side
    into_b: np.ndarray
    out: np.ndarray


def draw_weights(rng, dim):
    return Weights(rng.normal(size=(dim, 3 * dim)), np.zeros(3 * dim), rng.normal(size=(dim, dim)))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def normed(x, g, b, small=1e-5):
    return g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + small) + b


def by_heads(x, heads):
    return x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)


def attended(q, k, v, hidden=None, power=0.5):
    logits = q @ k.swapaxes(-1, -2) / q.shape[-1] ** power
    if hidden is not None:
        logits = np.where(hidden, -1e9, logits)
    mixed = (softmax(logits) @ v).swapaxes(-2, -3)
    return mixed.reshape(*mixed.shape[:-2], -1)


def self_attention(w: Weights, x, n_head, wrong=""):
    """Take one sequence x (T, I) alone, and hide the future."""
    q, k, v = (by_heads(part, n_head) for part in np.split(x @ w.into + w.into_b, 3, axis=-1))
    future = np.triu(np.ones((len(x), len(x)), bool), k=1)
    return attended(q, k, v, None if wrong == "not causal" else future, 1.0 if wrong == "no root" else 0.5) @ w.out


def new_block(seed, m, z):
    """Here `m` is the width, and `z` the hidden width."""
    rng = np.random.default_rng(seed)
    matrices = {name: rng.normal(size=(m, m)) for name in ("query", "key", "value", "merge")}
    norms = [{"g": np.ones(m), "b": np.zeros(m)} for _ in range(2)]
    forward = {
        "up": rng.normal(size=(m, z)),
        "up_b": np.zeros(z),
        "down": rng.normal(size=(z, m)),
        "down_b": np.zeros(m),
    }
    return {"mha": matrices, "norms": norms, "mlp": forward}


def block(theta, x, heads, pad=None, wrong=""):
    """Take a padding mask (B, T) in which True hides."""
    mha, mlp, (first, second) = theta["mha"], theta["mlp"], theta["norms"]
    q, k, v = (by_heads(x @ mha[name], heads) for name in ("query", "key", "value"))
    hidden = None if pad is None else pad[:, None, :, None] if wrong == "rows" else pad[:, None, None, :]
    x = normed(x + attended(q, k, v, hidden) @ mha["merge"], **first)
    inner = np.maximum(x @ mlp["up"] + mlp["up_b"], 0) @ mlp["down"] + mlp["down_b"]
    return x + inner if wrong == "no norm" else normed(x + inner, **second)


def named(params, x, num_heads, wrong=""):
    """Take one sequence x (T, I) alone. Nothing beside it makes its weights, but their names tell what they are."""
    q, k, v = x @ params["W_q"] + params["b_q"], x @ params["W_k"], x @ params["W_v"]
    q, k, v = (by_heads(each, num_heads) for each in (q, k, v))
    return attended(q, k, v, power=1.0 if wrong == "no root" else 0.5) @ params["W_o"] + params["b_o"]


def lonely(params, x, num_heads):
    """Have no maker beside it that makes `params["nowhere"]`."""
    return by_heads(x @ params["nowhere"], num_heads)


def strict_block(theta, x, heads, is_pad):
    """Need the padding mask in every call."""
    return block(theta, x, heads, np.asarray(is_pad) & True)
