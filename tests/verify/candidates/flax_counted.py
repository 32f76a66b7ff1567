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


class Named(nn.Module):
    """Flax does not count the layer with a name."""

    num_heads: int
    d_model: int

    @nn.compact
    def __call__(self, x):
        query = nn.Dense(self.d_model, name="query")(x)
        key, value = nn.Dense(self.d_model)(x), nn.Dense(self.d_model)(x)
        return nn.Dense(self.d_model)(attend(query, key, value, self.num_heads))


class Branches(nn.Module):
    """Makes fewer layers than its code mentions."""

    num_heads: int
    d_model: int

    @nn.compact
    def __call__(self, x, memory=None):
        query = nn.Dense(self.d_model)(x) if memory is None else nn.Dense(self.d_model)(x + 0)
        memory = x if memory is None else memory
        key, value = nn.Dense(self.d_model)(memory), nn.Dense(self.d_model)(memory)
        return nn.Dense(self.d_model)(attend(query, key, value, self.num_heads))


class Part(nn.Module):
    d_model: int
    num_heads: int
    scaled: bool
    deterministic: bool | None = None

    def setup(self):
        self.query, self.key, self.value = (nn.Dense(self.d_model, use_bias=False) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def __call__(self, x, deterministic=None):
        fixed = nn.merge_param("deterministic", self.deterministic, deterministic)
        query = self.query(x) if self.scaled else self.query(x) * (self.d_model // self.num_heads) ** 0.5
        return self.dropout(attend(query, self.key(x), self.value(x), self.num_heads), fixed)


class FlagOfParts(nn.Module):
    """Its part gets the flag from the constructor alone, although the call takes it too."""

    d_model: int
    num_heads: int
    deterministic: bool | None = None
    scaled = True

    def setup(self):
        self.part = Part(self.d_model, self.num_heads, self.scaled, self.deterministic)
        self.out = nn.Dense(self.d_model)

    def __call__(self, x, deterministic=None):
        nn.merge_param("deterministic", self.deterministic, deterministic)
        return self.out(self.part(x))


class FlagOfPartsWithoutScale(FlagOfParts):
    scaled = False


class ModeOfConstructor(nn.Module):
    """The constructor says whether it trains, and the call does not."""

    d_model: int
    num_heads: int
    dropout_rate: float = 0.1
    training: bool = False

    @nn.compact
    def __call__(self, x):
        query, key, value = (nn.Dense(self.d_model, name=name)(x) for name in ("query", "key", "value"))
        mixed = attend(query, key, value, self.num_heads)
        return nn.Dropout(self.dropout_rate)(nn.Dense(self.d_model)(mixed), deterministic=not self.training)


def attend(query, key, value, count):
    query, key, value = (each.reshape(*each.shape[:2], count, -1).swapaxes(1, 2) for each in (query, key, value))
    mixed = nn.softmax(query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5) @ value
    return mixed.swapaxes(1, 2).reshape(len(query), query.shape[2], -1)
