import itertools

import numpy as np
import pytest

from kmha.verify import tolerance
from kmha.verify.chains.attention import ATTENTION, ImpossibleError, run
from kmha.verify.diagnosing.block_trials import BlockAccepts, draw_block
from kmha.verify.mistakes import BANK

RIGHT = "right"
APART = tolerance.relative("float32")  # so that a candidate in float32 can be told, too
OTHERS = {"norm_first": True, "epsilon": 1e-3, "activation": "silu"}
# What is right in a block of these settings, or cannot be done there.
IMPOSSIBLE = {
    False: {"feed-forward-activation-relu", "norm-after", "norm-epsilon-1e-6", "decoder-memory-from-block1"},
    True: {
        "feed-forward-activation-silu",
        "feed-forward-activation-at-end",
        "feed-forward-input-unnormed",
        "norm-before",
        "norm-epsilon-1e-3",
        "decoder-query-unnormed",
        "decoder-self-attention-skipped",
        "decoder-cross-attention-skipped",
    },
}


def _mistakes(chain):
    """The mistakes of the chain itself; those of the attention inside are tested elsewhere."""
    return [one for one in BANK.values() if chain in one.chains() and not one.changes.keys() <= ATTENTION.keys()]


def _output(trial, *changes):
    try:
        return np.asarray(run(trial, changes)["output"])
    except ImpossibleError:
        return None


def _alike(one, other):
    """Return whether both have the same results in all trials."""
    for a, b in zip(one, other, strict=True):
        if a is None or b is None:
            if a is not b:
                return False
            continue
        if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return False
        if tolerance.difference(np.nan_to_num(a), np.nan_to_num(b))[1] > APART:
            return False
    return True


@pytest.mark.parametrize(
    ("chain", "settings", "seed"),
    [
        ("embedding", {}, 0),
        ("embedding", {}, 1),
        ("encoder", {}, 2),
        ("encoder", OTHERS, 3),
        ("decoder", {}, 4),
        ("decoder", OTHERS, 5),
    ],
)
def test_each_is_seen_and_told_from_every_other(chain, settings, seed):
    trials = draw_block(seed, BlockAccepts(chain, **settings))
    found = {RIGHT: [_output(trial) for trial in trials]}
    found |= {one.id: [_output(trial, one.changes) for trial in trials] for one in _mistakes(chain)}
    never = {identity for identity, outputs in found.items() if all(output is None for output in outputs)}
    allowed = IMPOSSIBLE[settings.get("norm_first", False)]
    ending = "unnormed" if settings.get("norm_first") else "from-normed"
    assert never - allowed == {one for one in found if one.startswith("residual-") and one.endswith(ending)}
    made = sorted(found.keys() - never)
    assert not [pair for pair in itertools.combinations(made, 2) if _alike(found[pair[0]], found[pair[1]])]


@pytest.mark.parametrize(("chain", "count"), [("encoder", 80), ("decoder", 120), ("embedding", 50)])
def test_there_are_many(chain, count):
    assert len(_mistakes(chain)) >= count


def test_each_has_a_text_a_place_and_a_source():
    for chain in ("encoder", "decoder", "embedding"):
        for one in _mistakes(chain):
            assert one.says.startswith("You ")
            assert one.says.endswith(".")
            assert one.look
            assert one.source
