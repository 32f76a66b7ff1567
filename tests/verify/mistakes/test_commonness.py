import re

from kmha.verify.mistakes import BANK
from kmha.verify.mistakes.commonness import COMMON, rank


def test_forty_mistakes_of_the_bank():
    assert len(set(COMMON)) == len(COMMON) == 40
    assert set(COMMON) <= BANK.keys()


def test_order():
    """First the common mistakes, then the mistakes with more sources."""
    order = sorted(BANK.values(), key=rank)
    assert tuple(mistake.id for mistake in order[:40]) == COMMON
    sources = [len(re.findall("#", mistake.source)) for mistake in order[40:]]
    assert sources == sorted(sources, reverse=True)
    assert sources[0] > sources[-1] == 0
