import numpy as np
import pytest
from keras import ops

from kmha.core.folding import Folding

FOLDINGS = [
    (3, None, (0,), (1,)),
    (3, (-2,), (0,), (1,)),
    (4, None, (0,), (1, 2)),
    (4, (2,), (0, 1), (2,)),
    (4, (1,), (0, 2), (1,)),
    (4, (2, 1), (0,), (2, 1)),
    (5, (1, -2), (0, 2), (1, 3)),
]


@pytest.mark.parametrize(("rank", "given", "batch", "attention"), FOLDINGS)
def test_of_sorts_axes(rank, given, batch, attention):
    assert Folding.of(rank, given) == Folding(batch, attention)


@pytest.mark.parametrize("given", [(0,), (3,), (-1,), (7,), (1, 1), (1, -3), ()])
def test_of_refuses_axes_that_are_not_positions(given):
    with pytest.raises(ValueError, match=r"`attention_axes` must name different axes .* Received: attention_axes="):
        Folding.of(4, given)


@pytest.mark.parametrize(("rank", "given", "batch", "attention"), FOLDINGS)
def test_fold_then_unfold_gives_the_same(rank, given, batch, attention):
    folding = Folding.of(rank, given)
    x = np.random.default_rng(0).normal(size=(*(2, 3, 5, 7)[: rank - 1], 11, 13))
    folded = folding.fold(x)
    assert folded.shape[0] == np.prod([x.shape[axis] for axis in batch])
    assert folded.shape[1] == np.prod([x.shape[axis] for axis in attention])
    assert np.array_equal(ops.convert_to_numpy(folding.unfold(folded, like=x)), x)


def test_fold_puts_each_position_where_it_belongs():
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 7, 11))
    folded = ops.convert_to_numpy(Folding.of(4, (1,)).fold(x))  # B' = (B, axis 2), T = axis 1
    for b, t, between in np.ndindex(2, 3, 5):
        assert np.array_equal(folded[b * 5 + between, t], x[b, t, between])


@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 7), (2, 5, 3, 7), (1, 5, 3, 7), (2, 5, 11, 3, 7), (2, 1, 1, 1, 7)])
def test_fold_mask_agrees_with_broadcasting(shape):
    folding = Folding.of(4, (2,))
    query, key = np.ones((2, 5, 3, 11, 13)), np.ones((2, 5, 7, 11, 13))
    mask = np.random.default_rng(0).random(shape) < 0.5
    full = mask
    while full.ndim < 5:
        full = np.expand_dims(full, -3)
    full = np.broadcast_to(full, (2, 5, 11, 3, 7)).reshape(10, 11, 3, 7)
    folded = ops.convert_to_numpy(folding.fold_mask(ops.convert_to_tensor(mask), query, key))
    assert np.array_equal(np.broadcast_to(folded, full.shape), full)
