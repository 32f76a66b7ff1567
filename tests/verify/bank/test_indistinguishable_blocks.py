import numpy as np
import pytest

from kmha.verify.bank import separation
from kmha.verify.bank.indistinguishable_blocks import expected_in_block
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.trials_blocks import BlockAccepts, draw_block

RIGHT = separation.RIGHT


def _groups(trials, chain):
    """The mistakes that give the same numbers for all trials, but for those that change nothing or cannot be made."""
    bank = {one.id: [one.changes] for one in matching.candidates(chain)}
    groups, made = [[RIGHT, *bank]], set()
    for trial in trials:
        finer = []
        for group in groups:  # who is alone need not be run again
            found = {identity: separation.answer(trial, bank.get(identity, []), scores=False) for identity in group}
            made |= {identity for identity, row in found.items() if row is not None}
            left = list(group)
            while left:
                together = [other for other in left if _same(found[left[0]], found[other])]
                left = [other for other in left if other not in together]
                finer += [together] if len(together) > 1 or together[0] not in made else []
        groups = finer
    return [set(group) for group in groups if RIGHT not in group and len(group) > 1 and group[0] in made]


def _same(one, other):
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and (np.abs(one - other) <= separation.APART).all()


@pytest.mark.parametrize(
    ("accepts", "seed"),
    [
        (BlockAccepts("encoder"), 0),
        (BlockAccepts("encoder", norm_first=True), 1),
        (BlockAccepts("encoder", causal=False), 2),
        (BlockAccepts("decoder"), 3),
        (BlockAccepts("decoder", memory=True, norm_first=True), 4),
        (BlockAccepts("embedding"), 5),
    ],
)
def test_no_others_are_the_same(accepts, seed):
    groups = [set(group) for group in expected_in_block(accepts)]
    for found in _groups(draw_block(seed, accepts), accepts.chain):
        assert any(found <= group for group in groups), found
