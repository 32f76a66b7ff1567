import numpy as np

from kmha.verify.bank.separation import RIGHT, Configuration, same
from kmha.verify.chains.attention import ATTENTION
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.trials import Accepts

EVERYTHING = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)


def test_the_bank_is_large():
    mistakes = matching.candidates("attention")
    assert len(mistakes) >= 190
    for one in mistakes:
        assert one.changes.keys() <= ATTENTION.keys()
        assert one.says.endswith(".")
        assert ". " not in one.says
        assert one.look
        assert one.source
    assert len({one.says for one in mistakes}) == len(mistakes)


def test_same_knows_what_raises_from_what_answers():
    """The transposed mask raises where T ≠ S, and is right where there is no mask; so it is neither here."""
    configuration = Configuration(0, Accepts())
    assert same(configuration, ["mask-transposed", "mask-missing"]) == []
    assert same(Configuration(0, Accepts(mask=False)), ["mask-transposed", "mask-missing"]) == [
        (RIGHT, "mask-transposed", "mask-missing")
    ]
    # Never possible: not made, and not listed.
    assert same(Configuration(0, Accepts(), core=True), ["bias-missing-query", "bias-missing-value"]) == []


def test_scores_count_only_where_they_are_returned():
    ids = ["returned-logits"]
    assert same(Configuration(0, Accepts()), ids) == []
    assert same(Configuration(0, Accepts(), scores=False), ids) == [(RIGHT, "returned-logits")]


def test_dropout_is_drawn():
    drawn = {trial.name: trial for trial in Configuration(0, EVERYTHING).draw()}
    training, other = drawn["dropout, training"], drawn["dropout, not training"]
    for kept in (training.kept, other.more["kept"]):
        assert set(np.unique(kept)) == {0, 1 / (1 - training.rate)}
    assert other.kept is None
