"""Scaled dot-product attention of all heads at once."""

import dataclasses
import math

import keras
from keras import ops

from kmha.core import axes, eager, masks, planning
from kmha.core.tensors import Tensor, as_tensor, at_least_float32


@dataclasses.dataclass(frozen=True)
class Dropout:
    """Sets each score to zero with probability `rate`, and multiplies the remaining scores by 1 / (1 - rate).

    Attributes:
        rate: Dropout probability, above 0 and at most 1.
        seeds: Generator of one seed per call. With the same seeds, `keras.layers.Dropout` drops the same elements.
    """

    rate: float
    seeds: keras.random.SeedGenerator

    @classmethod
    def of(cls, layer: keras.layers.Dropout, training: bool | None) -> "Dropout | None":
        """Return the dropout of `layer` when it is called with `training`, or `None` if it drops nothing."""
        return cls(layer.rate, layer.seed_generator) if training and layer.rate > 0 else None

    def __call__(self, scores: Tensor) -> Tensor:
        return keras.random.dropout(scores, self.rate, seed=self.seeds)


def four_steps(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor = None,
    bias: Tensor = None,
    scale: float | None = None,
    dropout: Dropout | None = None,
    elementwise: bool = False,
    positions_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute softmax(Q Kᵀ / √O) V in every head (Vaswani et al. 2017, equation 1), with mask and dropout.

    Here H comes before T and S, so that both products are plain batched matrix products.

    Args:
        query: Query (B, H, T, O), floating point.
        key: Key (B, H, S, O).
        value: Value (B, H, S, O). Its O may differ from the O of query and key.
        allowed: Boolean mask that broadcasts to (B, H, T, S), where True means attend, or `None`.
        bias: Tensor that broadcasts to (B, H, T, S) and is added to the logits, or `None`.
        scale: Factor of the logits. `None` means 1/√O.
        dropout: Dropout of the scores, or `None`.
        elementwise: Compute the softmax from elementwise operations, see `masked_softmax`.
        positions_first: Query, key, value and mixed values have H after T or S, and TensorFlow is outside of a graph.

    Returns:
        The mixed values (B, H, T, O), and the scores (B, H, T, S) before dropout, both of the query's dtype.
    """
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    query = ops.multiply(query, scale)
    if positions_first:
        logits = eager.einsum(axes.SCORES, query, key)
    else:
        logits = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # (B, H, T, S), `axes.SCORES`
    logits = logits if bias is None else ops.add(logits, bias)
    scores = masked_softmax(logits, allowed, elementwise)  # (B, H, T, S)
    dropped = scores if dropout is None else dropout(scores)
    if positions_first:
        return eager.einsum(axes.MIX, dropped, value), scores
    return ops.matmul(dropped, value), scores  # (B, H, T, O), `axes.MIX`


def masked_softmax(logits: Tensor, mask: Tensor = None, elementwise: bool = False) -> Tensor:
    """Return the softmax over the last axis, restricted to the positions that `mask` allows.

    A row without an allowed position is all zeros. The softmax is computed in float32 at least.

    Args:
        logits: Logits (B, H, T, S), or of any other shape that ends in S; floating point.
        mask: Boolean mask that broadcasts to the logits, where True means attend, or `None`.
        elementwise: Compute the softmax from elementwise operations instead of the backend's kernel. With few logits,
            as in decoding, launch overhead dominates, and TensorFlow's CPU kernel (oneDNN) has a larger overhead.

    >>> import numpy as np
    >>> print(np.array(masked_softmax(np.zeros((2, 3)), np.array([[True, True, False], [False] * 3]))))
    [[0.5 0.5 0. ]
     [0.  0.  0. ]]
    """
    dtype = keras.backend.standardize_dtype(logits.dtype)
    # torch's softmax of bfloat16 computes in float32, and rounds its result once, as the casts here would.
    within = keras.backend.backend() == "torch" and dtype == "bfloat16" and not elementwise
    wide = dtype if within else at_least_float32(dtype)
    logits = ops.cast(logits, wide)
    if mask is None:
        return ops.cast(_softmax(logits, elementwise), dtype)
    scores = _softmax(ops.where(mask, logits, ops.cast(masks.LOWEST, wide)), elementwise)
    return ops.cast(ops.where(mask, scores, ops.cast(0.0, wide)), dtype)


def _softmax(logits: Tensor, elementwise: bool) -> Tensor:
    # For a single key, which is valid here, Keras would warn. A trace at length 1 may also be exported for all lengths.
    if not elementwise and logits.shape[-1] != 1:
        return ops.softmax(logits, axis=-1)
    weights = ops.exp(ops.subtract(logits, ops.max(logits, axis=-1, keepdims=True)))
    return ops.divide(weights, ops.sum(weights, axis=-1, keepdims=True))


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor = None,
    bias: Tensor = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
    dropout: Dropout | None = None,
    return_scores: bool = False,
    flash: bool | None = None,
    training: bool = False,
) -> tuple[Tensor, Tensor]:
    """Compute `four_steps` on the fastest path, with positions before heads, and with causal and window masks.

    The scores are `BTHO,BSHO->BHTS`, and the result is `BHTS,BSHO->BTHO`. A query with nothing to attend to gives
    zeros, and its gradients are zero. All paths give equal numbers to rounding. `kmha.core.planning` chooses the path.

    Args:
        query: Query (B, T, H, O), floating point.
        key: Key (B, S, H, O).
        value: Value (B, S, H, O). Its O may differ from the O of query and key.
        mask: Boolean mask that broadcasts to (B, H, T, S), where True means attend, or `None`.
        bias: Tensor that broadcasts to (B, H, T, S) and is added to the logits, or `None`.
        scale: Factor of the logits. `None` means 1/√O.
        causal: Position t attends only to positions s ≤ t.
        window: Position t attends only to positions s with |t - s| < window. `None` means no limit.
        dropout: Dropout of the scores, or `None`.
        return_scores: Take a path that computes the scores before dropout.
        flash: `True` asks for the backend's fused kernel, or for blocks on TensorFlow. `False` forbids both. `None`
            leaves the choice open.
        training: Prepare for a backward pass. On TensorFlow, blocks of long sequences are then larger.

    Returns:
        The mixed values (B, T, H, O), and the scores (B, H, T, S) of the query's dtype, or `None` if the path does not
        compute them.

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
        itemsize=8 if dtype == "float64" else 4,
        causal=causal,
        window=window,
        dropout=dropout is not None,
        return_scores=return_scores,
        training=training,
        fusable=bias is None and planning.fusable(backend, dtype, query.shape[-1], value.shape[-1], flash),
        flash=flash,
        eager=eager.is_eager(),
    )
    path = planning.choose(request).path
    if path == "fused":
        return _fused(query, key, value, mask, scale, causal, window, flash), None
    if path == "steps":
        allowed = _allowed(query, key, mask, causal, window)
        return _steps(query, key, value, allowed, scale, bias, dropout)
    from kmha.core import blocked  # imports TensorFlow, which other backends do without

    tiling = planning.tiling(request, blocked.is_compiled()) if path == "blocked" else None
    drawn = {} if dropout is None else {"rate": dropout.rate, "seed": dropout.seeds.next()}
    structure = {"causal": causal, "window": window, **drawn}
    return blocked.attend(query, key, value, mask, bias, scale=scale, tiling=tiling, **structure), None


def _steps(
    query: Tensor, key: Tensor, value: Tensor, allowed: Tensor, scale: float, bias: Tensor, dropout: Dropout | None
) -> tuple[Tensor, Tensor]:
    """Compute `four_steps` for query (B, T, H, O), key and value (B, S, H, O). The mixed values are (B, T, H, O)."""
    if eager.is_eager():
        return four_steps(query, key, value, allowed, bias, scale, dropout, positions_first=True)
    query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))  # heads first
    mixed, scores = four_steps(query, key, value, allowed, bias, scale, dropout)
    return ops.transpose(mixed, (0, 2, 1, 3)), scores


def _allowed(query: Tensor, key: Tensor, mask: Tensor, causal: bool, window: int | None) -> Tensor:
    """Combine `mask` with the causal mask and the window, for a query (B, T, H, O) and a key (B, S, H, O)."""
    rows, columns = ops.shape(query)[1], ops.shape(key)[1]
    return masks.combine(mask, masks.structured(rows, columns, causal, window))


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    scale: float,
    causal: bool,
    window: int | None,
    flash: bool | None,
) -> Tensor:
    """Call the backend's own kernel, then zero the rows with nothing to attend to, which see everything in it."""
    if mask is not None or window is not None:
        mask, causal = _of_rank_4(_allowed(query, key, mask, causal, window)), False
    if keras.backend.backend() == "torch":
        from kmha.core import torch_kernel

        def written_out(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return _steps(query, key, value, _allowed(query, key, mask, causal, None), scale, None, None)[0]

        return torch_kernel.attend(query, key, value, mask, scale, causal, flash, written_out)
    options = {"scale": scale, "is_causal": causal, "flash_attention": flash}
    if mask is None:
        return ops.dot_product_attention(query, key, value, **options)
    # JAX's kernel for GPUs needs the axes T and S in full. Without them, Keras takes a slower one.
    mask = ops.broadcast_to(mask, (*ops.shape(mask)[:2], ops.shape(query)[1], ops.shape(key)[1]))
    attending = ops.any(mask, axis=-1, keepdims=True)  # (B, H, T, 1), with B and H perhaps 1
    visible = ops.logical_or(mask, ops.logical_not(attending))
    mixed = ops.dot_product_attention(query, key, value, mask=visible, **options)
    return ops.where(ops.transpose(attending, (0, 2, 1, 3)), mixed, ops.cast(0.0, mixed.dtype))


def _of_rank_4(mask: Tensor) -> Tensor:
    """Return a mask that broadcasts to (B, H, T, S) with all four axes."""
    missing = 4 - len(mask.shape)
    return ops.reshape(mask, (1,) * missing + tuple(ops.shape(mask))) if missing else as_tensor(mask)
