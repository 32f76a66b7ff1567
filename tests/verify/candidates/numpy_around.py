"""Functions around objects of NumPy: layers with weights as an argument, tables of positions, and what has neither."""

import numpy as np


class Tables:
    """Learned positions of this size, or sines and cosines, which are added to the input."""

    def __init__(self, width, learned, axes=2):
        rng = np.random.default_rng(0)
        angles = np.arange(64)[:, None] / 10_000 ** (np.arange(width) // 2 * 2 / width)
        sines = np.where(np.arange(width) % 2, np.cos(angles), np.sin(angles))
        self.pos_table = learned * rng.normal(size=(64, width)) if learned else sines
        self.pos_table = self.pos_table.reshape((1,) * (axes - 2) + self.pos_table.shape)

    def __call__(self, x):
        return x + self.pos_table[..., : x.shape[1], :]


class Functional:
    """An attention that takes its weights in each call, and states its number of heads."""

    def __init__(self, width, heads):
        self.width, self.heads = width, heads

    def init(self):
        rng = np.random.default_rng(1)
        return {name: rng.normal(size=(self.width, self.width)) for name in ("wq", "wk", "wv", "wo")}

    def __call__(self, x, params, scaled=True):
        q, k, v = (x @ params[name] for name in ("wq", "wk", "wv"))
        q, k, v = (each.reshape(*x.shape[:2], self.heads, -1).swapaxes(1, 2) for each in (q, k, v))
        logits = q @ k.swapaxes(-1, -2) / (q.shape[-1] ** 0.5 if scaled else 1)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return (weights @ v).swapaxes(1, 2).reshape(x.shape) @ params["wo"]


class PositionalEncoding(Tables):
    pass


class DotProduct:
    """It has no weights."""

    def forward(self, query, key, value):
        logits = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ value


def positions(learned):
    layer = PositionalEncoding(12, learned)
    return lambda x: layer(x)


def functional(scaled=True):
    layer = Functional(12, 3)
    params = layer.init()
    return lambda x: layer(x, params, scaled)


def attend(x, params, parts):
    return Functional(x.shape[-1], parts)(x, params)


def counted(parts=3):
    """The number of heads is known to the function alone."""
    params = Functional(12, parts).init()
    return lambda x: attend(x, params, parts)


def weightless():
    layer = DotProduct()
    return lambda query, key, value: layer.forward(query, key, value)


class Frozen:
    """An object whose attributes cannot be set after its constructor."""

    is_frozen = False

    def __setattr__(self, name, value):
        if self.is_frozen:
            raise AttributeError(f"{name} is frozen")
        object.__setattr__(self, name, value)


class Projection(Frozen):
    def __init__(self, rng, width):
        self.weight, self.bias = rng.normal(size=(width, width)), rng.normal(size=width)
        self.is_frozen = True

    def __call__(self, x):
        return x @ self.weight + self.bias


class FrozenAttention(Frozen):
    def __init__(self, width, heads, scaled=True):
        rng = np.random.default_rng(2)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (Projection(rng, width) for _ in range(4))
        self.heads, self.scaled = heads, scaled
        self.is_frozen = True

    def __call__(self, x):
        q, k, v = (layer(x) for layer in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (each.reshape(*x.shape[:2], self.heads, -1).swapaxes(1, 2) for each in (q, k, v))
        logits = q @ k.swapaxes(-1, -2) / (q.shape[-1] ** 0.5 if self.scaled else 1)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return self.o_proj((weights @ v).swapaxes(1, 2).reshape(x.shape))


class RoPE:
    """Rotary positions of queries or keys (B, P, H, O)."""

    def __init__(self, base=10_000.0):
        self.base = base

    def __call__(self, x):
        length, size = x.shape[1], x.shape[3]
        angles = np.arange(length)[:, None] / self.base ** (np.arange(0, size, 2) / size)
        cos, sin = (np.repeat(each, 2, -1)[:, None] for each in (np.cos(angles), np.sin(angles)))
        return x * cos + np.stack((-x[..., 1::2], x[..., ::2]), axis=-1).reshape(x.shape) * sin
