import numpy as np
import pytest

from kmha.verify import matching, trying
from kmha.verify.mistakes.same_blocks import expected_in_block
from kmha.verify.trials_blocks import BlockAccepts, draw_block


def _groups(trials, chain):
    """Mistakes that give the same numbers for all trials, and show in some."""
    seen = {}
    for one in [None, *matching.candidates(chain)]:
        changes = [] if one is None else [one.changes]
        rows = [trying.answer(trial, changes, scores=False) for trial in trials]
        if any(row is not None for row in rows):
            seen["right" if one is None else one.id] = rows
    left, found = list(seen), []
    while left:
        first = left.pop(0)
        group = [first, *(other for other in left if _same(seen[first], seen[other]))]
        left = [other for other in left if other not in group]
        if len(group) > 1 and first != "right":
            found.append(set(group))
    return found


def _same(rows, others):
    for one, other in zip(rows, others, strict=True):
        if one is None or other is None:
            if one is not other:
                return False
        elif one.shape != other.shape or (np.abs(one - other) > trying.APART).any():
            return False
    return True


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
