"""Functions that public threads took to be wrong, and that are right, in own words."""

import math

import numpy as np


def renormalised(query, key, value, mask=None):
    """abisee/pointer-generator#88: masked after the softmax, and every row is divided by its new sum."""
    logits = query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    scores = scores / scores.sum(-1, keepdims=True)
    if mask is not None:
        scores = scores * mask
        scores = scores / scores.sum(-1, keepdims=True)
    return scores @ value, scores


def column_major(x, w_qkv, w_o, num_heads):
    """karpathy/llm.c#531: columns in memory make K^T Q what is Q K^T elsewhere. It is causal, position by position."""
    batch, length, width = x.shape
    size = width // num_heads
    packed = x @ w_qkv
    output = np.zeros_like(x)
    for b, t, h in np.ndindex(batch, length, num_heads):
        query = packed[b, t, h * size : (h + 1) * size]
        keys = packed[b, : t + 1, width + h * size : width + (h + 1) * size].T  # (O, t + 1), as its columns lie
        logits = keys.T @ query / math.sqrt(size)
        scores = np.exp(logits - logits.max())
        values = packed[b, : t + 1, 2 * width + h * size : 2 * width + (h + 1) * size]
        output[b, t, h * size : (h + 1) * size] = scores / scores.sum() @ values
    return output @ w_o
