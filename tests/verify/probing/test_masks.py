import numpy as np
import pytest

from kmha.verify.probing import masks
from kmha.verify.probing.inputs import Slot

B, T, S = 2, 5, 3
PADDING = np.array([[1, 1, 0], [1, 0, 1]])
QUERY, VALUE = Slot(("query",)), Slot(("value", "key"))


@pytest.mark.parametrize(
    ("mask", "batched", "expected"),
    [
        (PADDING, True, PADDING),
        (PADDING[:, None, None], True, PADDING),
        (PADDING[:, None] * np.ones((B, T, S)), True, PADDING),
        (np.tri(S), False, np.ones((B, S))),
        (np.array([[1, 0, 1], [1, 0, 0]]), False, [[1, 0, 1]] * B),
        (np.where(PADDING, 0.0, -1e9)[:, None], True, PADDING),
        (PADDING[:1, None], False, PADDING[[0, 0]]),
    ],
    ids=["padding", "with axes", "of rows", "causal", "without B", "added", "broadcast"],
)
def test_columns(mask, batched, expected):
    np.testing.assert_array_equal(masks.columns(mask, batched, B), np.array(expected, bool))


def test_columns_of_one_size_hide_nothing():
    assert masks.columns(np.ones((B, T, 1)), True, B) is None


@pytest.mark.parametrize(
    ("name", "shape", "lengths", "expected"),
    [
        ("value_mask", (B, S), {0: T, 1: S}, [1]),
        ("query_mask", (B, T), {0: T, 1: T}, [0]),
        ("key_mask", (B, T), {0: T, 1: T}, [1]),
        ("attention_mask", (B, T, S), {0: T, 1: S}, [1]),
        ("attention_mask", (T, T), {0: T, 1: T}, [1]),
        ("padding_mask", (B, 1, S), {0: T, 1: S}, [1]),
        ("padding_mask", (B, 1, T), {0: T, 1: T}, []),
        ("mask", (B, T, 1), {0: T, 1: S}, []),
        ("query_mask", (B, 1), {0: T, 1: S}, []),
    ],
)
def test_hides(name, shape, lengths, expected):
    assert masks.hides((name,), np.ones(shape), [QUERY, VALUE], lengths) == expected


@pytest.mark.parametrize(
    ("mask", "batched", "lengths", "shape"),
    [
        (np.ones((B, S)), True, {S}, (B, S + 4)),
        (np.ones((B, T, S)), True, {S}, (B, T, S + 4)),
        (np.ones((B, T, S)), True, {T, S}, (B, T + 4, S + 4)),
        (np.ones((S, S)), False, {S}, (S + 4, S + 4)),
        (np.ones((B, 1, 1, S)), True, {S}, (B, 1, 1, S + 4)),
        (np.ones((B, T)), True, {S}, (B, T)),
    ],
)
def test_lengthened(mask, batched, lengths, shape):
    longer = masks.lengthened(mask, batched, lengths, 4)
    assert longer.shape == shape
    kept = tuple(slice(size) for size in mask.shape)
    np.testing.assert_array_equal(longer[kept], mask)
    if mask.shape[-1] == S:
        assert not longer[..., S:].any()


def test_lengthened_where_it_is_added():
    mask = np.where(PADDING, 0.0, -1e9)
    np.testing.assert_array_equal(masks.lengthened(mask, True, {S}, 2)[:, S:], np.full((B, 2), -1e9))
