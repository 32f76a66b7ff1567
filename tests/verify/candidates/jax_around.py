"""Functions and methods around layers of Equinox and flax.nnx."""

import equinox as eqx
import jax
from flax import nnx


def attend(layer, x, vmap=lambda each: each):
    q, k, v = (vmap(each)(x).reshape(*x.shape[:-1], layer.heads, -1) for each in (layer.q, layer.k, layer.v))
    size = q.shape[-1] if layer.scaled else 1
    weights = jax.nn.softmax(jax.numpy.einsum("...tho,...sho->...hts", q, k) / size**0.5)
    return vmap(layer.o)(jax.numpy.einsum("...hts,...sho->...tho", weights, v).reshape(x.shape))


class Equinox(eqx.Module):
    """It has no `__call__`."""

    q: eqx.nn.Linear
    k: eqx.nn.Linear
    v: eqx.nn.Linear
    o: eqx.nn.Linear
    heads: int
    scaled: bool

    def __init__(self, width, heads, scaled=True):
        keys = jax.random.split(jax.random.key(0), 4)
        self.q, self.k, self.v, self.o = (eqx.nn.Linear(width, width, key=key) for key in keys)
        self.heads, self.scaled = heads, scaled

    def forward(self, x_td):
        return attend(self, x_td, jax.vmap)

    def attend(self, x_td):
        return self.forward(x_td)


class Nnx(nnx.Module):
    def __init__(self, width, heads, scaled=True):
        self.q, self.k, self.v, self.o = (nnx.Linear(width, width, rngs=nnx.Rngs(0)) for _ in range(4))
        self.heads, self.scaled = heads, scaled

    def forward(self, x):
        return attend(self, x)

    def attend(self, x):
        return attend(self, x)


def itself(layer):
    return layer


def forward(layer):
    return layer.forward


def method(layer):
    return layer.attend


def around(layer):
    return lambda x: layer.forward(x)


def compiled(layer):
    return (nnx.jit if isinstance(layer, nnx.Module) else eqx.filter_jit)(lambda x: layer.forward(x))
