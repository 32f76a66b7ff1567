"""Who may attend to whom. A mask is boolean, and True means *attend*, everywhere."""

from typing import Any

from keras import ops


def causal(rows: Any, columns: Any) -> Any:
    """(T, S): position t attends to positions s ≤ t; both count from the start.

    >>> import numpy as np
    >>> print(np.array(causal(3, 5)).astype(int))
    [[1 0 0 0 0]
     [1 1 0 0 0]
     [1 1 1 0 0]]
    """
    return ops.greater_equal(*_positions(rows, columns))


def window(rows: Any, columns: Any, width: int) -> Any:
    """(T, S): position t attends to positions less than `width` away, on either side.

    Together with `causal` it is the causal sliding window of Mistral 7B (Jiang et al. 2023, section 2).

    >>> import numpy as np
    >>> print(np.array(window(3, 5, width=2)).astype(int))
    [[1 1 0 0 0]
     [1 1 1 0 0]
     [0 1 1 1 0]]
    """
    row, column = _positions(rows, columns)
    return ops.less(ops.abs(ops.subtract(row, column)), width)


def combine(*masks: Any) -> Any:
    """What all of `masks` allow; those that are `None` allow everything, and so does the result if all are."""
    result = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else ops.logical_and(result, mask)
    return result


def _positions(rows: Any, columns: Any) -> tuple[Any, Any]:
    return ops.expand_dims(ops.arange(rows, dtype="int32"), 1), ops.expand_dims(ops.arange(columns, dtype="int32"), 0)
