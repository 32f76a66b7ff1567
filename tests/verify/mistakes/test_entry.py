import re

import pytest

from kmha.verify.mistakes import BANK, Mistake, register
from kmha.verify.mistakes.entry import register_without_numbers


@pytest.fixture
def unchanged():
    """Restore the bank after the test."""
    before = dict(BANK)
    yield
    BANK.clear()
    BANK.update(before)


@pytest.mark.usefixtures("unchanged")
def test_a_mistake_of_one_step():
    def unscaled(state, right):
        return state["logits"]

    register("new-one", "You made it new.", "here", "nowhere", scaled=unscaled)
    one = BANK["new-one"]
    assert (one.id, one.step, one.says) == ("new-one", "scaled", "You made it new.")
    assert (one.look, one.source) == ("here", "nowhere")
    assert one.changes["scaled"] is unscaled
    assert "attention" in one.chains()


@pytest.mark.usefixtures("unchanged")
def test_a_mistake_of_several_steps():
    changes = {"scaled": lambda state, right: 1, "output": lambda state, right: 2}
    register("new-two", "You made it new.", "here", "nowhere", **changes)
    assert dict(BANK["new-two"].changes) == changes
    assert BANK["new-two"].step == "scaled"


@pytest.mark.usefixtures("unchanged")
def test_no_id_twice():
    with pytest.raises(ValueError, match="the bank already has a mistake 'scale-missing'"):
        register("scale-missing", "You made it old.", "here", "nowhere", scaled=lambda state, right: 1)
    assert BANK["scale-missing"].says != "You made it old."


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["scaledd"], "changes the step 'scaledd', which no chain has. Did you mean 'scaled'?"),
        (["scaled", "qqq"], "changes the step 'qqq', which no chain has. The steps are activated, "),
        (["scaled", "angles"], "changes 'scaled', 'angles', and no single chain has all of these steps."),
        ([], "changes no step, "),
    ],
)
@pytest.mark.usefixtures("unchanged")
def test_steps_that_no_chain_has(steps, message):
    with pytest.raises(ValueError, match=re.escape(f"the mistake 'new-one' {message}")):
        register("new-one", "It is new.", "here", "nowhere", **{step: lambda state, right: 1 for step in steps})
    assert "new-one" not in BANK


def test_a_mistake_belongs_to_the_chains_that_have_its_steps():
    def chains(*steps):
        return Mistake("none", "", "here", "nowhere", {step: lambda state, right: 1 for step in steps}).chains()

    assert chains("no such step") == ()
    assert chains("scaled") == ("attention", "encoder", "decoder")
    assert chains("inside1") == ("encoder", "decoder")
    assert chains("inside2") == ("decoder",)


def test_ids_are_words_with_hyphens():
    for id, one in BANK.items():
        assert one.id == id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", id)


@pytest.mark.usefixtures("unchanged")
def test_a_mistake_without_numbers_belongs_to_no_chain():
    register_without_numbers("new-one", "You made it new.", "here", "nowhere")
    assert (BANK["new-one"].chains(), BANK["new-one"].step) == ((), "")
    with pytest.raises(ValueError, match="the bank already has a mistake 'new-one'"):
        register_without_numbers("new-one", "You made it new.", "here", "nowhere")


def test_a_mistake_is_a_value():
    """It can be in a set: matching keeps them so."""
    assert len({BANK["scale-missing"], BANK["scale-heads"]}) == 2
