"""Mark an answer: compare the results of its calls with the solution's, and give points for each check.

Nothing runs here, so the solution's results can come from a run or from a record.
"""

import contextlib
import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.course.exercises.exercise import Check, Exercise, Inputs
from kmha.course.judging.comparing import difference, has_text
from kmha.course.judging.planning import Plan
from kmha.sandbox.control_characters import visible
from kmha.sandbox.sandbox import CallResult, TaskResult
from kmha.sandbox.worker import arrays, error_record

FORM = ("signature", "shape", "unchanged", "named")  # layers of checks that look only at the form of a result
# Layers that give points only if a check of another layer passes: the first that leaves such a check, or else FORM.
_WEAK = ((*FORM, "edge", "invariants"), (*FORM, "edge"))
TOO_MUCH = "your code returned far more than expected"
_LONGEST_TEXT = 10_000  # characters that a result may have beyond those of the solution's
ROOM, GROWTH = 1 << 20, 16  # a result may have this many bytes, and this many times those of the solution's
LONGEST = 600  # maximum number of characters of a check's problem
_NODE = re.compile(r"\{\{function_node[^}]*\}\} ?| ?\[Op:\w+\](?: name:)?")  # how TensorFlow names an operation
_AROUND = "Exception encountered when calling"  # what Keras puts before the error of a layer
_RAISED = re.compile(r"\w*(Error|Exception): ")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of one check.

    Attributes:
        points: Points that the answer got.
        problem: A sentence on what is wrong, or `None` if the check passes.
    """

    check: Check
    points: int
    problem: str | None

    @property
    def pending(self) -> bool:
        """True if the check passes, but earns nothing until another check passes."""
        return self.problem is None and self.points < self.check.points


@dataclasses.dataclass(frozen=True)
class NamedMistake:
    """A known mistake: its id, a sentence for the learner, and its source."""

    id: str
    says: str
    source: str = ""


@dataclasses.dataclass(frozen=True)
class SmallestCase:
    """The smallest case found that an answer fails.

    Attributes:
        where: Name of a matrix in the result, and a mask that is True where its elements differ.
    """

    inputs: Inputs
    result: Any
    where: tuple[str, np.ndarray] | None = None


@dataclasses.dataclass(frozen=True)
class Grade:
    """The grade of an answer.

    Attributes:
        id: Id of the exercise.
        outcomes: Outcomes of its checks, in order.
        mistake: The mistake in the answer, if it is known.
        error: Error that kept the answer from running at all, with `kind`, `says`, `line` and `text`.
        printed: Output that the answer printed.
        case: A small case that the answer fails.
    """

    id: str
    outcomes: tuple[Outcome, ...]
    mistake: NamedMistake | None = None
    error: Mapping[str, Any] | None = None
    printed: str = ""
    case: SmallestCase | None = None

    @property
    def points(self) -> int:
        return sum(outcome.points for outcome in self.outcomes)

    @property
    def possible(self) -> int:
        return sum(outcome.check.points for outcome in self.outcomes)

    @property
    def passed(self) -> bool:
        return self.error is None and self.points == self.possible


def mark(id: str, spec: Exercise, plan: Plan, ran: TaskResult, expected: Sequence[CallResult]) -> Grade:
    """Return the grade of an answer, without an explanation, from its results and the solution's."""
    if ran.error is not None:
        return _not_reached(id, spec, ran.error, ran.printed)
    pairs = [
        (check, _first_problem(check, plan, indices, ran.results, expected))
        for check, indices in zip(spec.checks, plan.indices, strict=True)
    ]
    # Answers that do no work at all can have the form, be right in an edge case, such as a `ValueError`, and have a
    # property that wrong results have too. None of this earns anything without a right result, if results are checked.
    weak = next((layers for layers in _WEAK if any(check.layer not in layers for check in spec.checks)), FORM)
    any_right = any(found is None and check.layer not in weak for check, found in pairs)
    outcomes = tuple(
        Outcome(check, check.points if found is None and (any_right or check.layer not in weak) else 0, found)
        for check, found in pairs
    )
    printed = ran.printed + next((result.printed for result in ran.results if result.printed), "")
    return Grade(id, outcomes, printed=printed)


def refused(id: str, spec: Exercise, reason: str) -> Grade:
    """Return the grade of an answer that was not run."""
    return _not_reached(id, spec, error_record(reason))


def _not_reached(id: str, spec: Exercise, error: Mapping[str, Any], printed: str = "") -> Grade:
    return Grade(id, tuple(Outcome(check, 0, "not reached") for check in spec.checks), error=error, printed=printed)


def _first_problem(
    check: Check, plan: Plan, indices: tuple[int, ...], results: Sequence[CallResult], expected: Sequence[CallResult]
) -> str | None:
    for index in indices:
        result = results[index]
        if result.error is not None:
            return error_text(result.error)[:LONGEST]
        found = problem(check, plan.inputs(index), result, expected[index].value)
        if found is not None:
            return visible(found[:LONGEST])
    return None


def problem(check: Check, inputs: Inputs, result: CallResult, expected: Any) -> str | None:
    """Return a sentence on what a check finds wrong with a result, or `None`. The result can be anything."""
    try:
        return _problem(check, inputs, result, expected)
    except Exception:  # the comparison, or the check's own judge, does not expect a result of this form
        with contextlib.suppress(Exception):
            if found := difference(result.value, expected, check.tolerance, form_only=True):
                return found
        return "your result does not have the expected form."


def _problem(check: Check, inputs: Inputs, result: CallResult, expected: Any) -> str | None:
    if check.layer == "signature":
        return _signature_problem(result.value, expected)
    if check.layer == "unchanged":
        return f"your code changes its argument {', '.join(result.changed)}." if result.changed else None
    if check.judge is not None and (result.value is not None or expected is None):
        if size(result.value) > ROOM + GROWTH * size(expected):  # a judge may compute with it
            return "your result is far larger than the expected one."
        if math.prod(combined := _combined(result.value)) > ROOM + GROWTH * math.prod(usual := _combined(expected)):
            return f"the arrays in your result combine to the shape {combined}, expected at most {usual}."
        found, wanted = _arrays_like(result.value, expected), arrays(expected)
        if _has_empty(found) and not _has_empty(wanted):  # all of no elements are right
            return "your result contains an empty array."
        if _has_nan(found) and not _has_nan(wanted):  # a judge's comparisons with NaN are all false
            return "your result contains NaN."
        if _is_constant(found, wanted):  # zeros have many properties
            return "your result has the same number everywhere."
        if found and _spread(found) < 1e-6 * _spread(wanted):  # and so has nearly zero
            return f"all numbers in your result are almost equal{_level(found)}."
        return check.judge(inputs, result.value, expected)
    return difference(result.value, expected, check.tolerance, form_only=check.layer == "shape")


def bounded(
    results: Sequence[CallResult], expected: Sequence[CallResult], also_arrays: bool = False
) -> tuple[CallResult, ...]:
    """Return the results, with an error for each one that is far larger than its solution's.

    One result is compared with those of hundreds of mistakes, and a list or text becomes an array each time.

    Args:
        results: Results of an answer.
        expected: Results of the solution.
        also_arrays: Whether arrays count too. To mark them, their shape suffices. To explain them takes many copies.
    """
    return tuple(
        CallResult(error=error_record(TOO_MUCH)) if _far_larger(result.value, wanted.value, also_arrays) else result
        for result, wanted in zip(results, expected, strict=True)
    )


def _far_larger(value: Any, expected: Any, also_arrays: bool) -> bool:
    if isinstance(expected, Mapping) and isinstance(value, Mapping):
        unasked = [value[key] for key in value if key not in expected]
        pairs = [(unasked, None), *((value[key], expected[key]) for key in expected if key in value)]
        return any(_far_larger(one, other, also_arrays) for one, other in pairs)
    if _longest_text(_parts(value)) > _LONGEST_TEXT + _longest_text(_parts(expected)):
        return True
    counts = also_arrays or isinstance(value, list | tuple | Mapping)
    return counts and size(value) > ROOM + GROWTH * size(expected)


def elements(value: Any) -> int:
    """Return the number of elements in all arrays of a value, plus one for each other part and empty array."""
    return sum(max(1, int(np.size(part))) for part in _parts(value))


def size(value: Any) -> int:
    """Return the number of bytes in the arrays of a value, plus a few for each other part.

    A list with strings counts as the array that a judge may make of it: each element has room for the longest string.
    """
    parts = list(_parts(value))
    return sum(max(8, int(getattr(part, "nbytes", 8))) for part in parts) + 4 * _longest_text(parts) * sum(
        map(np.size, parts)
    )


def _combined(value: Any) -> tuple[int, ...]:
    """Return the shape that NumPy may make of all arrays and lists in a value: the largest size of each axis.

    A column and a row of 30 KB combine to gigabytes.
    """
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    shapes = [_combined(each) for each in inner if isinstance(each, Mapping | list | tuple | np.ndarray)]
    if not isinstance(value, Mapping):
        with contextlib.suppress(ValueError):  # lists of unequal lengths become no array
            shapes.append(np.shape(value))
    longest = itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1)
    return tuple(max(sizes) for sizes in longest)[::-1]


def _longest_text(parts: Iterable[Any]) -> int:
    return max((len(part) for part in parts if isinstance(part, str)), default=0)


def _parts(value: Any) -> Iterator[Any]:
    """Yield a value, or the parts of a dict, tuple or list. A dict, tuple or list also counts as one."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    if inner is None:
        yield value
        return
    yield None
    for each in inner:
        yield from _parts(each)


def _arrays_like(value: Any, expected: Any) -> list[np.ndarray]:
    """Return the arrays in a value. A list of numbers is one array where an array is expected."""
    if isinstance(value, Mapping) and isinstance(expected, Mapping):
        return [array for key, each in value.items() for array in _arrays_like(each, expected.get(key))]
    if not isinstance(value, tuple | list):
        return arrays(value)
    if isinstance(expected, tuple | list):
        pairs = itertools.zip_longest(value, expected[: len(value)])
        return [array for pair in pairs for array in _arrays_like(*pair)]
    if isinstance(expected, np.ndarray) and not has_text(value):
        with contextlib.suppress(ValueError):  # lists of unequal lengths become no array
            return [np.asarray(value)]
    return arrays(value)


def _is_constant(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> bool:
    """Return whether each array has the same number everywhere, unlike the expected ones. Numbers are no arrays."""
    if not any(array.size > 1 for array in (*found, *wanted)):
        return False
    received, right = (
        bool(each) and all(bool(np.all(array == array.flat[0])) for array in each if array.size)
        for each in (found, wanted)
    )
    return received and not right


def _spread(found: Iterable[np.ndarray]) -> float:
    """Return the largest difference between two numbers of the same array."""
    numbers = [array for array in found if array.size and array.dtype.kind in "fiu"]
    with np.errstate(all="ignore"):
        return max((float(np.ptp(array.astype("float64"))) for array in numbers), default=0.0)


def _level(found: Iterable[np.ndarray]) -> str:
    """Return the first number of each array, without repetitions, as the end of a sentence, or "" without numbers."""
    firsts = (f"{float(array.flat[0]):.3g}" for array in found if array.size and array.dtype.kind in "fiu")
    about = " or ".join([*dict.fromkeys(firsts)][:3])
    return f": each is about {about}" if about else ""


def _has_empty(found: Iterable[np.ndarray]) -> bool:
    return any(not array.size for array in found)


def _has_nan(found: Iterable[np.ndarray]) -> bool:
    floats = [array for array in found if array.dtype.kind in "fc"]
    return any(bool(np.isnan(array).any()) for array in floats)


def _signature_problem(received: Any, expected: Mapping[str, list[str]]) -> str | None:
    if not isinstance(received, dict):
        return "it is neither a function nor a class."
    for method, names in expected.items():
        if method.startswith("_") and method != "__init__":
            continue
        found = received.get(method)
        subject = f"`{method}`" if method else "it"
        if found is None:
            return f"{subject} is missing."
        if not isinstance(found, list | tuple) or not all(isinstance(name, str) for name in found):
            return f"{subject} has no arguments that can be read."
        if list(found)[: len(names)] != list(names):
            return f"{subject} has the arguments ({', '.join(found)}), expected ({', '.join(names)})."
    return None


def error_text(error: Mapping[str, Any]) -> str:
    """Return an error of the learner's code in one line, without what Keras and TensorFlow put around it.

    >>> error_text({"kind": "ValueError", "says": "not a tensor", "line": 7, "text": "x = f(y)"})
    'ValueError: not a tensor (line 7: x = f(y))'
    """
    kind = f"{error['kind']}: " if error.get("kind") else ""
    operands = f", with {error['operands']}" if error.get("operands") else ""
    place = f" (line {error['line']}: {error['text']}{operands})" if error.get("line") else ""
    lines = [line.strip() for line in _NODE.sub("", str(error["says"])).splitlines() if line.strip()]
    if lines and lines[0].startswith("in user code:"):  # a traceback, whose last line is the error
        raised = [number for number, line in enumerate(lines) if _RAISED.match(line)]
        last = raised[-1] if raised else len(lines) - 1
        kind, _, says = lines[last].partition(": ")
        if says.startswith(_AROUND) and last + 1 < len(lines):  # the error of the layer follows
            return f"{kind}: {lines[last + 1]}{place}"
        return f"{lines[last]}{place}"
    own = [line for line in lines if not line.startswith(_AROUND)]
    return f"{kind}{(own or lines or [''])[0]}{place}"
