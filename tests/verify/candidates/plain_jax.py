"""Attention with JAX arrays: a function with its weights in a frozen dataclass, and a plain class."""

import dataclasses

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    q: jax.Array
    k: jax.Array
    v: jax.Array
    o: jax.Array


def init(key, d_model, n_heads, head_dim):
    into = (d_model, n_heads, head_dim)
    shapes = (into, into, into, (n_heads, head_dim, d_model))
    return Params(*(jax.random.normal(k, s) for k, s in zip(jax.random.split(key, 4), shapes, strict=True)))


@jax.jit
def attention(params: Params, x, mask=None):
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, w) for w in (params.q, params.k, params.v))
    logits = jnp.einsum("bthk,bshk->bhts", q, k) / jnp.sqrt(q.shape[-1])
    if mask is not None:
        logits = jnp.where(mask[:, None], logits, -1e30)
    return jnp.einsum("bhts,bshk,hkd->btd", jax.nn.softmax(logits), v, params.o)


class Attention:
    def __init__(self, rng, d_model, num_heads, power=0.5):
        self.heads, self.power = num_heads, power
        self.into = tuple(jax.random.normal(k, (d_model, d_model)) for k in jax.random.split(rng, 3))
        self.wo = jnp.eye(d_model)

    def __call__(self, x):
        split = lambda w: (x @ w).reshape(*x.shape[:2], self.heads, -1)  # noqa: E731
        q, k, v = map(split, self.into)
        scores = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k) / q.shape[-1] ** self.power)
        return jnp.einsum("bhts,bshk->bthk", scores, v).reshape(x.shape) @ self.wo
