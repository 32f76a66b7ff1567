import dataclasses
import itertools

import pytest

from kmha.verify.bank import separation
from kmha.verify.bank.indistinguishable import NEEDS, SAME, expected, holds, needs
from kmha.verify.bank.separation import RIGHT, Configuration, same
from kmha.verify.diagnosing.trials import Accepts
from kmha.verify.mistakes import BANK

EVERYTHING = Accepts(causal=True, padding=True, query_padding=True, training=True, half=True)
FLAGS = {field.name for field in dataclasses.fields(Accepts)} | {"core", "scores", "use_bias"}


def _with(flags, seed=0):
    """What accepts all, but for these flags."""
    values = {flag.removeprefix("-"): not flag.startswith("-") for flag in flags.split()}
    own = {name: values.pop(name) for name in ("core", "scores", "use_bias") if name in values}
    return Configuration(seed, dataclasses.replace(EVERYTHING, **values), **own)


def _unexpected(configuration):
    """Pairs that are one function, and ids that are right, which the module does not list."""
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
    assert _unexpected(separation.random(seed)) == []


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
    return {id for id in ids if all(separation.answer(trial, [BANK[id].changes]) is None for trial in drawn)}


def test_conditions_are_of_flags_that_there_are():
    for condition in (*(one.when for one in SAME), *NEEDS.values()):
        assert {flag.removeprefix("-") for flag in condition.replace("|", " ").split()} <= FLAGS
