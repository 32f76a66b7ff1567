"""Right attention in all the ways that people write it. The diagnosis must not report a mistake in any of them.

Each variant chooses how to compute the products, where to scale, how to mask, and a dtype. The code here shares nothing
with the chain that it is compared with.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

PRODUCTS = ("matmul", "einsum", "heads in turn")
SCALES = ("of the product", "of the query", "of both")
HIDING = ("-inf", "-1e9 in place", "-1e9 added", "after exp")
DTYPES = ("float64", "float32")
WAYS = tuple(itertools.product(PRODUCTS, SCALES, HIDING, DTYPES))


def attention(way: tuple[str, ...]) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Return a function that computes attention in the way `way`.

    The function takes (query, key, value, weights, mask, use_causal_mask, key_mask), with the shapes of
    `kmha.verify.reference.attention`. The weights are canonical, with all heads.
    """
    product, scale, hiding, dtype = way

    def right(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        weights: Mapping[str, Any],
        mask: Any = None,
        use_causal_mask: bool = False,
        key_mask: Any = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        cast = {name: np.asarray(array, dtype) for name, array in weights.items()}
        q, k, v = (
            _into_heads(np.asarray(x, dtype), cast, role)
            for role, x in (("query", query), ("key", key), ("value", value))
        )
        root = np.asarray(np.sqrt(q.shape[-1]), dtype)
        if scale == "of the query":
            q = q / root
        elif scale == "of both":
            q, k = q / np.sqrt(root), k / np.sqrt(root)
        logits = _logits(q, k, product)
        if scale == "of the product":
            logits = logits / root
        scores = _softmax(logits, _hidden(logits.shape, mask, use_causal_mask, key_mask), hiding)
        mixed = np.matmul(scores, v) if product == "matmul" else np.einsum("bhts,bhso->bhto", scores, v)
        output = np.einsum("bhto,hoe->bte", mixed, cast["attention_output/kernel"])
        return output + cast.get("attention_output/bias", np.asarray(0, dtype)), scores

    right.__name__ = ", ".join(way)
    return right


def _into_heads(x: np.ndarray, weights: Mapping[str, np.ndarray], role: str) -> np.ndarray:
    heads = np.einsum("bpi,hio->bhpo", x, weights[f"{role}/kernel"])
    return heads + weights[f"{role}/bias"][:, None] if f"{role}/bias" in weights else heads


def _logits(q: np.ndarray, k: np.ndarray, product: str) -> np.ndarray:
    if product == "matmul":
        return np.matmul(q, k.transpose(0, 1, 3, 2))
    if product == "einsum":
        return np.einsum("bhto,bhso->bhts", q, k)
    return np.stack([q[:, head] @ k[:, head].transpose(0, 2, 1) for head in range(q.shape[1])], axis=1)


def _hidden(shape: tuple[int, ...], mask: Any, use_causal_mask: bool, key_mask: Any) -> np.ndarray:
    """Return a mask (B, 1, T, S), True where t may not attend to s."""
    batch, _, rows, columns = shape
    hidden = np.zeros((batch, 1, rows, columns), bool)
    if mask is not None:
        hidden |= ~np.asarray(mask, bool).reshape(batch, 1, rows, columns)
    if use_causal_mask:
        hidden |= np.arange(columns)[None] > np.arange(rows)[:, None]
    if key_mask is not None:
        hidden |= ~np.asarray(key_mask, bool)[:, None, None, :]
    return hidden


def _softmax(logits: np.ndarray, hidden: np.ndarray, hiding: str) -> np.ndarray:
    """Return the softmax over the keys. A row with nothing to attend to may become any finite numbers."""
    if hiding == "-1e9 added":
        logits = logits - hidden * np.asarray(1e9, logits.dtype)
    elif hiding == "-1e9 in place":
        logits = np.where(hidden, np.asarray(-1e9, logits.dtype), logits)
    elif hiding == "-inf":
        logits = np.where(hidden & ~hidden.all(-1, keepdims=True), -np.inf, logits)
    shown = logits if hiding != "after exp" else np.where(hidden, np.min(logits), logits)
    powers = np.exp(np.minimum(logits - np.max(shown, axis=-1, keepdims=True), 0))
    if hiding == "after exp":
        powers = np.where(hidden, 0.0, powers).astype(logits.dtype)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)
