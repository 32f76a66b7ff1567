import dataclasses

import numpy as np
import pytest

from kmha.verify.chains.attention import ImpossibleError, run
from kmha.verify.mistakes import BANK, batch


def test_batch_for_positions(make_plain):
    """Position by position, the items attend to each other."""
    p = make_plain("equal lengths")
    outputs = []
    for t in range(p.T):
        logits = np.einsum("aho,bho->hab", p.q[:, t], p.k[:, t]) / p.O**0.5
        scores = np.exp(logits) / np.exp(logits).sum(-1)[..., None]
        outputs.append(p.merge(np.einsum("hab,bho->aho", scores, p.v[:, t])[:, :, None])[:, 0])
    expected = np.stack([outputs[t] for t in range(p.T)], axis=1)
    p.check("batch-for-positions", expected)
    for name in ("cross-attention", "mask, equal lengths"):
        with pytest.raises(ImpossibleError):
            make_plain(name).wrong("batch-for-positions")


@pytest.mark.parametrize("core", [False, True])
def test_one_sequence(make_plain, core):
    p = make_plain("cross-attention", core)
    logits = np.einsum("atho,bsho->ahtbs", p.q, p.k) / p.O**0.5
    scores = np.exp(logits) / np.exp(logits).sum((3, 4), keepdims=True)
    mixed = np.einsum("ahtbs,bsho->ahto", scores, p.v)
    p.check("batch-as-one-sequence", mixed if core else p.merge(mixed))


OTHERS = {
    "batch-first-key-value": lambda p: p.attend(k=p.k[[0] * p.B], v=p.v[[0] * p.B]),
    "batch-first-value": lambda p: p.attend(v=p.v[[0] * p.B]),
    "batch-reversed-key-value": lambda p: p.attend(k=np.flip(p.k, 0), v=np.flip(p.v, 0)),
    "batch-averaged-scores": lambda p: p.end(np.stack([sum(p.scores()) / p.B] * p.B)),
    "batch-centred": lambda p: p.attend(
        *(p.project(x - sum(x) / p.B, role) for x, role in ((p.x, "query"), (p.y, "key"), (p.z, "value")))
    ),
}


@pytest.mark.parametrize("identity", OTHERS)
def test_others(make_plain, identity):
    p = make_plain("mask")
    p.check(identity, OTHERS[identity](p))


def test_one_item_is_right(make_plain):
    """These mistakes depend on the other items, so a single item does not show them."""
    p = make_plain("equal lengths")
    arrays = {"query": p.x[:1], "key": p.y[:1], "value": p.z[:1]}
    one = dataclasses.replace(p.trial, **arrays)
    for identity in (
        "batch-as-one-sequence",
        "batch-first-key-value",
        "batch-reversed-key-value",
        "batch-averaged-scores",
    ):
        found = run(one, [BANK[identity].changes])["output"]
        np.testing.assert_allclose(found, p.end(p.scores())[:1], rtol=1e-9, atol=1e-9)


def test_input_changed(make_plain):
    p = make_plain("mask")
    p.check("input-changed", p.end(p.scores()))
    assert not p.wrong("input-changed", "untouched")
    assert run(p.trial)["untouched"]


@pytest.mark.parametrize(("name", "times"), [("cross-attention", 1.0), ("self-attention", None)])
def test_input_scaled(make_plain, name, times):
    """The first result is right if the query is a separate array, and wrong if it is the key too."""
    p = make_plain(name, core=True)
    times = p.O**-0.5 if times is None else times
    p.check("input-scaled", p.mix(p.soft(p.logits() * times), p.v * times))
    assert not p.wrong("input-scaled", "untouched")
    with pytest.raises(ImpossibleError):
        make_plain(name).wrong("input-scaled")


def test_all(ids_in):
    others = {"batch-for-positions", "batch-as-one-sequence", "input-changed", "input-scaled"}
    assert ids_in(batch) == {*OTHERS, *others}
