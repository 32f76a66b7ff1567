import re

import pytest

from kmha.verify.mistakes import BANK, Mistake, add, mistake


@pytest.fixture
def unchanged():
    """The bank is as it was, after the test."""
    before = dict(BANK)
    yield
    BANK.clear()
    BANK.update(before)


@pytest.mark.usefixtures("unchanged")
def test_a_mistake_is_added_by_a_decorator():
    @mistake("new-one", step="scaled", says="It is new.", look="here", source="nowhere")
    def _new(state, right):
        return state["logits"]

    one = BANK["new-one"]
    assert (one.id, one.step, one.says, one.look, one.source) == ("new-one", "scaled", "It is new.", "here", "nowhere")
    assert one.changes["scaled"] is _new
    assert "attention" in one.chains()


@pytest.mark.usefixtures("unchanged")
def test_a_mistake_of_several_steps():
    changes = {"scaled": lambda state, right: 1, "output": lambda state, right: 2}
    add("new-two", "It is new.", "here", "nowhere", **changes)
    assert dict(BANK["new-two"].changes) == changes
    assert BANK["new-two"].step == "scaled"


@pytest.mark.usefixtures("unchanged")
def test_no_id_twice():
    for again in (
        lambda: add("scale-missing", "It is old.", "here", "nowhere", scaled=lambda state, right: 1),
        lambda: mistake("scale-missing", "scaled", "It is old.", "here", "nowhere")(lambda state, right: 1),
    ):
        with pytest.raises(ValueError, match="the bank has a mistake `scale-missing` already"):
            again()
    assert BANK["scale-missing"].says != "It is old."


def test_a_mistake_belongs_to_the_chains_that_have_its_steps():
    change = {"no such step": lambda state, right: 1}
    assert Mistake("none", "It is of no chain.", "here", "nowhere", change).chains() == ()


def test_ids_are_words_with_hyphens():
    for id, one in BANK.items():
        assert one.id == id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", id)


def test_a_mistake_is_a_value():
    """It can be in a set: matching keeps them so."""
    assert len({BANK["scale-missing"], BANK["scale-heads"]}) == 2
