"""The functions of a well-known course's Transformer assignment, so that code written for it finds them here.

As in the course's present version, 1 (or True) in a mask means *attend*. Its first version, of 2021, has 1 at hidden
positions: pass `mask == 0` for such a mask.
"""

from typing import Any

import numpy as np
from keras import ops

from kmha.core import positions as encodings
from kmha.core.attention import masked_softmax
from kmha.core.tensors import Tensor
from kmha.layers import masking
from kmha.layers.transformer_blocks import FeedForward


def get_angles(pos: Any, k: Any, d: int) -> np.ndarray:
    """Return pos / 10000^(2i / d) with i = k // 2, the arguments of sine and cosine.

    Args:
        pos: Positions, such as a column (positions, 1).
        k: Indices of features, such as a row (1, d).
        d: Number of features.

    Returns:
        Array of the shape that `pos` and `k` broadcast to, float64.

    >>> import numpy as np
    >>> get_angles(np.arange(3)[:, None], np.arange(4)[None], 4)[2]
    array([2.  , 2.  , 0.02, 0.02])
    """
    return encodings.angles_at(pos, k, d)


def positional_encoding(positions: int, d: int) -> Tensor:
    """Return the encoding of Vaswani et al. 2017 (section 3.5): sines at even features, cosines at odd ones.

    Args:
        positions: Number of positions.
        d: Number of features.

    Returns:
        Tensor (1, positions, d), float32.

    >>> tuple(positional_encoding(5, 4).shape)
    (1, 5, 4)
    """
    return ops.convert_to_tensor(encodings.sinusoidal(positions, d)[None], "float32")


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor = None) -> tuple[Tensor, Tensor]:
    """Return softmax(q kᵀ / √d) v, and the softmax (Vaswani et al. 2017, equation 1).

    Args:
        q: Queries (…, T, d), floating point.
        k: Keys (…, S, d).
        v: Values (…, S, e).
        mask: Mask that broadcasts to (…, T, S), of booleans or of 0 and 1. True means attend. `None` hides nothing.

    Returns:
        The output (…, T, e), and the attention weights (…, T, S). A query with nothing to attend to gives zeros. The
        course adds -1e9 to its hidden logits instead, so that it attends to everything.

    Raises:
        ValueError: If the mask contains other numbers than 0 and 1.

    >>> import numpy as np
    >>> output, weights = scaled_dot_product_attention(np.eye(2), np.eye(2), np.eye(2), np.array([[1, 0], [1, 1]]))
    >>> print(np.array(weights).round(2))
    [[1.   0.  ]
     [0.33 0.67]]
    """
    q, k, v = (ops.convert_to_tensor(x) for x in (q, k, v))
    logits = ops.divide(ops.matmul(q, ops.swapaxes(k, -1, -2)), ops.cast(q.shape[-1] ** 0.5, q.dtype))
    weights = masked_softmax(logits, None if mask is None else masking.as_boolean(mask, "mask"))
    return ops.matmul(weights, v), weights


def FullyConnected(embedding_dim: int, fully_connected_dim: int) -> FeedForward:
    """Return two dense layers with a ReLU between them, as `FeedForward`, whose first two arguments are exchanged.

    Args:
        embedding_dim: Number of output features.
        fully_connected_dim: Number of features between the two layers.

    >>> import keras
    >>> tuple(FullyConnected(embedding_dim=4, fully_connected_dim=8)(keras.ops.ones((2, 3, 4))).shape)
    (2, 3, 4)
    """
    return FeedForward(fully_connected_dim, embedding_dim)
