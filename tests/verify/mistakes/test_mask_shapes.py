import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError
from kmha.verify.mistakes import mask_shapes


def _by_heads(of):
    """Build (B, H, T, S) from the mask of each item b and head h."""
    return lambda p, mask: np.array([[of(p, mask, b, h) for h in range(p.H)] for b in range(p.B)])


# From a mask (B, T, S), the one that is used.
MASKS = {
    "mask-tiled": _by_heads(lambda p, mask, b, h: mask[(b * p.H + h) % p.B]),
    "mask-repeated": _by_heads(lambda p, mask, b, h: mask[(h * p.B + b) // p.H]),
    "mask-of-first-item": _by_heads(lambda p, mask, b, h: mask[0]),
    "mask-of-next-item": _by_heads(lambda p, mask, b, h: mask[b + 1 if b + 1 < p.B else 0]),
    "mask-first-head-only": _by_heads(lambda p, mask, b, h: mask[b] if h == 0 else np.ones_like(mask[b])),
}
# From the mask argument (B, T, S).
OF_ALL_ROWS = {
    "mask-first-row-for-all": lambda mask: mask[:, :1],
    "mask-last-row-for-all": lambda mask: mask[:, -1:],
    "mask-any-row-for-all": lambda mask: mask.max(1)[:, None],
    "mask-all-rows-for-all": lambda mask: mask.min(1)[:, None],
    "mask-all-items": lambda mask: mask.min(0)[None],
}
# From the lengths of the items.
LENGTHS = {
    "padding-shortest-for-all": lambda places, lengths: places < lengths.min(),
    "padding-one-more": lambda places, lengths: places < lengths + 1,
    "padding-one-less": lambda places, lengths: places < lengths - 1,
    "padding-at-other-end": lambda places, lengths: places >= places.size - lengths,
}


def _check(p, identity, allowed):
    """Compare rows with something to attend to; the others are zeros."""
    allowed = np.broadcast_to(allowed, (p.B, p.H, p.T, p.S))
    some = allowed.any(-1)
    with np.errstate(invalid="ignore"):
        expected = np.where(some[..., None], p.soft(p.logits(), allowed), 0)
    p.check(identity, expected, "scores")
    p.check(identity, p.end(expected))


@pytest.mark.parametrize("name", ["mask", "padding", "mask and padding"])
@pytest.mark.parametrize("identity", MASKS)
def test_items_and_heads(make_plain, identity, name):
    p = make_plain(name)
    mask = np.broadcast_to(p.allowed[:, 0], (p.B, p.T, p.S))
    _check(p, identity, MASKS[identity](p, mask))


@pytest.mark.parametrize("identity", OF_ALL_ROWS)
def test_rows(make_plain, identity):
    for name in ("mask", "mask and padding"):
        p = make_plain(name)
        others = p.padding if name != "mask" else True
        _check(p, identity, OF_ALL_ROWS[identity](p.trial.mask)[:, None] & others)


def test_transposed(make_plain):
    p = make_plain("mask, equal lengths")
    _check(p, "mask-transposed", np.einsum("bts->bst", p.trial.mask)[:, None])
    with pytest.raises(ImpossibleError):
        make_plain("mask").wrong("mask-transposed")


def test_items_as_heads(make_plain):
    p = make_plain("mask, as many items as heads")
    assert p.B == p.H
    _check(p, "mask-items-as-heads", p.trial.mask[None])
    with pytest.raises(ImpossibleError):
        make_plain("mask").wrong("mask-items-as-heads")


def test_items_as_queries(make_plain):
    p = make_plain("padding, as many queries as items")
    assert p.B == p.T
    _check(p, "padding-items-as-queries", p.trial.key_mask[None, None])
    with pytest.raises(ImpossibleError):
        make_plain("padding").wrong("padding-items-as-queries")


@pytest.mark.parametrize("identity", LENGTHS)
def test_lengths(make_plain, identity):
    p = make_plain("padding")
    lengths = p.trial.key_mask.sum(1)[:, None]
    allowed = LENGTHS[identity](np.arange(p.S), lengths)
    _check(p, identity, np.atleast_2d(allowed)[:, None, None])


def test_without_a_mask_all_are_right(make_plain, ids_in):
    p = make_plain("cross-attention")
    for identity in ids_in(mask_shapes):
        p.check(identity, p.end(p.scores()))


def test_all(ids_in):
    others = {"mask-transposed", "mask-items-as-heads", "padding-items-as-queries"}
    assert ids_in(mask_shapes) == {*MASKS, *OF_ALL_ROWS, *LENGTHS, *others}
