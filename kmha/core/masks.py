"""Masks, which say which position may attend to which. They are boolean, and True always means *attend*."""

from keras import ops

from kmha.core.tensors import Tensor

# The logit of a masked position. It is far below any other logit, but finite, so that no gradient computes inf - inf.
LOWEST = -1e38


def causal(rows: Tensor, columns: Tensor, ahead: Tensor = 0) -> Tensor:
    """Return the mask (T, S) in which position t attends to positions s ≤ t.

    `rows` (T) and `columns` (S) are numbers of positions. The first query is `ahead` positions after the first key.

    >>> import numpy as np
    >>> print(np.array(causal(3, 5)).astype(int))
    [[1 0 0 0 0]
     [1 1 0 0 0]
     [1 1 1 0 0]]
    """
    return ops.greater_equal(*_positions(rows, columns, ahead))


def window(rows: Tensor, columns: Tensor, width: int, ahead: Tensor = 0) -> Tensor:
    """Return the mask (T, S) in which position t attends to positions less than `width` away on either side.

    Combined with `causal`, it is the causal sliding window of Mistral 7B (Jiang et al. 2023, section 2). The other
    arguments are as in `causal`.

    >>> import numpy as np
    >>> print(np.array(window(3, 5, width=2)).astype(int))
    [[1 1 0 0 0]
     [1 1 1 0 0]
     [0 1 1 1 0]]
    """
    row, column = _positions(rows, columns, ahead)
    return ops.less(ops.abs(ops.subtract(row, column)), width)


def structured(rows: Tensor, columns: Tensor, is_causal: bool, width: int | None, ahead: Tensor = 0) -> Tensor:
    """Return the mask (T, S) of causality and a window of `width`, or `None` if both are off."""
    return combine(
        causal(rows, columns, ahead) if is_causal else None,
        None if width is None else window(rows, columns, width, ahead),
    )


def padding(ids: Tensor, pad_id: int = 0) -> Tensor:
    """Return the mask (B, 1, S) in which every position attends to the token ids (B, S) that are not padding.

    >>> import numpy as np
    >>> print(np.array(padding(np.array([[7, 6, 0, 0], [1, 2, 3, 0]]))).astype(int))
    [[[1 1 0 0]]
    <BLANKLINE>
     [[1 1 1 0]]]
    """
    return ops.expand_dims(ops.not_equal(ids, pad_id), 1)


def combine(*masks: Tensor) -> Tensor:
    """Return the mask of what all `masks` allow. A mask, or the result, is `None` if it allows everything."""
    result = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else ops.logical_and(result, mask)
    return result


def _positions(rows: Tensor, columns: Tensor, ahead: Tensor) -> tuple[Tensor, Tensor]:
    row, column = ops.arange(rows, dtype="int32"), ops.arange(columns, dtype="int32")
    return ops.expand_dims(ops.add(row, ahead), 1), ops.expand_dims(column, 0)
