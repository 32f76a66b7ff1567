"""Equinox modules as people write them: one item at a time, with a key of random numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Attention(eqx.Module):
    """Self-attention with a `Linear` each."""

    query_proj: eqx.nn.Linear
    key_proj: eqx.nn.Linear
    value_proj: eqx.nn.Linear
    output_proj: eqx.nn.Linear
    dropout: eqx.nn.Dropout
    num_heads: int = eqx.field(static=True)
    wrong: str = eqx.field(static=True)

    def __init__(self, embed_dim, num_heads, dropout_rate=0.0, wrong="", *, key):
        keys = jax.random.split(key, 4)
        self.query_proj, self.key_proj, self.value_proj, self.output_proj = (
            eqx.nn.Linear(embed_dim, embed_dim, key=each) for each in keys
        )
        self.dropout, self.num_heads, self.wrong = eqx.nn.Dropout(dropout_rate), num_heads, wrong

    def __call__(self, x, mask=None, key=None):
        last = self.key_proj if self.wrong == "key's kernel" else self.value_proj
        q, k, v = (
            jax.vmap(layer)(x).reshape(len(x), self.num_heads, -1) for layer in (self.query_proj, self.key_proj, last)
        )
        logits = jnp.einsum("tho,sho->hts", q, k)
        if self.wrong != "no scale":
            logits = logits / jnp.sqrt(q.shape[-1])
        if mask is not None:
            logits = jnp.where(mask, logits, -jnp.inf if self.wrong == "-inf" else -1e30)
        scores = self.dropout(jax.nn.softmax(logits), key=key)
        mixed = jnp.einsum("hts,sho->tho", scores, v)
        if self.wrong == "merged without transpose":
            mixed = mixed.transpose(1, 0, 2)
        return jax.vmap(self.output_proj)(mixed.reshape(len(x), -1))


class Matrices(eqx.Module):
    """Parameters that are plain arrays in a list."""

    weights: list
    heads: int = eqx.field(static=True)

    def __init__(self, dim, heads, key):
        self.weights = [jax.random.normal(each, (dim, dim)) for each in jax.random.split(key, 4)]
        self.heads = heads

    def __call__(self, x):
        q, k, v = (jnp.reshape(x @ w, (len(x), self.heads, -1)).swapaxes(0, 1) for w in self.weights[:3])
        scores = jax.nn.softmax(q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5, axis=-1)
        return (scores @ v).swapaxes(0, 1).reshape(len(x), -1) @ self.weights[3]


class Encoder(eqx.Module):
    """An encoder layer with the package's own attention, which needs a mapped normalization."""

    attention: eqx.nn.MultiheadAttention
    dense_in: eqx.nn.Linear
    dense_out: eqx.nn.Linear
    norm1: eqx.nn.LayerNorm
    norm2: eqx.nn.LayerNorm
    wrong: str = eqx.field(static=True)

    def __init__(self, embed_dim, num_heads, ff_dim, wrong="", *, key):
        first, second, third = jax.random.split(key, 3)
        self.attention = eqx.nn.MultiheadAttention(num_heads, embed_dim, key=first)
        self.dense_in = eqx.nn.Linear(embed_dim, ff_dim, key=second)
        self.dense_out = eqx.nn.Linear(ff_dim, embed_dim, key=third)
        self.norm1, self.norm2, self.wrong = eqx.nn.LayerNorm(embed_dim), eqx.nn.LayerNorm(embed_dim), wrong

    def __call__(self, x):
        attended = self.attention(x, x, x)
        x = jax.vmap(self.norm1)(attended if self.wrong == "no residual" else x + attended)
        hidden = jax.nn.relu(jax.vmap(self.dense_in)(x))
        return jax.vmap(self.norm2)(x + jax.vmap(self.dense_out)(hidden))
