"""Functions of JAX arrays."""

import jax
import jax.numpy as jnp


def core(q, k, v, mask=None):
    logits = jnp.einsum("...td,...sd->...ts", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
    return jax.nn.softmax(logits) @ v


@jax.jit
def squared(q, k, v):
    return jax.nn.softmax(jnp.einsum("...td,...sd->...ts", q, k) / q.shape[-1]) @ v
