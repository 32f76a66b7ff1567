import numpy as np

from kmha.course.exercises import Check
from kmha.course.judging.comparing import difference
from kmha.course.judging.kinds import kind_of_mistake, missing_return
from kmha.course.judging.marking import Grade, Outcome
from kmha.course.judging.planning import Plan
from kmha.sandbox.sandbox import Call, CallResult

SOLUTION = """
def f(x):
    return x


class L:
    def call(self, x):
        return x

    def build(self):
        self.a = 1
"""


def _id(code):
    found = missing_return(code, SOLUTION)
    return found and found.says


def test_a_function_without_return():
    assert "`f`" in _id("def f(x):\n    x + 1\n")
    assert "`L.call`" in _id("class L:\n    def call(self, x):\n        x\n")
    assert "`f`" in _id("def f(x):\n    return\n")


def test_functions_that_return():
    for body in ("return x", "if x:\n        return 2", "yield x", "raise NotImplementedError"):
        assert _id(f"def f(x):\n    {body}\n") is None


def test_functions_that_return_nothing_in_the_solution():
    assert _id("class L:\n    def build(self):\n        pass\n\n\ndef helper():\n    pass\n") is None


def test_code_that_cannot_be_parsed():
    assert _id("def f(") is None


def test_a_key_of_a_result_does_not_make_a_long_message():
    """The message is repeated for each check, on pages and in Gradescope's results."""
    check = Check("values", "every element is right", 1, draw=lambda rng: {})
    plan = Plan((Call({}),), ((0,),))
    grade = Grade("a1.f", (Outcome(check, 0, "it differs."),))
    found = kind_of_mistake(grade, plan, [CallResult({"K" * 1_000_000: 1})], [CallResult({"a": 1})])
    assert found.id == "dict-keys"
    assert len(found.says) < 1_000


def test_what_is_said_of_all_else_must_hold_in_all_failed_checks():
    """A result that was wrong everywhere was "nearly right", and "right except where it must be 0", in other checks."""
    right = np.random.default_rng(3).normal(size=(4, 5))
    near, far, empty = right * (1 + 1e-4 * np.sin(right)), right + np.cos(right), np.where(right < 0, 0.0, right)
    values = Check("values", "every element is right", 1, draw=lambda rng: {}, judge=lambda *_: "it differs.")
    edge = Check("edge", "a single key", 1, draw=lambda rng: {})
    plan = Plan((Call({}), Call({})), ((0,), (1,)))
    grade = Grade("a1.f", (Outcome(values, 0, "it differs."), Outcome(edge, 0, "it differs.")))

    def kind(*results):
        received, expected = ([CallResult(each) for each in side] for side in zip(*results, strict=True))
        found = kind_of_mistake(grade, plan, received, expected)
        return found and found.id

    assert kind((near, right), (near, right)) == "result-nearly-right"
    assert kind((far, right), (near, right)) is None
    assert kind((empty + 0.1 * (empty == 0), empty), (empty + 0.1 * (empty == 0), empty)) == "should-be-zero"
    assert kind((far, right), (empty + 0.1 * (empty == 0), empty)) is None


def test_what_other_checks_contradict_is_not_said():
    """A mask the wrong way round was "the same at all places of axis 0", since one check hides a single key."""
    rng = np.random.default_rng(5)
    right, other, wrong = rng.normal(size=(3, 4, 5))
    flat = np.broadcast_to(right[:1], right.shape)
    values, edge = (Check(layer, layer, 1, draw=lambda rng: {}) for layer in ("values", "edge"))
    plan = Plan((Call({}), Call({})), ((0,), (1,)))
    grade = Grade("a1.f", (Outcome(values, 0, "it differs."), Outcome(edge, 0, "it differs.")))

    def kind(*received):
        found = kind_of_mistake(grade, plan, [*map(CallResult, received)], [*map(CallResult, (right, other))])
        return found and found.id

    assert kind(flat, wrong) is None
    assert kind(wrong, np.broadcast_to(other[:1], other.shape)) is None
    assert kind(flat, np.broadcast_to(other[:1], other.shape)) == "result-same-along-axis"


def test_floats_that_should_be_integers():
    """Nothing was said of them, since the numbers are right."""
    right = np.arange(5)
    checks = [Check(layer, layer, 1, draw=lambda rng: {}) for layer in ("shape", "values")]
    plan = Plan((Call({}),), ((0,), (0,)))
    says = difference(right * 1.0, right, 1e-5, form_only=True)

    def kind(*problems, received=right * 1.0):
        outcomes = tuple(Outcome(check, 0, problem) for check, problem in zip(checks, problems, strict=True))
        return kind_of_mistake(Grade("a1.f", outcomes), plan, [CallResult(received)], [CallResult(right)])

    assert kind(says, None).id == "floats-for-integers"
    assert kind(says, "it differs.", received=np.array([0.3, 2, 5, 1, 8])) is None
    assert kind(says, says, received=np.array([0.3, 2, 5, 1, 8])) is None  # the numbers are wrong, too


def test_an_argument_that_is_written_into():
    """The check said so, and nothing said what does that."""
    right = np.random.default_rng(3).normal(size=(4, 5))
    values = Check("values", "every element is right", 1, draw=lambda rng: {})
    unchanged = Check("unchanged", "the inputs are unchanged", 1, draw=lambda rng: {})
    plan = Plan((Call({}),), ((0,), (0,)))
    result = CallResult(right, changed=("x",))

    def kind(*problems, received=result):
        outcomes = tuple(Outcome(check, 0, says) for check, says in zip((values, unchanged), problems, strict=True))
        return kind_of_mistake(Grade("a1.f", outcomes), plan, [received], [CallResult(right)])

    found = kind(None, "your code changes its argument x.")
    assert found.id == "argument-changed"
    assert "`x -= …`" in found.says
    assert kind("it differs.", None, received=CallResult(np.cos(right))) is None
    assert kind("it differs.", "it changes.", received=CallResult(-right, changed=("x",))).id == "result-negative"


def test_a_name_in_a_list_is_no_result_too_many():
    named = Check("named", "the mistake is named", 1, draw=lambda rng: {}, judge=lambda *_: "it is not the id.")
    grade = Grade("a8.f", (Outcome(named, 0, "it is not the id."),))
    assert kind_of_mistake(grade, Plan((Call({}),), ((0,),)), [CallResult(["a"])], [CallResult("a")]) is None
