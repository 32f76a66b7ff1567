import numpy as np
import pytest

from kmha.verify.probing.inputs import CannotTry, Inputs, Place, Slot

B, T, S, I = 3, 6, 5, 4


@pytest.fixture
def inputs(rng):
    """Numbers that carry a mask, ids padded with 0, and a mask of both."""
    ids = np.array([[3, 4, 5, 0, 0], [4, 4, 8, 3, 5], [8, 8, 0, 0, 0]])
    arrays = rng.normal(size=(B, T, I)), ids, np.tri(T, dtype=bool)
    slots = Slot(("x", "y")), Slot(("ids",), pad=0), Slot(("attention_mask",), "mask", False)
    carried = np.arange(T) < np.array([[6], [2], [4]]), None, None
    return Inputs(((Place(0), [Place(1), 7]), {"y": Place(0)}), slots, arrays, carried)


def test_lengths_and_padding(inputs):
    assert inputs.batch == B
    assert inputs.lengths() == {0: T, 1: S}
    np.testing.assert_array_equal(inputs.tokens(0), inputs.carried[0])
    np.testing.assert_array_equal(inputs.tokens(1), inputs.arrays[1] != 0)
    np.testing.assert_array_equal(inputs.token_mask(T), inputs.carried[0])
    assert inputs.token_mask(9).all()


@pytest.mark.parametrize("index", [0, 1])
def test_changed_there_and_nowhere_else(inputs, rng, index):
    where = rng.random((B, inputs.lengths()[index])) < 0.5
    changed = inputs.changed(index, where, rng)
    differs = (changed.arrays[index] != inputs.arrays[index]).reshape(*where.shape, -1)
    np.testing.assert_array_equal(differs.all(axis=-1), where)
    np.testing.assert_array_equal(differs.any(axis=-1), where)
    np.testing.assert_array_equal(changed.arrays[1 - index], inputs.arrays[1 - index])


def test_changed_ids_are_known_ids_and_not_padding(inputs, rng):
    for _ in range(5):
        changed = inputs.changed(1, np.ones((B, S), bool), rng).arrays[1]
        assert set(changed.flat) <= {3, 4, 5, 8}
        assert changed.dtype == inputs.arrays[1].dtype


@pytest.mark.parametrize(("vocabulary", "possible"), [(11, True), (2, False)])
def test_one_id_alone_is_changed_within_the_vocabulary(rng, vocabulary, possible):
    inputs = Inputs(((Place(0),), {}), (Slot(("ids",), vocabulary=vocabulary),), (np.ones((B, S), int),), (None,))
    where = np.ones((B, S), bool)
    if possible:
        assert not (np.isin(inputs.changed(0, where, rng).arrays[0], (0, 1))).any()
    else:
        with pytest.raises(CannotTry, match="the tokens of ids cannot be changed: no other token id is known"):
            inputs.changed(0, where, rng)


@pytest.mark.parametrize("order", [[2, 0, 1], [1]])
def test_reordered(inputs, order):
    changed = inputs.reordered(order)
    assert changed.batch == len(order)
    for index in (0, 1):
        np.testing.assert_array_equal(changed.arrays[index], inputs.arrays[index][order])
    np.testing.assert_array_equal(changed.arrays[2], inputs.arrays[2])  # (T, T), of all items
    np.testing.assert_array_equal(changed.carried[0], inputs.carried[0][order])


def test_padded(inputs):
    padded = inputs.padded([0, 1])
    np.testing.assert_array_equal(padded.carried[0][:, -2:], [[False, False]] * 3)
    np.testing.assert_array_equal(padded.arrays[1][:, -1], [0, 0, 0])
    np.testing.assert_array_equal(padded.arrays[1][1, :-1], inputs.arrays[1][1, :-1])
    assert padded.carrying([1]).carried[1].all()


def test_lengthened(inputs, rng):
    longer = inputs.lengthened([0, 1], 2, rng)
    assert longer.lengths() == {0: T + 2, 1: S + 2}
    for index, length in inputs.lengths().items():
        np.testing.assert_array_equal(longer.arrays[index][:, :length], inputs.arrays[index])
        np.testing.assert_array_equal(longer.tokens(index)[:, :length], inputs.tokens(index))
        assert not longer.tokens(index)[:, length:].any()
    assert longer.arrays[2].shape == (T + 2, T + 2)
    assert inputs.lengthened([1], 2, rng).arrays[2].shape == (T, T)


def test_filled(inputs):
    (first, (ids, seven)), named = inputs.filled(lambda slot, array, carried: (slot.name, carried is None))
    assert first == ("x", False)
    assert (ids, seven) == (("ids", True), 7)
    assert named["y"] is first
