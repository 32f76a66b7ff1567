"""Scaled dot-product attention for all heads at once: scores, mask, softmax, mix."""

import math
from typing import Any

import keras
from keras import ops

from kmha.core import masks, planning
from kmha.core.dropout import Dropout
from kmha.core.precision import at_least_float32


def attend(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    bias: Any = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
    dropout: Dropout | None = None,
    return_scores: bool = False,
    flash: bool | None = None,
    training: bool = False,
) -> tuple[Any, Any]:
    """softmax(Q Kᵀ / √O) V in every head (Vaswani et al. 2017, equation 1).

    The scores are `BTHO,BSHO->BHTS`, the result is `BHTS,BSHO->BTHO`. A row of the mask with nothing to attend to gives
    zeros, and so do its gradients. The softmax is computed in float32 at least. There are several ways to compute this,
    with the same numbers to rounding; `kmha.core.planning` chooses.

    Args:
        query: (B, T, H, O), floating point.
        key: (B, S, H, O).
        value: (B, S, H, O); its O may differ from that of query and key.
        mask: boolean, broadcasts to (B, H, T, S), True means attend; or `None`.
        bias: is added to the logits, broadcasts to (B, H, T, S); or `None`.
        scale: what the logits are multiplied by; `None` means 1/√O.
        causal: position t attends to s ≤ t only.
        window: position t attends to |t - s| < window only.
        dropout: applied to the scores before they mix the values; `None` when there is nothing to drop.
        return_scores: whether the scores, taken before the dropout, are returned too.
        flash: `True` asks for the backend's fused kernel, on TensorFlow for blocks; `False` forbids both; `None` leaves
            it open.
        training: whether a backward pass is to be expected, for which another way may be the fastest.

    Returns:
        ((B, T, H, O), scores (B, H, T, S) or `None`), both of the query's dtype.

    >>> import numpy as np
    >>> one_head = np.eye(3).reshape(1, 3, 1, 3)
    >>> mixed, scores = attend(one_head, one_head, one_head, causal=True, return_scores=True)
    >>> print(np.round(np.array(scores)[0, 0], 3))
    [[1.    0.    0.   ]
     [0.36  0.64  0.   ]
     [0.264 0.264 0.471]]
    """
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    backend, dtype = keras.backend.backend(), keras.backend.standardize_dtype(query.dtype)
    request = planning.Request(
        *(query.shape[0], query.shape[1], key.shape[1], query.shape[2]),
        backend=backend,
        item=8 if dtype == "float64" else 4,
        causal=causal,
        window=window,
        dropout=dropout is not None,
        scores=return_scores,
        training=training,
        fusable=bias is None and planning.fuses(backend, dtype, query.shape[-1], value.shape[-1], flash),
        flash=flash,
    )
    path = planning.choose(request).path
    if path == "steps":
        allowed = _allowed(query, key, mask, causal, window)
        mixed, scores = _written_out(query, key, value, allowed, bias, scale, dropout)
        return mixed, scores if return_scores else None
    if path == "fused":
        return _fused(query, key, value, mask, scale, causal, window, flash), None
    from kmha.core import blocked  # imports TensorFlow, which other backends do without

    tiling = planning.tiling(request, blocked.is_compiled()) if path == "blocked" else None
    structure: dict[str, Any] = {"scale": scale, "causal": causal, "window": window, "dropout": dropout}
    return blocked.attend(query, key, value, mask, bias, **structure, tiling=tiling), None


def _written_out(
    query: Any, key: Any, value: Any, allowed: Any, bias: Any, scale: float, dropout: Dropout | None
) -> tuple[Any, Any]:
    """`four_steps` of what comes positions first."""
    query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    mixed, scores = four_steps(query, key, value, allowed, bias, scale, dropout)
    return ops.transpose(mixed, (0, 2, 1, 3)), scores  # (B, T, H, O), `axes.MIX`


def four_steps(
    query: Any,
    key: Any,
    value: Any,
    allowed: Any = None,
    bias: Any = None,
    scale: float | None = None,
    dropout: Dropout | None = None,
    few: bool = False,
) -> tuple[Any, Any]:
    """Scores, mask and softmax, (dropout,) mix, as in `attend`, for heads that come first.

    Args:
        query: (B, H, T, O).
        key: (B, H, S, O).
        value: (B, H, S, O).
        allowed: boolean, broadcasts to (B, H, T, S), True means attend; or `None`.
        bias: is added to the logits; or `None`.
        scale: `None` means 1/√O.
        dropout: `None` when there is nothing to drop.
        few: see `masked_softmax`.

    Returns:
        ((B, H, T, O), scores (B, H, T, S)).
    """
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    logits = ops.matmul(ops.multiply(query, scale), ops.transpose(key, (0, 1, 3, 2)))  # (B, H, T, S), `axes.SCORES`
    scores = masked_softmax(logits if bias is None else ops.add(logits, bias), allowed, few)  # (B, H, T, S)
    return ops.matmul(scores if dropout is None else dropout(scores), value), scores


def masked_softmax(logits: Any, mask: Any = None, few: bool = False) -> Any:
    """The softmax over S of (B, H, T, S), over the positions that `mask` allows; a row without any is all zeros.

    With so `few` logits that the backend's kernel takes longer to begin than to end, as in decoding, elementary
    operations are sooner done: on a processor, TensorFlow's kernel is oneDNN's.

    >>> import numpy as np
    >>> print(np.array(masked_softmax(np.zeros((2, 3)), np.array([[True, True, False], [False] * 3]))))
    [[0.5 0.5 0. ]
     [0.  0.  0. ]]
    """
    dtype = keras.backend.standardize_dtype(logits.dtype)
    wide = at_least_float32(dtype)
    logits = ops.cast(logits, wide)
    if mask is None:
        return ops.cast(_softmax(logits, few), dtype)
    scores = _softmax(ops.where(mask, logits, ops.cast(masks.LOWEST, wide)), few)
    return ops.cast(ops.where(mask, scores, ops.cast(0.0, wide)), dtype)


def _softmax(logits: Any, few: bool) -> Any:
    """The softmax over the last axis; Keras warns where that has the size 1, which is no mistake here."""
    if logits.shape[-1] == 1:
        return ops.ones_like(logits)
    if not few:
        return ops.softmax(logits, axis=-1)
    weights = ops.exp(ops.subtract(logits, ops.max(logits, axis=-1, keepdims=True)))
    return ops.divide(weights, ops.sum(weights, axis=-1, keepdims=True))


def _allowed(query: Any, key: Any, mask: Any, causal: bool, window: int | None) -> Any:
    """`mask` and what `causal` and `window` say, for a query (B, T, H, O) and a key (B, S, H, O)."""
    rows, columns = ops.shape(query)[1], ops.shape(key)[1]
    return masks.combine(
        mask,
        masks.causal(rows, columns) if causal else None,
        masks.window(rows, columns, window) if window is not None else None,
    )


def _fused(
    query: Any, key: Any, value: Any, mask: Any, scale: float, causal: bool, window: int | None, flash: bool | None
) -> Any:
    """The backend's own kernel; rows without anything to attend to are opened for it and zeroed after it."""
    if mask is None and window is None:
        return ops.dot_product_attention(query, key, value, scale=scale, is_causal=causal, flash_attention=flash)
    mask = _allowed(query, key, mask, causal, window)
    mask = ops.broadcast_to(mask, (ops.shape(query)[0], query.shape[2], ops.shape(query)[1], ops.shape(key)[1]))
    some = ops.any(mask, axis=-1, keepdims=True)  # (B, H, T, 1)
    mask = ops.logical_or(mask, ops.logical_not(some))
    mixed = ops.dot_product_attention(query, key, value, mask=mask, scale=scale, flash_attention=flash)
    return ops.where(ops.transpose(some, (0, 2, 1, 3)), mixed, ops.cast(0.0, mixed.dtype))
