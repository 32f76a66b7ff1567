"""Functions of arrays with layouts of their own."""

import numpy as np


def one_key(q, k, v, wrong=""):
    """Return attention of q (B, H, T, O) to one key and one value (B, S, O) for all heads."""
    logits = np.einsum("bhto,bso->bhts", q, k) / (1 if wrong else np.sqrt(q.shape[-1]))
    scores = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("bhts,bso->bhto", scores / scores.sum(-1, keepdims=True), v)
