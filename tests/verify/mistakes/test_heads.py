import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError
from kmha.verify.mistakes import heads

ALL = ("q", "k", "v")


def _chunks(array):
    """Head h gets the h-th of H equal pieces of an item's numbers, in memory order: (B, P, H, O)."""
    batch, positions, count, size = array.shape
    flat = array.reshape(batch, -1)
    pieces = np.split(flat, count, axis=1)
    return np.stack([piece.reshape(batch, positions, size) for piece in pieces], axis=2)


def _strided(array):
    """Head h gets the features h, h + H, h + 2H, …"""
    batch, positions, count, _ = array.shape
    flat = array.reshape(batch, positions, -1)
    return np.stack([flat[..., h::count] for h in range(count)], axis=2)


def _of(index):
    return lambda array: array[:, :, [index] * array.shape[2]]


HEADS = {
    "heads-reshaped": (_chunks, ALL),
    "heads-reshaped-query": (_chunks, "q"),
    "heads-reshaped-key": (_chunks, "k"),
    "heads-reshaped-value": (_chunks, "v"),
    "heads-size-first": (_strided, ALL),
    "heads-all-first": (_of(0), ALL),
    "heads-all-last": (_of(-1), ALL),
    "heads-one-key-value": (_of(0), ("k", "v")),
    "heads-one-query": (_of(0), "q"),
    "heads-one-key": (_of(0), "k"),
    "heads-one-value": (_of(0), "v"),
}


@pytest.mark.parametrize("core", [False, True])
@pytest.mark.parametrize("identity", HEADS)
def test_split(make_plain, identity, core):
    p = make_plain("mask", core)
    of, names = HEADS[identity]
    changed = {name: of(getattr(p, name)) if name in names else getattr(p, name) for name in ALL}
    mixed = p.mix(p.soft(p.logits(changed["q"], changed["k"])), changed["v"])
    p.check(identity, mixed if core else p.merge(mixed))


def test_split_and_merged_by_reshapes(make_plain):
    p = make_plain("mask")
    q, k, v = (_chunks(array) for array in (p.q, p.k, p.v))
    mixed = p.mix(p.soft(p.logits(q, k)), v)
    p.check("heads-reshaped-and-merged", p.merge_joined(mixed.reshape(p.B, p.T, p.H * p.O)))


def test_heads_attend_to_heads(make_plain):
    p = make_plain("equal lengths")
    logits = np.einsum("bpho,bpgo->bphg", p.q, p.k) / p.O**0.5
    scores = np.exp(logits) / np.exp(logits).sum(-1)[..., None]
    p.check("heads-attend-to-heads", scores, "returned")
    p.check("heads-attend-to-heads", p.merge(np.einsum("bphg,bpgo->bhpo", scores, p.v)))
    for name in ("cross-attention", "mask, equal lengths"):
        with pytest.raises(ImpossibleError):
            make_plain(name).wrong("heads-attend-to-heads")


@pytest.mark.parametrize("one_kernel", [False, True])
def test_input_split_before_projecting(make_plain, one_kernel):
    p = make_plain("mask")

    def project(x, role):
        part = x.shape[-1] // p.H
        rows = [slice(h * part, (h + 1) * part) for h in range(p.H)]
        kernel = p.kernel(role)
        kernels = [kernel[0, rows[0]] if one_kernel else kernel[h, rows[h]] for h in range(p.H)]
        return np.stack([x[..., rows[h]] @ kernels[h] for h in range(p.H)], axis=2) + p.bias(role)

    q, k, v = project(p.x, "query"), project(p.y, "key"), project(p.z, "value")
    p.check("heads-split-input-one-kernel" if one_kernel else "heads-split-input", p.attend(q, k, v))


def test_all(ids_in):
    others = {"reshaped-and-merged", "attend-to-heads", "split-input", "split-input-one-kernel"}
    assert ids_in(heads) == {*HEADS, *(f"heads-{other}" for other in others)}
