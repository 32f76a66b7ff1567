"""Mark results without a sandbox."""

import dataclasses

import numpy as np
import pytest

from kmha.course.exercises.exercise import Check, Exercise, sizes, standard
from kmha.course.judging.marking import LONGEST, bounded, error_text, mark, problem, refused
from kmha.course.judging.planning import plan
from kmha.sandbox.sandbox import CallResult, TaskResult


def draw(rng):
    rows, columns = sizes(rng, 2)
    return {"array": rng.normal(size=(rows, columns))}


def _raises(inputs, result, expected):
    raise ZeroDivisionError


SPEC = Exercise(
    title="Twice",
    question="",
    difficulty=1,
    minutes=1,
    checks=(
        *standard(draw, signature=1, shape=2, values=4, unchanged=1),
        Check("edge", "a judge that raises", 8, draw, judge=_raises),
    ),
    wrong=(),
)
PLAN = plan(SPEC.checks, 7)
SIGNATURE = CallResult({"": ["array"]})
EXPECTED = [SIGNATURE, *[CallResult(2 * call.inputs["array"]) for call in PLAN.calls[1:]]]


def _mark(*answers):
    return mark("a0.twice", SPEC, PLAN, TaskResult(None, answers), EXPECTED)


def _points(grade):
    return [outcome.points for outcome in grade.outcomes]


def test_right_results_get_all_points_but_those_of_a_judge_that_raises():
    grade = _mark(*EXPECTED)
    assert _points(grade) == [1, 2, 4, 1, 0]
    assert grade.outcomes[4].problem == "your result does not have the expected form."


def test_form_gives_no_points_with_wrong_values():
    grade = _mark(SIGNATURE, *[CallResult(3 * answer.value) for answer in EXPECTED[1:]])
    assert _points(grade) == [0, 0, 0, 0, 0]
    assert [outcome.problem is None for outcome in grade.outcomes] == [True, True, False, True, False]


@pytest.mark.parametrize("names", [np.zeros((10**7, 1), "i1"), [1], {"array": 1}, "array"])
def test_forged_names_of_arguments_take_no_time(names):
    """To list the rows of an array took 12 GB."""
    grade = _mark(CallResult({"": names}), *EXPECTED[1:])
    assert grade.outcomes[0].problem == "it has no arguments that can be read."


@pytest.mark.parametrize("layer", ["edge", "invariants"])
def test_no_points_for_an_edge_case_or_a_property_alone(layer):
    """In an edge case, `raise ValueError` or `return array` can be right, and a property can be that of zeros."""
    edge = Check(layer, "zeros", 8, lambda rng: {"array": np.zeros((2, 3))})
    spec = dataclasses.replace(SPEC, checks=(*SPEC.checks[:4], edge))
    calls = plan(spec.checks, 7)
    inputs = [call.inputs["array"] for call in calls.calls[1:]]
    answers, expected = ([SIGNATURE, *[CallResult(factor * each) for each in inputs]] for factor in (3, 2))
    assert _points(mark("a0.twice", spec, calls, TaskResult(None, answers), expected)) == [0, 0, 0, 0, 0]
    alone = dataclasses.replace(spec, checks=(*SPEC.checks[:2], edge))
    calls = plan(alone.checks, 7)
    inputs = [call.inputs["array"] for call in calls.calls[1:]]
    answers, expected = ([SIGNATURE, *[CallResult(factor * each) for each in inputs]] for factor in (3, 2))
    assert _points(mark("a0.twice", alone, calls, TaskResult(None, answers), expected))[-1] == 8


def test_a_changed_input_costs_its_points():
    grade = _mark(SIGNATURE, *[CallResult(answer.value, changed=("array",)) for answer in EXPECTED[1:]])
    assert _points(grade) == [1, 2, 4, 0, 0]
    assert grade.outcomes[3].problem == "your code changes its argument array."


@pytest.mark.parametrize(
    "result",
    [
        None,
        "text",
        {("a",): 1},
        [10**400, 1.0],
        [[1.0], [1.0, 2.0]],
        float("nan"),
        {"": {"": {}}},
        np.zeros((0, 3)),
        [[]] * 5,
        {str(key): key for key in range(10_000)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_result_can_be_anything(result):
    grade = _mark(CallResult(result), *[CallResult(result)] * (len(PLAN.calls) - 1))
    assert grade.points == 0
    assert all(len(outcome.problem or "") <= LONGEST for outcome in grade.outcomes)


def test_error_in_one_line():
    error = {"kind": "ValueError", "says": "first\nsecond", "line": 3, "text": "raise"}
    grade = _mark(SIGNATURE, *[CallResult(error=error)] * (len(PLAN.calls) - 1))
    assert grade.outcomes[1].problem == "ValueError: first (line 3: raise)"


def test_refused_grade_has_the_reason():
    grade = refused("a0.twice", SPEC, "it imports scipy")
    assert (grade.points, grade.possible, grade.error["says"]) == (0, 16, "it imports scipy")


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ("Exception encountered when calling M.call().\n\nOnly inputs.\n\nArguments:", "E: Only inputs."),
        (
            'in user code:\n\n    File "f.py", line 3, in call\n        g(x)\n\n    TypeError: no list\n',
            "TypeError: no list",
        ),
        (
            'in user code:\n\n    File "f.py", line 3\n\n    ValueError: Exception encountered when calling F().\n'
            "    \n    Dimensions must be equal.\n    \n    Arguments received by F.call():\n      • x",
            "ValueError: Dimensions must be equal.",
        ),
        ("in user code:", "in user code:"),
        ("one\ntwo", "E: one"),
        ("", "E: "),
    ],
)
def test_error_text_without_decoration(says, said):
    assert error_text({"kind": "E", "says": says, "line": None, "text": ""}) == said


def _judged(result, expected):
    check = Check("values", "a judge that accepts all", 1, draw, judge=lambda *_: None)
    return problem(check, {}, CallResult(result), expected)


def test_an_empty_array_satisfies_no_judge():
    """All of no elements are right."""
    assert _judged({"scores": np.zeros((0, 2, 3))}, {"scores": np.ones((2, 3))}) == (
        "your result contains an empty array."
    )
    assert _judged(np.zeros((0, 3)), np.zeros((0, 3))) is None


def test_the_same_number_everywhere_satisfies_no_judge():
    """Zeros have many of the properties that judges ask for."""
    right = np.arange(6.0).reshape(2, 3)
    assert _judged((np.zeros((2, 3)), np.ones(4)), (right, right)) == "your result has the same number everywhere."
    assert _judged((np.zeros((2, 3)), right), (right, right)) is None
    assert _judged(np.zeros(3), np.ones(3)) is None
    assert _judged(np.zeros(()), right) == "your result has the same number everywhere."
    # A list of numbers is one array, if an array is expected.
    assert _judged([np.array(1.0), np.array(2.0)], np.array([1.0, 2.0])) is None
    assert _judged({"a": [[np.array(1.0)], [np.array(2.0)]]}, {"a": np.array([[1.0], [2.0]])}) is None
    assert _judged(([1.0, 1.0],), (np.array([1.0, 2.0]),)) == "your result has the same number everywhere."
    assert _judged([1.0, float("nan")], np.array([1.0, 2.0])) == "your result contains NaN."
    # A number is no array, however it comes out of the sandbox.
    assert _judged((np.array(2), np.array(5)), (2, 5)) is None


def test_almost_the_same_number_everywhere_satisfies_no_judge():
    right = np.arange(6.0).reshape(2, 3)
    assert _judged(1e-300 * right, right) == "all numbers in your result are almost equal: each is about 0."
    nearly = 1 + 1e-9 * right, 0.5 - 1e-9 * right
    assert str(_judged(nearly, (right, right))).endswith("each is about 1 or 0.5.")
    assert _judged((1 + 1e-9 * right, right), (right, right)) is None
    assert _judged(1e-3 * right, right) is None
    assert _judged({"text": "none"}, right) is None


def test_a_judge_sees_no_list_that_would_be_a_huge_array():
    """NumPy makes each element as large as the longest string."""
    assert _judged([["x" * 9_000], ["a"] * 9_000], np.ones(3)) == "your result is far larger than the expected one."
    assert _judged(["x" * 9_000, 1], ["x", 1]) is None


@pytest.mark.parametrize("of", [np.asarray, np.ndarray.tolist])
@pytest.mark.parametrize("within", [tuple, lambda pair: {"a": {"b": pair[0]}, "c": pair[1]}])
def test_a_judge_sees_no_arrays_that_combine_to_a_huge_one(of, within):
    """A forged result of 30 KB, a column and a row, made a judge that compares them allocate gigabytes."""
    long = np.arange(15_000) % 7
    result, expected = (within((of(long[:size, None]), of(long[None, :size]))) for size in (15_000, 3))
    assert "combine to the shape (15000, 15000), expected at most (3, 3)" in _judged(result, expected)
    assert _judged(expected, expected) is None
    assert _judged(within((of(long[:500, None]), of(long[None, :500]))), expected) is None


def test_a_list_that_would_become_a_huge_array_is_an_error():
    """26,000 small arrays, one of them of the widest numbers, took the grader minutes and a gigabyte."""
    many = [np.zeros(1100, bool)] * 2600 + [np.zeros(1100, "c16")]
    wanted = np.zeros((2, 3))
    pairs = ((many, wanted), ({"a": many}, {"a": wanted}), ((wanted, many), (wanted, wanted)))
    for value, expected in (*pairs, ("x" * 20_000, wanted), (["x" * 20_000], ["y"]), ([[]] * 200_000, [True])):
        (found,) = bounded([CallResult(value)], [CallResult(expected)])
        assert "far more than expected" in found.error["says"]
    for value, expected in (
        (np.zeros((500, 500)), wanted),  # a wrong shape is told as such
        (wanted.tolist(), wanted),
        (np.ones((300, 300)).tolist(), np.ones((300, 300))),
        ([wanted] * 3, [wanted] * 3),
        ("text", "text"),
        ({"a": wanted, "b": wanted}, {"a": wanted}),  # wrong keys are told as such
        ({"a": np.zeros((500, 500))}, {"a": wanted}),
    ):
        result = CallResult(value)
        assert bounded([result], [CallResult(expected)]) == (result,)


@pytest.mark.parametrize("expected", [np.ones(3), [np.ones(3)], {"a": np.ones(3)}, None, 2.0])
@pytest.mark.parametrize("also_arrays", [False, True])
def test_no_dict_hides_what_is_far_larger(expected, also_arrays):
    """Its keys that nobody asked for were not looked at. One answer took the grader three minutes."""
    for hidden in ([[np.zeros(1000, "f2")] * 1000], np.zeros(2 << 20, "u1"), [[np.zeros(0)] * 150_000], "x" * 20_000):
        (found,) = bounded([CallResult({"b": {"c": hidden}})], [CallResult(expected)], also_arrays)
        assert "far more than expected" in found.error["says"]


def test_arrays_that_are_far_larger_are_marked_but_not_explained():
    """To compare 60 MB with what mistakes give took 2.5 GB: the copies are of float64."""
    large, wanted = CallResult(np.zeros(2 << 20, "u1")), CallResult(np.ones(3))
    inside, of_dict = CallResult({"a": large.value}), CallResult({"a": wanted.value})
    assert bounded([large, inside], [wanted, of_dict]) == (large, inside)
    assert all(found.error for found in bounded([large, inside], [wanted, of_dict], also_arrays=True))
    usual = CallResult(np.zeros((3, 300)))  # a wrong shape, as of scores that nobody summed
    assert bounded([usual, large], [wanted, large], also_arrays=True) == (usual, large)
