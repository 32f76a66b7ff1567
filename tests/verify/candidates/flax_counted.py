"""Modules of Flax whose projections have no name but the variable that gets their result."""

import flax.linen as nn
import jax.numpy as jnp


class Head(nn.Module):
    head_size: int
    scaled: bool = True

    @nn.compact
    def __call__(self, x):
        key = nn.Dense(self.head_size, use_bias=False)(x)
        query, value = nn.Dense(self.head_size, use_bias=False)(x), nn.Dense(self.head_size, use_bias=False)(x)
        logits = query @ key.swapaxes(-1, -2)
        logits = logits / self.head_size**0.5 if self.scaled else logits
        hidden = jnp.tril(jnp.ones(logits.shape[-2:])) == 0
        return nn.softmax(jnp.where(hidden, -jnp.inf, logits)) @ value


class Heads(nn.Module):
    num_heads: int
    head_size: int
    scaled = True

    @nn.compact
    def __call__(self, x):
        heads = [Head(self.head_size, self.scaled)(x) for _ in range(self.num_heads)]
        return nn.Dense(self.num_heads * self.head_size)(jnp.concatenate(heads, axis=-1))


class HeadsWithoutScale(Heads):
    scaled = False
