"""Layers in small frameworks of their own: with tensors that hold an array of NumPy."""

import numpy as np


class Tensor:
    """A tensor whose gradient has its shape."""

    def __init__(self, data):
        self.data = np.asarray(data, float)
        self.grad = np.zeros_like(self.data)

    @property
    def shape(self):
        return self.data.shape


class Slotted:
    """A tensor without a `__dict__`, whose bias is a row."""

    __slots__ = ("data", "grad")

    def __init__(self, data):
        self.data, self.grad = np.asarray(data, float), None


class Passing:
    """A parameter that is called for its array, and has the array's attributes."""

    def __init__(self, value):
        self.value = np.asarray(value, float)

    def __call__(self):
        return self.value

    def __getattr__(self, name):
        return getattr(self.value, name)


class Linear:
    def __init__(self, inputs, outputs, turned, kind=Tensor):
        rng = np.random.default_rng(inputs + 7 * outputs)
        self.turned = turned
        self.weights = kind(rng.normal(size=(outputs, inputs) if turned else (inputs, outputs)))
        self.biases = kind(np.zeros((1, outputs) if kind is Slotted else outputs))

    def forward(self, x):
        kernel, bias = (each() if callable(each) else each.data for each in (self.weights, self.biases))
        return x @ (kernel.T if self.turned else kernel) + bias


class Attention:
    """Its kernels are (in, out), or (out, in) if `turned`."""

    def __init__(self, width, heads, turned=False, groups=0, kind=Tensor, scaled=True):
        self.num_heads, self.size, self.scaled = heads, width // heads, scaled
        few = (groups or heads) * width // heads
        self.q_proj, self.out_proj = (Linear(width, width, turned, kind) for _ in range(2))
        self.k_proj, self.v_proj = (Linear(width, few, turned, kind) for _ in range(2))

    def forward(self, x):
        q, k, v = (self._split(each.forward(x)) for each in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (np.repeat(each, self.num_heads // each.shape[1], axis=1) for each in (k, v))
        logits = q @ k.swapaxes(-1, -2) / (q.shape[-1] ** 0.5 if self.scaled else 1)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        mixed = powers / powers.sum(-1, keepdims=True) @ v
        return self.out_proj.forward(mixed.swapaxes(1, 2).reshape(x.shape))

    def _split(self, array):
        return array.reshape(*array.shape[:2], -1, self.size).swapaxes(1, 2)


class Norm:
    def __init__(self, width, eps=1e-5):
        self.eps, self.gain, self.shift = eps, Tensor(np.ones(width)), Tensor(np.zeros(width))

    def forward(self, x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt(x.var(-1, keepdims=True) + self.eps) * self.gain.data + self.shift.data


class Encoder:
    """The number of heads and the epsilon are stated by objects inside it."""

    def __init__(self, width, heads, inner, residual=True):
        self.attn, self.norm1, self.norm2 = Attention(width, heads), Norm(width), Norm(width)
        self.fc1, self.fc2 = Linear(width, inner, False), Linear(inner, width, False)
        self.residual = residual

    def forward(self, x):
        x = self.norm1.forward(x + self.attn.forward(x))
        fed = self.fc2.forward(np.maximum(self.fc1.forward(x), 0))
        return self.norm2.forward(x + fed if self.residual else fed)


def around(layer):
    """Return a function that refers to a layer, through another function that refers to the first."""

    def call(x, again=True):
        return candidate(x, False) if again else layer.forward(np.asarray(x))

    def candidate(x, again=True):
        return call(x, again)

    return candidate


def of_weights(scaled=True):
    """Return a function that refers to a dict of weights."""
    rng = np.random.default_rng(0)
    params = {name: {"w": rng.normal(size=(12, 12))} for name in ("q", "k", "v", "out")}

    def attention(x):
        q, k, v = ((x @ params[name]["w"]).reshape(*x.shape[:2], 3, 4).swapaxes(1, 2) for name in ("q", "k", "v"))
        logits = q @ k.swapaxes(-1, -2) / (2.0 if scaled else 1.0)
        powers = np.exp(logits - logits.max(-1, keepdims=True))
        mixed = powers / powers.sum(-1, keepdims=True) @ v
        return mixed.swapaxes(1, 2).reshape(x.shape) @ params["out"]["w"]

    return attention


class Wrapper:
    """An object that is called as a function is, and holds a layer."""

    def __init__(self, layer):
        self.layer = layer

    def __call__(self, x):
        return self.layer.forward(x)
