"""Who may attend to whom. A mask is boolean, and True means *attend*, everywhere."""

from typing import Any

from keras import ops

# Stands for a masked logit: far below any other, and finite, so that no gradient meets inf - inf.
LOWEST = -1e38


def causal(rows: Any, columns: Any, ahead: Any = 0) -> Any:
    """(T, S): position t attends to positions s ≤ t; the first row stands `ahead` positions after the first column.

    >>> import numpy as np
    >>> print(np.array(causal(3, 5)).astype(int))
    [[1 0 0 0 0]
     [1 1 0 0 0]
     [1 1 1 0 0]]
    """
    return ops.greater_equal(*_positions(rows, columns, ahead))


def window(rows: Any, columns: Any, width: int, ahead: Any = 0) -> Any:
    """(T, S): position t attends to positions less than `width` away, on either side; `ahead` as in `causal`.

    Together with `causal` it is the causal sliding window of Mistral 7B (Jiang et al. 2023, section 2).

    >>> import numpy as np
    >>> print(np.array(window(3, 5, width=2)).astype(int))
    [[1 1 0 0 0]
     [1 1 1 0 0]
     [0 1 1 1 0]]
    """
    row, column = _positions(rows, columns, ahead)
    return ops.less(ops.abs(ops.subtract(row, column)), width)


def padding(ids: Any, pad_id: int = 0) -> Any:
    """(B, 1, S): every position attends to those of the token ids (B, S) that are not padding.

    >>> import numpy as np
    >>> print(np.array(padding(np.array([[7, 6, 0, 0], [1, 2, 3, 0]]))).astype(int))
    [[[1 1 0 0]]
    <BLANKLINE>
     [[1 1 1 0]]]
    """
    return ops.expand_dims(ops.not_equal(ids, pad_id), 1)


def combine(*masks: Any) -> Any:
    """What all of `masks` allow; those that are `None` allow everything, and so does the result if all are."""
    result = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else ops.logical_and(result, mask)
    return result


def _positions(rows: Any, columns: Any, ahead: Any) -> tuple[Any, Any]:
    row, column = ops.arange(rows, dtype="int32"), ops.arange(columns, dtype="int32")
    return ops.expand_dims(ops.add(row, ahead), 1), ops.expand_dims(column, 0)
