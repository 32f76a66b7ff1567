import contextlib
import time
from itertools import product

import numpy as np
import pytest

from kmha.course.exercises import content
from kmha.course.judging import pipeline, rendering
from kmha.course.judging.comparing import same
from kmha.course.judging.marking import problem, size
from kmha.course.judging.pipeline import judge
from kmha.course.judging.planning import plan
from kmha.course.judging.running import QUICK, Runner
from kmha.sandbox import limits
from kmha.sandbox.sandbox import CallResult, TaskResult
from kmha.sandbox.worker import error_record
from kmha.verify.chains.attention import ImpossibleError

SEED = 201


def _judge(doubling, sandbox, code, place=0, **more):
    return judge(doubling.items[place], code, sandbox, seed=SEED, **more)


def _twice(line):
    return f"import numpy as np\n\n\ndef twice(array):\n    {line}\n"


def test_the_solution(doubling, sandbox):
    grade = _judge(doubling, sandbox, doubling.items[0].master.solution)
    assert (grade.points, grade.possible, grade.passed) == (32, 32, True)
    assert (grade.mistake, grade.case, grade.error, grade.printed) == (None, None, None, "")


def test_the_starter(doubling, sandbox):
    grade = _judge(doubling, sandbox, doubling.items[0].master.starter)
    assert grade.points == 0
    assert grade.outcomes[1].problem.startswith("NotImplementedError: write this part (line ")


def test_a_known_mistake(doubling, sandbox):
    grade = _judge(doubling, sandbox, _twice("print('three'); return array + array + array"))
    assert grade.mistake.id == "thrice-as-much"
    assert grade.printed == "three\n"
    assert grade.points == 0
    assert grade.case.inputs["array"].size <= 9
    assert (abs(grade.case.result - 3 * grade.case.inputs["array"]) < 1e-12).all()


def test_a_mistake_that_is_not_known(doubling, sandbox):
    grade = _judge(doubling, sandbox, _twice("return array**2 - 5 * array"))
    assert grade.mistake is None
    assert grade.case is not None


@pytest.mark.parametrize(
    "value",
    [
        "np.full(array.shape, np.longdouble('1e4000'))",
        "np.where(array > 0, np.longdouble('1e4000'), 2 * array)",
        "np.where(array > 0, -1e308, 1e308)",
    ],
)
def test_no_number_gives_a_warning(doubling, sandbox, value):
    """NumPy warned on the teacher's terminal, with paths of the grader."""
    grade = _judge(doubling, sandbox, _twice(f"return {value}"))
    assert not grade.passed
    rendering.as_dict(grade)


@pytest.mark.slow
def test_looking_for_a_small_case_takes_a_share_of_the_time(doubling, sandbox):
    """An answer that takes nearly all of its time at its import took it twice."""
    slow = "import time\ntime.sleep(3)\n" + _twice("return array**2 - 5 * array")
    begin = time.monotonic()
    grade = _judge(doubling, sandbox, slow, seconds=4)
    assert (grade.error, grade.case) == (None, None)
    assert time.monotonic() - begin < 5.5


def test_points_do_not_depend_on_the_explanation(doubling, sandbox, monkeypatch):
    """Results can be anything, so the grade must stand if nothing can be said about them."""
    code = _twice("return array * 3 if array.ndim > 1 else array * 2")
    expected = _judge(doubling, sandbox, code, explained=False)

    def explain(*args):
        raise TypeError("object of type 'int' has no len()")

    monkeypatch.setattr(pipeline, "explain", explain)
    assert _judge(doubling, sandbox, code) == expected


@pytest.mark.parametrize("large", ["np.zeros((2 << 20, 1), np.uint8)", "{'a': [[np.zeros(1000)] * 300]}"])
def test_what_is_far_larger_is_not_explained(doubling, sandbox, monkeypatch, large):
    """One such result took the grader gigabytes, or minutes, beyond the time limit of the answer."""
    seen, explain = [], pipeline.explain

    def noted(grade, runner, answer, results, *more):
        seen.extend(results)
        return explain(grade, runner, answer, results, *more)

    monkeypatch.setattr(pipeline, "explain", noted)
    grade = _judge(doubling, sandbox, _twice(f"return {large} if array.size % 2 else array"))
    assert grade.points == 0
    assert any(result.error for result in seen)
    assert all(size(result.value) < 2 << 20 for result in seen)
    assert grade.case is None or size(grade.case.result) < 2 << 20


def test_a_far_larger_array_is_told_by_its_shape(doubling, sandbox):
    grade = _judge(doubling, sandbox, _twice("return np.zeros((2 << 20, 1), np.uint8)"))
    assert any("has the shape (2097152, 1)" in str(outcome.problem) for outcome in grade.outcomes)
    assert grade.case is None


def test_without_explanations(doubling, sandbox):
    grade = _judge(doubling, sandbox, _twice("return array * 3"), explained=False)
    assert (grade.mistake, grade.case) == (None, None)
    assert not grade.passed


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import torch\n", "you import torch in line 1"),
        ("def twice(:\n", "invalid syntax"),
        ("def other(): pass\n", "twice.py does not define `twice`"),
        ("1 / 0\n", "division by zero"),
    ],
)
def test_answers_that_cannot_run(doubling, sandbox, code, says):
    grade = _judge(doubling, sandbox, code)
    assert says in grade.error["says"]
    assert grade.points == 0
    assert {outcome.problem for outcome in grade.outcomes} == {"not reached"}


def test_an_answer_that_does_not_load_again(doubling, sandbox, monkeypatch):
    """The smallest case is looked for in another run, in which chance may decide otherwise."""
    run = Runner.run
    once = [True]

    def only_once(runner, *arguments):
        return run(runner, *arguments) if once and once.pop() else TaskResult(error_record("not this time"), ())

    monkeypatch.setattr(Runner, "run", only_once)
    grade = _judge(doubling, sandbox, _twice("return array * 2.5"))
    assert (grade.error, grade.case) == (None, None)
    assert not grade.passed


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("array[...] = 2 * array; return array", {"unchanged"}),
        ("return 2 * array[..., None]", {"signature", "shape", "values", "unchanged", "edge", "invariants"}),
        # An invariant alone, which other results have too, earns nothing.
        (
            "return np.where(array > 0, 2 * array, array)",
            {"signature", "shape", "values", "unchanged", "edge", "invariants"},
        ),
    ],
)
def test_points_lost(doubling, sandbox, line, lost):
    grade = _judge(doubling, sandbox, _twice(line))
    assert {outcome.check.layer for outcome in grade.outcomes if not outcome.points} == lost


def test_the_learners_own_files(doubling, sandbox):
    code = "from twice import twice\n\n\ndef again(array):\n    return twice(twice(array))\n"
    right, wrong = _twice("return 2 * array"), _twice("return 3 * array")
    assert _judge(doubling, sandbox, code, 1, files={"twice.py": right}).passed
    assert not _judge(doubling, sandbox, code, 1, files={"twice.py": wrong}).passed
    assert _judge(doubling, sandbox, code, 1).error["kind"] == "ModuleNotFoundError"


@pytest.mark.slow
def test_an_endless_loop_is_found_early(doubling, sandbox):
    """If somebody waits, the time limit of a small call is short, and each step is told."""
    steps = []
    loop = "while True:\n        pass"
    (grade, seconds) = _timed(lambda: judge(doubling.items[0], _twice(loop), sandbox, seed=1, tell=steps.append))
    assert f"longer than {QUICK:g} seconds" in grade.error["says"]
    assert seconds < doubling.items[0].spec.seconds
    assert "running your code" in steps


def test_a_loop_that_ends(doubling, sandbox):
    code = _twice("size = 0\n    while size < 3:\n        size += 1\n    return 2 * array")
    assert judge(doubling.items[0], code, sandbox, seed=1, tell=print).passed


def _timed(function):
    begin = time.monotonic()
    return function(), time.monotonic() - begin


def test_time_limit(doubling, sandbox):
    grade = _judge(doubling, sandbox, _twice("while True: pass"), seconds=0.6, explained=False)
    assert "your code took longer than 0.6 seconds" in grade.outcomes[1].problem


def _spoilt(result, *, zeros):
    """Replace every float, or those that are 0, with NaN."""
    if isinstance(result, dict):
        return {key: _spoilt(each, zeros=zeros) for key, each in result.items()}
    if isinstance(result, list | tuple):
        return [_spoilt(each, zeros=zeros) for each in result]
    if np.asarray(result).dtype.kind != "f":
        return result
    return np.where(np.equal(result, 0) | (not zeros), np.nan, result)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("assignment", content.assignments(content.installed()), ids=lambda each: each.id)
def test_nan_passes_no_judge(sandbox, assignment):
    """Every comparison with NaN is false, including that a result is too far off."""
    judged = spoilt = 0
    for item in assignment.items:
        checks = [check for check in item.spec.checks if check.layer not in ("signature", "shape", "unchanged")]
        if item.spec.uses != ("numpy",) or not any(check.judge for check in checks):
            continue
        judged += 1
        calls = plan(checks, SEED)
        right = Runner(item, sandbox, SEED).run_solution(calls)
        for check, indices in zip(checks, calls.indices, strict=True):
            for index, zeros in product(indices, (False, True)):
                expected = right[index].value
                result = _spoilt(expected, zeros=zeros)
                if not same(result, expected):
                    spoilt += 1
                    assert problem(check, calls.inputs(index), CallResult(result), expected), (item.id, check.says)
    assert spoilt >= judged or assignment.id == "a9"  # whose exercise in NumPy returns the name of a step


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ([(1, 1, 1, 25_000)] * 3, "at most 20,000 elements. Received 25,000 for query"),
        ([(1, 1, 350, 1)] * 3, "are too large"),
        ([(2, 3, 4, 7), (2, 3, 5, 7), (2, 3, 5, 700)], "Received 21,000 for value"),
        ([(2_000, 1, 1, 1), (1, 2_000, 1, 1), (1, 1, 1, 2_000)], "key and value"),
        ([(2_000,), (2_000, 1), (2_000, 1, 1)], "four axes"),
    ],
)
def test_remote_attention_has_size_limits(shapes, says):
    """The sandbox does not limit it, because it is computed outside."""
    (item,) = content.find("a8.catches", content.installed())
    token = item.spec.checks[-1].draw(np.random.default_rng(1))["token"][0]
    with pytest.raises(ValueError, match=says):
        item.spec.serve(token, *map(np.zeros, shapes))
    with pytest.raises(ValueError, match="Received 25,000 for mask"):
        item.spec.serve(token, *[np.zeros((2, 3, 4, 5))] * 3, mask=np.ones(25_000, bool))


def test_usual_sizes_are_within_the_limits():
    """Only a mistake that is impossible with these sizes raises."""
    (item,) = content.find("a8.catches", content.installed())
    inputs = item.spec.checks[-1].draw(np.random.default_rng(1))
    arrays = [np.ones((2, 8, length, 64)) for length in (10, 16, 16)]
    for token in inputs["token"]:
        with contextlib.suppress(ImpossibleError):
            item.spec.serve(token, *arrays, mask=np.ones((2, 10, 16), bool))


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(limits.missing() != [], reason="this system cannot keep the code from it")
def test_a_forbidden_layer_under_a_name_made_of_two_parts(sandbox_of):
    (item,) = content.find("a6.HeadMerge", content.installed())
    grade = judge(item, WITH_EINSUM_DENSE, sandbox_of(item.spec.uses), seed=1, explained=False)
    assert grade.points == 0
    assert any("you use `EinsumDense`" in (outcome.problem or "") for outcome in grade.outcomes)


WITH_EINSUM_DENSE = """
import keras

Base = getattr(keras.layers, "Einsum" + "Dense")


class HeadMerge(Base):
    def __init__(self, output_dim, **kwargs):
        super().__init__("BTHO,HOE->BTE", (None, output_dim), bias_axes="E", **kwargs)
"""


CONTROL = """
def twice(array):
    print("\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\u202e\\x00", end="")
    {}
"""


@pytest.mark.parametrize(
    "line", ["raise ValueError('\\x1b[2J\\x9b')", "return 3 * array", "return {'\\x1b[2J': '\\x9b'}"]
)
def test_control_characters_are_shown_and_never_sent(doubling, sandbox, line):
    grade = _judge(doubling, sandbox, CONTROL.format(line))
    assert "\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\u202e\\x00" in grade.printed
    for text in (rendering.text("title", grade, 1), rendering.page("title", grade, 1), str(rendering.as_dict(grade))):
        assert all(letter.isprintable() or letter == "\n" for letter in text), text
