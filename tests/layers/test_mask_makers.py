"""The mask makers of the course."""

import numpy as np
from keras import ops

from kmha.layers import create_look_ahead_mask, create_padding_mask


def test_padding():
    ids = np.array([[7, 6, 0, 0, 1], [1, 2, 3, 0, 0], [0, 0, 0, 4, 5]])
    mask = ops.convert_to_numpy(create_padding_mask(ids))
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, (ids != 0)[:, None])
    np.testing.assert_array_equal(ops.convert_to_numpy(create_padding_mask(ids, pad_id=3)), (ids != 3)[:, None])


def test_look_ahead():
    np.testing.assert_array_equal(ops.convert_to_numpy(create_look_ahead_mask(4)), np.tril(np.ones((4, 4), bool)))
