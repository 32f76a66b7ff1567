import re

from kmha.course.exercises import content, source_documents


def test_every_seed_that_is_named_is_known():
    """A bare number would tell a learner nothing."""
    items = list(content.items())
    sources = [wrong.source for item in items for wrong in item.spec.wrong] + [item.spec.question for item in items]
    named = {found for source in sources for found in re.findall(r"seed \d+", source)}
    assert named == set(source_documents.SEEDS)


def test_other_sources_are_unchanged():
    assert source_documents.describe("keras-team/keras#1") == "keras-team/keras#1"
    assert source_documents.describe("seed 999") == "seed 999"
