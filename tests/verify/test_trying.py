import dataclasses
import itertools

import numpy as np
import pytest

from kmha.verify import trying
from kmha.verify.chain import ATTENTION
from kmha.verify.mistakes import BANK
from kmha.verify.mistakes.same import NEEDS, SAME, expected, holds, needs
from kmha.verify.trials import Accepts
from kmha.verify.trying import RIGHT, Configuration, same

EVERYTHING = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)
FLAGS = {field.name for field in dataclasses.fields(Accepts)} | {"core", "scores", "use_bias"}


def _with(flags, seed=0):
    """What accepts all, but for these flags."""
    values = {flag.removeprefix("-"): not flag.startswith("-") for flag in flags.split()}
    own = {name: values.pop(name) for name in ("core", "scores", "use_bias") if name in values}
    return Configuration(seed, dataclasses.replace(EVERYTHING, **values), **own)


def _unexpected(configuration):
    """Pairs, or single ids that are right, which `same` does not list; and how many pairs there are."""
    listed = [set(ids) for ids in expected(configuration)]
    found = []
    for group in same(configuration):
        if RIGHT in group:
            unseen = [one for one in group[1:] if not needs(one) or holds(needs(one), configuration)]
            found += [(RIGHT, one) for one in unseen]
        else:
            pairs = itertools.combinations(group, 2)
            found += [pair for pair in pairs if not any(set(pair) <= ids for ids in listed)]
    return found


@pytest.mark.parametrize("flags", ["", "core", "wide", "-use_bias"])
@pytest.mark.parametrize("seed", [101])
def test_all_are_told_apart_where_everything_is_accepted(flags, seed):
    configuration = _with(flags, seed)
    assert _unexpected(configuration) == []
    if flags != "wide":
        assert same(configuration) == []


@pytest.mark.parametrize("seed", range(200, 215))
def test_in_a_random_configuration_only_those_that_are_listed_are_the_same(seed):
    """At least 98 % of the pairs that are not listed are told apart: here, all but a few in a thousand mistakes."""
    assert len(_unexpected(trying.random(seed))) <= 1


@pytest.mark.parametrize("one", SAME, ids=lambda one: f"{one.ids[0]} {one.when}")
def test_what_is_listed_is_so(one):
    """And where the condition does not hold, the two are told apart."""
    assert set(one.ids) <= BANK.keys()
    assert one.why
    assert same(_with(one.when), one.ids) in ([one.ids], [one.ids[::-1]])
    assert same(_with(""), one.ids) == []


@pytest.mark.parametrize("prefix", NEEDS)
def test_what_is_needed_is_so(prefix):
    """With what a mistake needs, it shows; where a flag is missing, it does not."""
    ids = [id for id in BANK if id.startswith(prefix) and needs(id) == NEEDS[prefix] and _of_attention(id)]
    assert ids
    for part in NEEDS[prefix].split("|"):
        configuration = _with(part)
        shown = [id for group in same(configuration, ids) if RIGHT in group for id in group]
        assert shown == []
    for flag in set(NEEDS[prefix].replace("|", " ").split()):
        without = _with(flag.removeprefix("-") if flag.startswith("-") else f"-{flag}")
        if not holds(NEEDS[prefix], without):
            group = next((group for group in same(without, ids) if RIGHT in group), (RIGHT,))
            assert set(ids) - set(group) <= _impossible(without, ids)


def _of_attention(id):
    return "attention" in BANK[id].chains()


def _impossible(configuration, ids):
    drawn = configuration.draw()
    return {id for id in ids if all(trying.answer(trial, [BANK[id].changes]) is None for trial in drawn)}


def test_conditions_are_of_flags_that_there_are():
    for condition in (*(one.when for one in SAME), *NEEDS.values()):
        assert {flag.removeprefix("-") for flag in condition.replace("|", " ").split()} <= FLAGS


def test_the_bank_is_large():
    mistakes = trying.mistakes_of("attention")
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
    drawn = {trial.name: trial for trial in _with("").draw()}
    training, other = drawn["dropout, training"], drawn["dropout, not training"]
    for kept in (training.kept, other.more["kept"]):
        assert set(np.unique(kept)) == {0, 1 / (1 - training.rate)}
    assert other.kept is None
