"""Every pair of the 40 most common mistakes must be found, unless the numbers show a single mistake or none.

All pairs take half an hour. So `pytest` tries four of them, `pytest -m ""` every eighth, and

    KMHA_ALL_PAIRS=1 pytest -m "" tests/verify/bank/test_common_pairs.py

all of them.
"""

import functools
import itertools
import os

import numpy as np
import pytest

from kmha.verify.bank.self_test import simulate
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.block_trials import BlockAccepts, draw_block
from kmha.verify.diagnosing.pairs import find_pairs
from kmha.verify.diagnosing.trials import Accepts, draw
from kmha.verify.mistakes import BANK
from kmha.verify.mistakes.commonness import COMMON

pytestmark = pytest.mark.sampled(4)

QUICK = (
    "scale-missing heads-reshaped",
    "mask-inverted scale-without-root",
    "causal-strict padding-ignored",
    "dropout-at-inference inputs-key-value-swapped",
)
ALL = "KMHA_ALL_PAIRS" in os.environ
EVERY = 8


@functools.cache
def _drawn(chain):
    if chain == "attention":
        return draw(3, Accepts(causal=True, padding=True, query_padding=True, training=True, wide=True))
    return draw_block(3, BlockAccepts(chain))


def _chain(*ids):
    chains = set.intersection(*({*BANK[id].chains()} for id in ids))
    return next((chain for chain in ("attention", "encoder", "embedding") if chain in chains), None)


def _missed(first, second):
    """Return what was found instead of a pair, or `None` if the pair was found or cannot be told from less."""
    mistakes, chain = [BANK[first], BANK[second]], _chain(first, second)
    results = simulate(_drawn(chain), mistakes, np.random.default_rng(0))
    results = [result for result in results if not result.answer.error]
    alone = ((), *([mistake] for mistake in matching.mistakes_of(chain)))
    if not results or any(matching.explains(results, less) for less in alone):
        return None
    found = [set(match.ids) for match in find_pairs(results, chain)]
    return None if {first, second} in found else found


@pytest.mark.parametrize("pair", QUICK)
def test_a_pair_of_common_mistakes_is_found(pair):
    assert _missed(*pair.split()) is None


@pytest.mark.slow
@pytest.mark.parametrize("first", COMMON[:-1])
def test_all_pairs_of_common_mistakes_are_found(first):
    later = COMMON[COMMON.index(first) + 1 :]
    pairs = [(first, second) for second in later if _chain(first, second)]
    pairs = pairs if ALL else pairs[COMMON.index(first) % EVERY :: EVERY]
    assert {pair: found for pair in pairs if (found := _missed(*pair)) is not None} == {}


def test_most_common_mistakes_can_be_made_together():
    assert sum(_chain(*pair) is not None for pair in itertools.combinations(COMMON, 2)) > 700
