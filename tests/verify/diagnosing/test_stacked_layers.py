"""Functions that take the weights of several layers, stacked along the first axis."""

import numpy as np
import pytest

from kmha.verify import diagnose

jax = pytest.importorskip("jax")
jnp = jax.numpy


def init_stack(key, depth=4, width=12, n_heads=3, hidden=20):
    names = {"wq": (width, width), "wk": (width, width), "wv": (width, width), "wo": (width, width)}
    names |= {"w1": (width, hidden), "w2": (hidden, width)}
    keys = jax.random.split(key, len(names))
    return {
        **{name: jax.random.normal(k, (depth, *shape)) for k, (name, shape) in zip(keys, names.items(), strict=True)},
        "norm1": jnp.ones((depth, width)),
        "norm2": jnp.ones((depth, width)),
    }


def _rms(x, scale):
    return scale * x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def _attended(x, weights, hidden, n_heads, shift):
    q, k, v = (jnp.stack(jnp.split(x @ weights[name], n_heads, -1), 1) for name in ("wq", "wk", "wv"))
    logits = q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5 + shift
    scores = jax.nn.softmax(jnp.where(hidden[:, None, None], -jnp.inf, logits), -1)
    return jnp.concatenate([*(scores @ v).swapaxes(0, 1)], -1) @ weights["wo"]


def stack(blocks, x, pad_mask, n_heads=3):
    def one(x, weights):
        x = x + _attended(_rms(x, weights["norm1"]), weights, pad_mask, n_heads, 0.0)
        return x + jax.nn.gelu(_rms(x, weights["norm2"]) @ weights["w1"]) @ weights["w2"], None

    return jax.lax.scan(one, x, blocks)[0]


def stack_without_residual(blocks, x, pad_mask, n_heads=3):
    def one(x, weights):
        x = x + _attended(_rms(x, weights["norm1"]), weights, pad_mask, n_heads, 0.0)
        return jax.nn.gelu(_rms(x, weights["norm2"]) @ weights["w1"]) @ weights["w2"], None

    return jax.lax.scan(one, x, blocks)[0]


def test_a_right_stack_is_right():
    assert diagnose(stack).right


def test_the_mistake_of_a_stack_is_named_and_the_script_shows_it():
    found = diagnose(stack_without_residual)
    assert found.ids == ("residual-missing-feed-forward",)
    scope: dict = {}
    exec(found.code(), scope)  # noqa: S102 - what is shown
    np.testing.assert_allclose(scope["result"], found.smallest.answer.output, rtol=1e-4, atol=1e-5)
    assert not np.allclose(scope["result"], found.smallest.right["output"], atol=1e-4)
