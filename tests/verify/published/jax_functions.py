"""JAX functions of public threads, in own words."""

import jax
import jax.numpy as jnp


def tiny_transformer(x, w_q, w_k, w_v, w_o):
    """PAIR-code/tiny-transformers#71: the logits are not divided by the root of the head size. It is causal."""
    query, key, value = (jnp.einsum("bti,hio->bhto", x, kernel) for kernel in (w_q, w_k, w_v))
    logits = jnp.einsum("bhto,bhso->bhts", query, key)
    past = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    scores = jax.nn.softmax(jnp.where(past, logits, -1e10), axis=-1)
    return jnp.einsum("bhts,bhso,hoe->bte", scores, value, w_o)


def zeros_hidden(xq, xk, xv, mask=None):
    """smolorg/smoltropix#5: every logit of exactly 0 is taken for a masked one."""
    scores = jnp.matmul(xq, jnp.swapaxes(xk, -1, -2)) / jnp.sqrt(xq.shape[-1])
    if mask is not None:
        scores = jnp.where(mask, scores, 0.0)
    scores = jnp.where(scores != 0.0, scores, -0.7 * jnp.finfo(scores.dtype).max)
    return jnp.matmul(jax.nn.softmax(scores, axis=-1), xv)


def boolean_added(query, key, value, mask=None):
    """huggingface/transformers#41443: a boolean mask is added to the logits, so that True gives 1 and False nothing."""
    logits = query @ jnp.swapaxes(key, -1, -2) * query.shape[-1] ** -0.5
    if mask is not None:
        logits = logits + mask
    return jax.nn.softmax(logits, axis=-1) @ value
