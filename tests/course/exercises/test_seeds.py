import re

from kmha.course.exercises import content, seeds


def test_every_seed_that_is_named_is_known():
    """A source that says no more than a number would say nothing to a learner."""
    items = list(content.items())
    sources = [wrong.source for item in items for wrong in item.spec.wrong] + [item.spec.question for item in items]
    named = {found for source in sources for found in re.findall(r"seed \d+", source)}
    assert named == set(seeds.SEEDS)


def test_what_is_no_seed_stays():
    assert seeds.describe("keras-team/keras#1") == "keras-team/keras#1"
    assert seeds.describe("seed 999") == "seed 999"
