"""Functions that public threads took to be wrong, and that are right, in own words."""

import math

import numpy as np


def column_major(x, w_qkv, w_o, num_heads):
    """karpathy/llm.c#531: columns in memory make K^T Q what is Q K^T elsewhere. It is causal, position by position."""
    batch, length = x.shape[:2]
    width, packed = w_o.shape[0], x @ w_qkv
    size, output = width // num_heads, np.zeros((batch, length, width))
    for b, t, h in np.ndindex(batch, length, num_heads):
        query = packed[b, t, h * size : (h + 1) * size]
        keys = packed[b, : t + 1, width + h * size : width + (h + 1) * size].T  # (O, t + 1), as its columns lie
        logits = keys.T @ query / math.sqrt(size)
        scores = np.exp(logits - logits.max())
        values = packed[b, : t + 1, 2 * width + h * size : 2 * width + (h + 1) * size]
        output[b, t, h * size : (h + 1) * size] = scores / scores.sum() @ values
    return output @ w_o
