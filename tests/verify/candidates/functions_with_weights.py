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


def make_single_params(d_model, d_ff, seed=0):
    rng = np.random.default_rng(seed)
    kernels = {name: rng.normal(size=(d_model, d_model)) for name in ("W_Q", "W_K", "W_V", "W_O")}
    forward = {"W1": rng.normal(size=(d_model, d_ff)), "b1": np.zeros(d_ff)}
    forward |= {"W2": rng.normal(size=(d_ff, d_model)), "b2": np.zeros(d_model)}
    norms = {"g1": np.ones(d_model), "be1": np.zeros(d_model), "g2": np.ones(d_model), "be2": np.zeros(d_model)}
    return {**kernels, **forward, **norms}


def single_block(x, p, wrong=""):
    """Take one sequence x (T, I) alone, and have one head."""
    q, k, v = (normed(x, p["g1"], p["be1"]) @ p[name] for name in ("W_Q", "W_K", "W_V"))
    x = x + softmax(q @ k.T / q.shape[1] ** (1.0 if wrong else 0.5)) @ v @ p["W_O"]
    return x + np.maximum(normed(x, p["g2"], p["be2"]) @ p["W1"] + p["b1"], 0) @ p["W2"] + p["b2"]


WIDTH, NUM_HEADS, SIZE, HIDDEN = 4, 2, 2, 2


def create_fixed_weights():
    """Take no sizes: they are numbers of this module."""
    rng = np.random.default_rng(0)
    into = {name: rng.normal(size=(NUM_HEADS, WIDTH, SIZE)) for name in ("wq", "wk", "wv")}
    forward = {"ff_up": rng.normal(size=(WIDTH, HIDDEN)), "ff_up_b": np.zeros(HIDDEN)}
    forward |= {"ff_down": rng.normal(size=(HIDDEN, WIDTH)), "ff_down_b": np.zeros(WIDTH)}
    return {**into, "wo": rng.normal(size=(NUM_HEADS * SIZE, WIDTH)), **forward}


def fixed_attention(x, weights, wrong=""):
    """Take one sequence x (T, I) alone. The maker makes other weights too."""
    heads = []
    for head in range(NUM_HEADS):
        q, k, v = (x @ weights[name][head] for name in ("wq", "wk", "wv"))
        heads.append(softmax(q @ k.T / SIZE ** (1.0 if wrong else 0.5)) @ v)
    return np.concatenate(heads, axis=1) @ weights["wo"]


def fixed_block(x, weights, wrong=""):
    x = normed(x + fixed_attention(x, weights), 1.0, 0.0)
    inner = np.maximum(x @ weights["ff_up"] + weights["ff_up_b"], 0) @ weights["ff_down"] + weights["ff_down_b"]
    return x + inner if wrong else normed(x + inner, 1.0, 0.0)


def init(small=8, mlp_dim=20, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"Q": (small, small), "K": (small, small), "V": (small, small), "O": (small, small)}
    shapes |= {"up_w": (small, mlp_dim), "down_w": (mlp_dim, small), "up_c": (mlp_dim,), "down_c": (small,)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def with_defaults(x, p, heads=2, wrong=""):
    """All arguments of the function that makes the weights have defaults."""
    q, k, v = (by_heads(x @ p[name], heads) for name in ("Q", "K", "V"))
    x = normed(x + attended(q, k, v, power=1.0 if wrong == "no root" else 0.5) @ p["O"], 1.0, 0.0)
    return normed(x + np.maximum(x @ p["up_w"] + p["up_c"], 0) @ p["down_w"] + p["down_c"], 1.0, 0.0)
