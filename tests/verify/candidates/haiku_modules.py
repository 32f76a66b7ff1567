"""Haiku modules as people write them."""

import haiku as hk
import jax
import jax.numpy as jnp


class Attention(hk.Module):
    """With a `Linear` for each projection, and the number of heads and the head size as arguments."""

    def __init__(self, num_heads, key_size, model_size, wrong="", name=None):
        super().__init__(name=name)
        self.num_heads, self.key_size, self.model_size, self.wrong = num_heads, key_size, model_size, wrong

    def __call__(self, query, key, value, mask=None):
        q, k = self._project(query, "query"), self._project(key, "key")
        v = self._project(value, "value")
        logits = jnp.einsum("btho,bsho->bhts", q, k)
        logits = logits * self.key_size ** (0.5 if self.wrong == "multiplied" else -0.5)
        if mask is not None:
            logits = jnp.where(mask, logits, 0 if self.wrong == "fills 0" else -1e30)
        mixed = jnp.einsum("bhts,bsho->btho", jax.nn.softmax(logits), k if self.wrong == "key for value" else v)
        return hk.Linear(self.model_size, name="out")(mixed.reshape(*mixed.shape[:2], -1))

    def _project(self, x, name):
        x = hk.Linear(self.num_heads * self.key_size, name=name)(x)
        return x.reshape(*x.shape[:2], self.num_heads, self.key_size)


class Seeded(Attention):
    """The call needs a key of random numbers."""

    def __call__(self, query, key, value, rng, mask=None):
        jax.random.uniform(rng)
        return super().__call__(query, key, value, mask)
