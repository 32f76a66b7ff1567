"""Functions in the styles of authors who had not read kmha."""

import numpy as np


def make_params(rng, d, n, h):
    made = {name: rng.normal(size=(d, n, h)) * d**-0.5 for name in "qkv"}
    return {**made, "o": rng.normal(size=(n, h, d)) * (n * h) ** -0.5}


def local(params, x, *, window):
    """Each token sees itself and the `window - 1` tokens before it."""
    q, k, v = (np.einsum("BLD,DNH->BLNH", x, kernel) for kernel in (params["q"], params["k"], params["v"]))
    logits = np.einsum("BTNH,BSNH->BNTS", q, k) * q.shape[-1] ** -0.5
    delta = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
    weights = softmax(np.where((delta >= 0) & (delta < window), logits, -2e38))
    return np.einsum("BTNH,NHD->BTD", np.einsum("BNTS,BSNH->BTNH", weights, v), params["o"])


def local_wrong(params, x, *, window):
    q, k, v = (np.einsum("BLD,DNH->BLNH", x, kernel) for kernel in (params["q"], params["k"], params["v"]))
    logits = np.einsum("BTNH,BSNH->BNTS", q, k)
    delta = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
    weights = softmax(np.where((delta >= 0) & (delta < window), logits, -2e38))
    return np.einsum("BTNH,NHD->BTD", np.einsum("BNTS,BSNH->BTNH", weights, v), params["o"])


def alibi_slopes(n_heads):
    power = 2 ** int(np.log2(n_heads))
    slopes = (2.0 ** (-8.0 / power)) ** np.arange(1, power + 1)
    between = (2.0 ** (-4.0 / power)) ** np.arange(1, 1 + 2 * (n_heads - power), 2)
    return np.concatenate([slopes, between])


def with_biases(w_qkv, w_out, x, n_heads):
    """w_qkv: (d, 3 * d), w_out: (d, d), x: (t, d)"""
    t, d = x.shape
    q, k, v = (x @ w_qkv).reshape(t, 3, n_heads, d // n_heads).transpose(1, 2, 0, 3)
    bias = alibi_slopes(n_heads)[:, None, None] * np.arange(t)  # a constant of each row from the usual form
    logits = np.where(np.tri(t) > 0, q @ k.swapaxes(1, 2) / (d // n_heads) ** 0.5 + bias, -1e30)
    return (softmax(logits) @ v).transpose(1, 0, 2).reshape(t, d) @ w_out


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)
