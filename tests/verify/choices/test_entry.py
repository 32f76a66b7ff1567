"""Tests of the registry of design choices, and of how the diagnosis finds a candidate's choices."""

import pytest

from kmha.verify.choices import CHOICES, combinations, register


def test_combinations_make_at_most_one_choice_of_each_group() -> None:
    found = list(combinations("encoder"))
    assert found[0] == ()
    assert len(found) == len(set(found))
    for ids in found:
        groups = [CHOICES[id].group for id in ids]
        assert len(groups) == len(set(groups))
    assert ("pre-norm", "activation-gelu") in found


def test_an_id_that_is_taken_and_a_step_that_no_chain_has_are_refused() -> None:
    with pytest.raises(ValueError, match="already a choice 'pre-norm'"):
        register("pre-norm", "norm place", "pre-norm", norm_place=lambda state, right: "before")
    with pytest.raises(ValueError, match="no chain has these steps"):
        register("new", "group", "new", nothing=lambda state, right: None)
