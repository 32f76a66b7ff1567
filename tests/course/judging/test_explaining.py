import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from kmha.course.exercises import Check, Exercise, Wrong, sizes, standard
from kmha.course.exercises.content import Item
from kmha.course.judging import explaining
from kmha.course.judging.explaining import named_mistake
from kmha.course.judging.marking import Grade, NamedMistake, Outcome
from kmha.course.judging.planning import Plan
from kmha.course.judging.running import Answer, Runner
from kmha.sandbox.sandbox import Call, CallResult
from kmha.verify.chains.attention import Trial

SEED = 301


def _changed(item, **changes):
    """Return the exercise with changes in its spec."""
    found = dataclasses.replace(item)
    object.__setattr__(found, "spec", dataclasses.replace(item.spec, **changes))
    return found


def _named(doubling, sandbox, code):
    return _named_in(doubling.items[0], sandbox, code)


def _named_in(item, sandbox, code):
    runner = Runner(item, sandbox, SEED)
    return named_mistake(runner, runner.run(Answer(code)).results, runner.expected())


def test_a_wrong_answer_is_known_by_its_results(doubling, sandbox):
    found = _named(doubling, sandbox, "def twice(array):\n    return sum([array] * 3)\n")
    assert found == NamedMistake("thrice-as-much", "The factor is 3.", "a thread")


def test_other_answers_are_not_named(doubling, sandbox):
    for line in ("return array * 2.9", "return 2 * array", "raise ValueError", "array *= 3; return array"):
        assert _named(doubling, sandbox, f"def twice(array):\n    {line}\n") is None


def test_errors_are_alike_by_their_kind():
    one, other, third = (CallResult(error={"kind": kind, "says": says}) for kind, says in ("Aa", "Ab", "Ba"))
    near = [1e-6]
    assert not explaining._all_equal([one], [third], near)
    assert explaining._all_equal([one], [other], near)
    assert not explaining._all_equal([one], [CallResult(3)], near)
    assert not explaining._all_equal([CallResult(3, changed=("a",))], [CallResult(3)], near)


def test_errors_alone_do_not_name_a_mistake(doubling, sandbox):
    """Errors look alike whatever the cause: this answer forgot an import."""
    raises = Wrong("raises", "It uses what there is not.", "def twice(array):\n    return numpy.add(array, array)\n")
    item = _changed(doubling.items[0], wrong=(raises,))
    assert _named_in(item, sandbox, "def twice(array):\n    return two * array\n") is None


def test_mistakes_are_compared_within_the_tolerance(doubling, sandbox):
    """Half precision, or another order of operations, rounds differently."""
    code = "def twice(array):\n    return array * 3 * (1 + 1e-4)\n"
    assert _named(doubling, sandbox, code) is None
    item = doubling.items[0]
    checks = tuple(dataclasses.replace(check, tolerance=1e-3) for check in item.spec.checks)
    assert _named_in(_changed(item, checks=checks), sandbox, code).id == "thrice-as-much"


def _inputs(rng):
    batch, heads, queries, keys, size = sizes(rng, 5)
    shapes = {"query": queries, "key": keys, "value": keys}
    return {role: rng.normal(size=(batch, heads, positions, size)) for role, positions in shapes.items()}


def _attend(inputs, scale):
    logits = np.einsum("BHTO,BHSO->BHTS", inputs["query"], inputs["key"]) * scale
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("BHTS,BHSO->BHTO", powers / powers.sum(-1, keepdims=True), inputs["value"])


@pytest.mark.parametrize(("power", "id"), [(0.0, "scale-missing"), (-0.5, None), (-0.3, None)])
def test_mistakes_of_the_bank(power, id):
    """Attention without a scale is in the bank. Correct attention and an unusual scale are not."""

    def bank(inputs):
        return Trial("attention", inputs["query"], inputs["key"], inputs["value"])

    item = Item("a0", "f", None)
    vars(item)["spec"] = Exercise("f", "?", 1, 1, standard(_inputs, values=1), (), bank=bank)
    runner = Runner(item, None, SEED)
    inputs = [call.inputs for call in runner.plan.calls]
    results = [CallResult(_attend(each, each["query"].shape[-1] ** power)) for each in inputs]
    expected = [CallResult(_attend(each, each["query"].shape[-1] ** -0.5)) for each in inputs]
    found = named_mistake(runner, results, expected)
    assert (found and found.id) == id


def test_no_outputs_without_a_bank():
    item = Item("a0", "f", None)
    vars(item)["spec"] = Exercise("f", "?", 1, 1, standard(_inputs, values=1), ())
    assert list(explaining.bank_outputs(Runner(item, None, 1))) == []


def test_an_answer_that_passes_what_a_mistake_must_fail_does_not_make_it():
    right = np.random.default_rng(3).normal(size=(3, 4))
    checks = [Check("edge", "first", 1, draw=_inputs), Check("edge", "second", 1, draw=_inputs)]
    plan = Plan((Call({}), Call({})), ((0,), (1,)))
    thrice = Wrong("thrice", "The factor is 3.", "")
    ran = SimpleNamespace(error=None, results=[CallResult(3 * right), CallResult(3 * right)])
    spec = SimpleNamespace(wrong=[thrice], checks=checks)
    runner = SimpleNamespace(spec=spec, plan=plan, wrong=lambda wrong: ran)
    expected = [CallResult(right), CallResult(right)]
    for second, problem, id in ((right, None, None), (right + 1, "it differs.", "thrice")):
        grade = Grade("a1.f", (Outcome(checks[0], 0, "it differs."), Outcome(checks[1], 0, problem)))
        found = explaining._mistake_in_parts(grade, runner, [CallResult(3 * right), CallResult(second)], expected)
        assert (found and found.id) == id


def test_a_mistake_that_only_a_later_check_shows_is_named():
    right = np.random.default_rng(3).normal(size=(3, 4))
    checks = [Check("values", "first", 1, draw=_inputs), Check("values", "second", 1, draw=_inputs)]
    runner = SimpleNamespace(
        spec=SimpleNamespace(wrong=[Wrong("thrice", "The factor is 3.", "")], checks=checks),
        plan=Plan((Call({}), Call({})), ((0,), (1,))),
        wrong=lambda wrong: SimpleNamespace(error=None, results=[CallResult(3 * right), CallResult(3 * right)]),
    )
    grade = Grade("a1.f", tuple(Outcome(check, 0, "it differs.") for check in checks))
    expected = [CallResult(right), CallResult(right)]
    for first, says in (
        (right - 2, "The factor is 3. This shows in the check “second”."),
        (3 * right, "The factor is 3."),
    ):
        found = explaining._mistake_in_parts(grade, runner, [CallResult(first), CallResult(3 * right)], expected)
        assert found is not None
        assert found.says == says
