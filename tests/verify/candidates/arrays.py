"""Functions of NumPy and TensorFlow arrays."""

import numpy as np
import tensorflow as tf


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def core(q, k, v, mask=None):
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1])
    if mask is not None:
        logits = np.where(mask, logits, -1e9)
    scores = softmax(logits)
    return scores @ v, scores


def of_three_axes(q, k, v, mask=None):
    """(B, P, O) only, as with batched matrix products."""
    logits = np.einsum("btd,bsd->bts", q, k) / np.sqrt(k.shape[-1])
    scores = softmax(logits if mask is None else np.where(mask, logits, -1e9), axis=2)
    return np.einsum("bts,bsd->btd", scores, v)


def of_one_item(Q, K, V, mask=None):
    """(P, O): matrices."""
    logits = Q @ K.T / K.shape[1] ** 0.5
    return softmax(logits if mask is None else np.where(mask, logits, -1e9), axis=1) @ V


def strict(q, k, v, causal=False):
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1])
    if causal:
        logits = np.where(np.tri(*logits.shape[-2:], k=-1), logits, -1e9)
    return softmax(logits) @ v


def backwards(q, k, v, causal=False):
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1])
    if causal:
        logits = np.where(_upper(logits), logits, -1e9)
    return softmax(logits) @ v


def _upper(logits):
    rows, columns = logits.shape[-2:]
    return np.arange(columns) >= np.arange(rows)[:, None]


def in_place(q, k, v):
    q /= np.sqrt(k.shape[-1])
    return softmax(q @ np.swapaxes(k, -1, -2)) @ v


def nan_rows(q, k, v, mask=None):
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1])
    with np.errstate(all="ignore"):
        return softmax(logits if mask is None else np.where(mask, logits, -np.inf)) @ v


def mask_after(q, k, v, mask=None):
    scores = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1]))
    scores = scores if mask is None else scores * mask
    return scores @ v, scores


def overflowing(q, k, v):
    powers = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1]))
    return powers / powers.sum(-1, keepdims=True) @ v


def over_heads(q, k, v):
    return softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1]), axis=1) @ v


def exp_two(q, k, v):
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1])
    powers = 2 ** (logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


def pair_of_core(q, k, v, mask=None):
    """Scaled by O, and the mask inverted."""
    logits = q @ np.swapaxes(k, -1, -2) / k.shape[-1]
    return softmax(logits if mask is None else np.where(mask, -1e9, logits)) @ v


def with_matrices(x, w_q, w_k, w_v, w_o, num_heads, mask=None):
    """Self-attention with flat kernels."""
    batch, length, _ = x.shape
    q, k, v = ((x @ w).reshape(batch, length, num_heads, -1).transpose(0, 2, 1, 3) for w in (w_q, w_k, w_v))
    mixed, scores = core(q, k, v, mask)
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, -1) @ w_o, scores


def with_biases(query, key, value, wq, bq, wk, bk, wv, bv, wo, bo, n_heads, mask=None):
    batch = query.shape[0]
    heads = [
        (x @ w + b).reshape(batch, x.shape[1], n_heads, -1).transpose(0, 2, 1, 3)
        for x, w, b in ((query, wq, bq), (key, wk, bk), (value, wv, bv))
    ]
    mixed, _ = core(*heads, mask)
    return mixed.transpose(0, 2, 1, 3).reshape(batch, query.shape[1], -1) @ wo + bo


def with_einsum(query, value, key, weights, attention_mask=None):
    """With a dict of canonical weights."""
    heads = [
        np.einsum("bpi,hio->bhpo", x, weights[f"{role}/kernel"]) + weights[f"{role}/bias"][:, None]
        for role, x in (("query", query), ("key", key), ("value", value))
    ]
    mixed, _ = core(*heads, attention_mask)
    return np.einsum("bhto,hoe->bte", mixed, weights["attention_output/kernel"]) + weights["attention_output/bias"]


def one_matrix_each(x, W_q, W_k, W_v):
    """One item, one head, no output kernel."""
    return softmax((x @ W_q) @ (x @ W_k).T / np.sqrt(W_k.shape[1])) @ (x @ W_v)


def kernel_for_two(x, w_q, w_k, w_v, w_o, num_heads):
    return with_matrices(x, w_q, w_k, w_k, w_o, num_heads)[0]


def no_kernels(q, k, v, num_heads):
    """Heads are split and joined, and nothing is projected."""
    split = [x.reshape(*x.shape[:2], num_heads, -1).transpose(0, 2, 1, 3) for x in (q, k, v)]
    mixed = core(*split)[0].transpose(0, 2, 1, 3)
    return mixed.reshape(q.shape)


def of_tensorflow(q, k, v, mask):
    """As a well-known tutorial has it: the mask hides, and the root is taken in float32."""
    logits = tf.matmul(q, k, transpose_b=True) / tf.math.sqrt(tf.cast(tf.shape(k)[-1], tf.float32))
    if mask is not None:
        logits += tf.cast(mask, tf.float32) * -1e9
    scores = tf.nn.softmax(logits, axis=-1)
    return tf.matmul(scores, v), scores


def flattened_of_tensorflow(q, k, v):
    logits = tf.matmul(q, k, transpose_b=True) / tf.sqrt(tf.cast(tf.shape(k)[-1], q.dtype))
    flat = tf.nn.softmax(tf.reshape(logits, (*logits.shape[:2], -1)))
    return tf.matmul(tf.reshape(flat, logits.shape), v)


def added(q, k, v, attn_mask=None):
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1])
    return softmax(logits if attn_mask is None else logits + attn_mask) @ v


def cubed(q, k, v):
    """Wrong in a way that nobody has thought of."""
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1])
    return softmax(logits**3) @ v


def prints(q, k, v):
    print("printed by the candidate")
    return core(q, k, v)[0]


def nothing(q, k, v):
    return None


def text(q, k, v):
    return "attention"


def nested(q, k, v):
    return (core(q, k, v), "more")


def dictionary(q, k, v):
    output, scores = core(q, k, v)
    return {"scores": scores, "output": output}


def leaves(q, k, v):
    raise SystemExit(3)


def fails(q, k, v):
    raise KeyError("weights")


def other_name(q, k, v, colour):
    return core(q, k, v)[0]


def packed(x, w_qkv, w_o, n_heads):
    batch, length, _ = x.shape
    parts = np.moveaxis((x @ w_qkv).reshape(batch, length, 3, n_heads, -1), 2, 0)
    mixed, scores = core(*(part.transpose(0, 2, 1, 3) for part in parts))
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, -1) @ w_o, scores


def not_joined(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    heads = ((x @ w).reshape(batch, length, num_heads, -1).transpose(0, 2, 1, 3) for w in (w_q, w_k, w_v))
    return core(*heads)[0].reshape(batch, length, -1) @ w_o


def flattened(q, k, v):
    """Right for (B, P, O)."""
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(k.shape[-1])
    return softmax(logits, axis=2) @ v


def trained(q, k, v, dropout=0.0, training=False):
    """Wrong in training alone."""
    return core(q, k, v)[0] * (1.9 if training else 1.0)


def core_unscaled(query, key, value, mask=None):
    logits = query @ np.swapaxes(key, -1, -2)
    return softmax(logits if mask is None else np.where(mask, logits, -1e9)) @ value


def of_two_places(q, k, v, /, mask=None):
    return core_unscaled(q, k, v, mask)


def raises_with_masks(q, k, v, mask=None):
    if mask is not None:
        raise ValueError("no masks today")
    return core(q, k, v)


def causal_unasked(x, w_q, w_k, w_v, w_o, num_heads):
    return with_matrices(x, w_q, w_k, w_v, w_o, num_heads, np.tri(x.shape[1], dtype=bool))[0]


def of_heads_in_the_middle(query, key, value, mask=None):
    """(B, P, H, O), as a dot product attention of several libraries has it."""
    return np.swapaxes(core(*(np.swapaxes(x, 1, 2) for x in (query, key, value)), mask)[0], 1, 2)


def of_methods(q, k, v):
    """NumPy's methods alone, in a module that knows TensorFlow too."""
    logits = q @ k.swapaxes(-1, -2) / k.shape[-1] ** 0.5
    powers = 2.718281828459045 ** (logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v
