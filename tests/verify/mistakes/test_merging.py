import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError
from kmha.verify.mistakes import merging


def _flat(p, mixed):
    """An item's numbers in memory order, cut into T rows."""
    return np.stack(np.split(mixed.reshape(p.B, -1), p.T, axis=1), axis=1)


def _exchanged(p, mixed):
    """The arrays (T, O) in the order of (B·H), read as (H·B)."""
    arrays = [mixed[b, h] for b in range(p.B) for h in range(p.H)]
    return np.stack([np.concatenate([arrays[h * p.B + b] for h in range(p.H)], axis=1) for b in range(p.B)])


# (B, T, H·O) of what was mixed, (B, H, T, O).
JOINED = {
    "merge-not-transposed": _flat,
    "merge-size-first": lambda p, mixed: np.stack([mixed[:, h, :, o] for o in range(p.O) for h in range(p.H)], axis=-1),
    "merge-batch-exchanged": _exchanged,
    "merge-averaged": lambda p, mixed: np.concatenate([mixed.sum(1) / p.H] * p.H, axis=-1),
    "merge-summed": lambda p, mixed: np.concatenate([mixed.sum(1)] * p.H, axis=-1),
    "merge-largest": lambda p, mixed: np.concatenate([mixed.max(1)] * p.H, axis=-1),
    "merge-first-head-only": lambda p, mixed: np.concatenate([mixed[:, 0]] * p.H, axis=-1),
    "merge-last-head-only": lambda p, mixed: np.concatenate([mixed[:, -1]] * p.H, axis=-1),
    "merge-heads-reversed": lambda p, mixed: np.concatenate([mixed[:, h] for h in reversed(range(p.H))], axis=-1),
}


def _kernel_size_first(p, mixed):
    kernel = p.kernel("attention_output")
    rows = np.stack([kernel[h, o] for o in range(p.O) for h in range(p.H)])
    return p.join(mixed) @ rows + p.bias("attention_output")


OUTPUTS = {
    "merge-kernel-size-first": _kernel_size_first,
    "merge-divided-by-heads": lambda p, mixed: (
        (p.merge(mixed) - p.bias("attention_output")) / p.H + p.bias("attention_output")
    ),
    "merge-projection-missing": lambda p, mixed: p.join(mixed),
    "merge-rectified": lambda p, mixed: np.where(p.merge(mixed) > 0, p.merge(mixed), 0),
}
# Those that fit only where E is H·O.
WIDE = {
    "merge-kernel-transposed": lambda p, mixed: (
        p.join(mixed) @ p.kernel("attention_output").reshape(p.H * p.O, -1).T + p.bias("attention_output")
    ),
    "merge-bias-first": lambda p, mixed: (
        (p.join(mixed) + p.bias("attention_output")) @ p.kernel("attention_output").reshape(p.H * p.O, -1)
    ),
}


@pytest.mark.parametrize("identity", JOINED)
def test_joined(make_plain, identity):
    p = make_plain("mask")
    p.check(identity, p.merge_joined(JOINED[identity](p, p.mix(p.scores()))))


@pytest.mark.parametrize("identity", [*OUTPUTS, *WIDE])
def test_outputs(make_plain, identity):
    p = make_plain("mask", wide=identity in WIDE)
    p.check(identity, {**OUTPUTS, **WIDE}[identity](p, p.mix(p.scores())))


@pytest.mark.parametrize("identity", [*JOINED, *OUTPUTS, *WIDE])
def test_the_core_does_not_merge(make_plain, identity):
    with pytest.raises(ImpossibleError):
        make_plain("mask", core=True).wrong(identity)


@pytest.mark.parametrize("identity", WIDE)
def test_what_does_not_fit(make_plain, identity):
    with pytest.raises(ImpossibleError):
        make_plain("mask").wrong(identity)


def test_all(ids_in):
    assert ids_in(merging) == {*JOINED, *OUTPUTS, *WIDE}
