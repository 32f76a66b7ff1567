"""Functions whose weights are variables of the module, as in a notebook."""

import dataclasses
import types

import numpy as np

rng = np.random.default_rng(0)
num_heads = 3
params = {name: rng.normal(size=(12, 12)) / 4 for name in ("wq", "wk", "wv", "wo")}
matrices = [rng.normal(size=(12, 12)) / 4 for _ in range(4)]
single = {name: rng.normal(size=(12, 12)) for name in ("q", "k", "v")}
W_q, W_k, W_v = (rng.normal(size=(8, 6)) for _ in range(3))
transposed = {f"W{name}": rng.normal(size=(6, 8)) for name in ("q", "k", "v")}

w_q, w_k, w_v = ([rng.normal(size=(12, 4)) for _ in range(num_heads)] for _ in range(3))
w_o = rng.normal(size=(12, 12))
W_wide, causal = rng.normal(size=(8, 7)), np.tril(np.ones((64, 64)))


@dataclasses.dataclass(frozen=True)
class Weights:
    wq: np.ndarray
    wk: np.ndarray
    wv: np.ndarray
    wo: np.ndarray


record = Weights(*(rng.normal(size=(12, 12)) / 4 for _ in range(4)))
names = types.SimpleNamespace(q=rng.normal(size=(12, 12)), k=rng.normal(size=(12, 12)), v=rng.normal(size=(12, 12)))


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def split(x):
    return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)


def several_heads(x, weights, scale=2.0):
    q, k, v, o = weights
    q, k, v = (split(x @ each) for each in (q, k, v))
    return (softmax(q @ k.swapaxes(-1, -2) / scale) @ v).swapaxes(1, 2).reshape(x.shape) @ o


def of_dict(x):
    return several_heads(x, (params["wq"], params["wk"], params["wv"], params["wo"]))


def of_record(x):
    return several_heads(x, (record.wq, record.wk, record.wv, record.wo))


def query_of_names_twice(x):
    q, v = x @ names.q, x @ names.v
    return softmax(q @ q.swapaxes(-1, -2) / 12**0.5) @ v


def of_list(x):
    return several_heads(x, matrices)


def without_scale(x, weights=matrices):
    return several_heads(x, weights, 1.0)


def one_head(x, mask=None):
    logits = (x @ single["q"]) @ (x @ single["k"]).swapaxes(-1, -2) / 12**0.5
    return softmax(logits if mask is None else np.where(mask, logits, -1e9)) @ (x @ single["v"])


def of_variables(X):
    return softmax(X @ W_q @ (X @ W_k).T / np.sqrt(6)) @ X @ W_v


def scaled_by_features(X):
    return softmax(X @ W_q @ (X @ W_k).T / np.sqrt(8)) @ X @ W_v


def of_transposed(x):
    q, k, v = (x @ each.T for each in transposed.values())
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(6)) @ v


def of_list_per_head(x):
    heads = [softmax(x @ q @ (x @ k).T / 2) @ x @ v for q, k, v in zip(w_q, w_k, w_v, strict=True)]
    return np.concatenate(heads, -1) @ w_o


def of_wide_values(X):
    return softmax(X @ W_q @ (X @ W_k).T / np.sqrt(6)) @ X @ W_wide


def of_causal(X):
    visible = causal[: len(X), : len(X)]
    return softmax(np.where(visible, X @ W_q @ (X @ W_k).T / np.sqrt(6), -np.inf)) @ X @ W_v
