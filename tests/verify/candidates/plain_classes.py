"""Plain classes that compute with NumPy, right or with the mistake that `wrong` says."""

import numpy as np


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class SelfAttention:
    def __init__(self, d_model, num_heads, wrong=""):
        rng = np.random.default_rng(0)
        self.h, self.wrong = num_heads, wrong
        self.W_q, self.W_k, self.W_v, self.W_o = (rng.normal(size=(d_model, d_model)) for _ in range(4))

    def _split(self, x):
        return x.reshape(*x.shape[:2], self.h, -1).transpose(0, 2, 1, 3)

    def forward(self, x, mask=None):
        q, k, v = (self._split(x @ w) for w in (self.W_q, self.W_k, self.W_v))
        logits = q @ k.swapaxes(-1, -2)
        if self.wrong != "no scale":
            logits = logits / np.sqrt(k.shape[-1])
        if mask is not None:
            logits = np.where(mask, logits, -1e9)
        mixed = softmax(logits) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ self.W_o


class Norm:
    def __init__(self, width):
        self.g, self.b = np.ones(width), np.zeros(width)

    def __call__(self, x):
        return self.g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) + self.b


class EncoderLayer:
    def __init__(self, d_model, num_heads, d_ff, wrong=""):
        rng = np.random.default_rng(1)
        self.attention, self.wrong = SelfAttention(d_model, num_heads), wrong
        self.norm1, self.norm2 = Norm(d_model), Norm(d_model)
        self.W1, self.b1 = rng.normal(size=(d_model, d_ff)), np.zeros(d_ff)
        self.W2, self.b2 = rng.normal(size=(d_ff, d_model)), np.zeros(d_model)

    def __call__(self, x, mask=None):
        x = self.norm1(x + self.attention.forward(x, mask))
        inner = np.maximum(x @ self.W1 + self.b1, 0) @ self.W2 + self.b2
        return self.norm2(inner if self.wrong == "no residual" else x + inner)


class EncoderOfDicts:
    """Its weights are in a list and a dict."""

    def __init__(self, d_model, num_heads, d_ff, wrong=""):
        rng = np.random.default_rng(1)
        self.attention, self.wrong = SelfAttention(d_model, num_heads), wrong
        self.norms = [Norm(d_model), Norm(d_model)]
        self.p = {"W1": rng.normal(size=(d_model, d_ff)), "b1": np.zeros(d_ff)}
        self.p |= {"W2": rng.normal(size=(d_ff, d_model)), "b2": np.zeros(d_model)}

    def __call__(self, x, mask=None):
        x = self.norms[0](x + self.attention.forward(x, mask))
        inner = np.maximum(x @ self.p["W1"] + self.p["b1"], 0) @ self.p["W2"] + self.p["b2"]
        return self.norms[1](inner if self.wrong == "no residual" else x + inner)


class Embedding:
    def __init__(self, vocab_size, d_model, max_len=64, wrong=""):
        self.table = np.random.default_rng(2).normal(size=(vocab_size, d_model))
        place, i = np.arange(max_len)[:, None], np.arange(0, d_model, 2)
        angles = place / 10000 ** ((2 * i if wrong == "twice" else i) / d_model)
        self.pe = np.zeros((max_len, d_model))
        self.pe[:, 0::2], self.pe[:, 1::2] = np.sin(angles), np.cos(angles)[:, : d_model // 2]
        self.width = d_model

    def __call__(self, ids):
        return self.table[ids] * np.sqrt(self.width) + self.pe[: ids.shape[1]]


class Affine:
    """Makes its weights in the first call, and keeps what it needs for a backward pass."""

    def __init__(self, units):
        self.units, self.weights, self.bias = units, None, None

    def forward(self, x):
        if self.weights is None:
            self.weights = np.random.default_rng(0).normal(size=(x.shape[-1], self.units))
            self.bias = np.zeros((1, self.units))
            self.d_weights, self.d_bias = np.zeros_like(self.weights), np.zeros_like(self.bias)
        self.input = x
        return x @ self.weights + self.bias


class LazyAttention:
    def __init__(self, num_heads, key_dim, wrong=""):
        self.num_heads, self.wrong = num_heads, wrong
        self.query, self.key, self.value = (Affine(num_heads * key_dim) for _ in range(3))
        self.output = None

    def forward_pass(self, query, key, value, mask=None):
        if self.output is None:
            self.output = Affine(query.shape[-1])
        self.q, self.k, self.v = (
            part.forward(x).reshape(*x.shape[:2], self.num_heads, -1).transpose(0, 2, 1, 3)
            for part, x in ((self.query, query), (self.key, key), (self.value, value))
        )
        logits = self.q @ self.k.swapaxes(-1, -2)
        if self.wrong != "no scale":
            logits = logits / np.sqrt(self.q.shape[-1])
        if mask is not None:
            logits = np.where(mask[:, None], logits, -1e30)
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        self.scores = powers / powers.sum(axis=-1, keepdims=True)
        mixed = (self.scores @ self.v).transpose(0, 2, 1, 3)
        return self.output.forward(mixed.reshape(*query.shape[:2], -1))


class PositionalEncoding:
    """Its flag for training is on unless a call says otherwise."""

    def __init__(self, max_len, d_model, dropout_rate=0.0):
        self.rate = dropout_rate
        angles = np.arange(max_len)[:, None] / 10000 ** (np.arange(d_model) // 2 * 2 / d_model)
        self.pe = np.where(np.arange(d_model) % 2 == 0, np.sin(angles), np.cos(angles))[None]

    def forward(self, x, training=True):
        x = x + self.pe[:, : x.shape[1]]
        kept = np.random.default_rng().random(x.shape) >= self.rate
        return x * kept / (1 - self.rate) if training else x
