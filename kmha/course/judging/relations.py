"""Simple relations between an array and the expected one of the same shape: twice as large, moved by one, …

Each rule takes the cases of all calls, and must hold in every one of them. So what it says is a fact about the result,
and never a guess. No sentence contains an expected number.

>>> cases = [Case({"x": np.zeros((2, 5))}, np.array([1.0, 2.0, 4.0]) * np.sqrt(5), np.array([1.0, 2.0, 4.0]))]
>>> relation("your result", cases)[1]
'Your result is too large by the factor √5. 5 is the size of axis 1 of `x`.'
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

NEAR = 1e-6  # relative tolerance
ALMOST = 0.002  # largest relative difference of a result that is nearly right
_FACTORS = {
    180 / np.pi: ": as many times as degrees are radians",
    1 / np.log(2): ": as many times as a logarithm to the base 2 is a natural one",
}
_POWERS = {1: "{}", 0.5: "√{}", 2: "{}²"}


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """The inputs of a call, and the received and the expected array."""

    inputs: Mapping[str, Any]
    received: np.ndarray
    expected: np.ndarray


Cases = Sequence[Case]
Found = tuple[str, str] | None  # an id, and a sentence for the learner
Rule = Callable[[Cases], Found]


def relation(path: str, cases: Cases) -> Found:
    """Return the id of the first relation that holds in all cases, and a sentence about it, or `None`.

    Args:
        path: Name of the array: "your result", "result[0]".
        cases: The calls in which the array is wrong. The received and the expected array have the same shape.
    """
    if not cases or any(case.received.dtype.kind not in "biuf" or not case.received.size for case in cases):
        return None
    with np.errstate(all="ignore"):
        near = all(equal(case.received, case.expected) for case in cases)
        for rule in (_almost,) if near else RULES:  # what is nearly right also has the right scale, order and sum
            if (found := rule(cases)) is not None:
                return found[0], f"{path[:1].upper() + path[1:] if path[0] == 'y' else f'`{path}`'} {found[1]}"
    return None


def equal(one: Any, other: Any) -> bool:
    """Return whether two arrays are equal up to rounding. NaN equals NaN."""
    if np.shape(one) != np.shape(other):  # before a copy is made of what may be far too large
        return False
    one, other = np.asarray(one, float), np.asarray(other, float)
    finite = np.abs(other[np.isfinite(other)])
    return bool(np.allclose(one, other, rtol=0, atol=NEAR * max(finite.max(initial=0), 1e-7), equal_nan=True))


def _always(cases: Cases, function: Callable[[Case], Any]) -> bool:
    """Return whether a function of the case gives the received array in all cases."""
    return all(equal(case.received, function(case)) for case in cases)


def rich(cases: Cases, of: str = "expected") -> bool:
    """Return whether the arrays hold enough different numbers that no relation holds by chance."""
    return len({float(number) for case in cases for number in getattr(case, of).ravel()[:100]}) > 2


def _not_finite(cases: Cases) -> Found:
    bad = [~np.isfinite(case.received) & np.isfinite(case.expected) for case in cases]
    case, wrong = next(((case, wrong) for case, wrong in zip(cases, bad, strict=True) if wrong.any()), (None, None))
    if case is None or wrong is None:
        return None
    place = ", ".join(str(int(index)) for index in np.argwhere(wrong)[0])
    first = case.received[tuple(np.argwhere(wrong)[0])]
    where = f", first at [{place}]" if place else ""
    if np.isnan(first):
        return "result-nan", (
            f"contains NaN{where}. NaN is made by 0 / 0, ∞ - ∞ or 0 · ∞, and by the root or logarithm of a negative "
            "number. `np.empty` can contain it as well, wherever nothing is assigned. Print the steps before it to see "
            "which."
        )
    return "result-infinite", f"is infinite{where}. Either you divide by 0, or a number overflows, as exp(1000) does."


def _inverted(cases: Cases) -> Found:
    booleans = all(case.received.dtype.kind == case.expected.dtype.kind == "b" for case in cases)
    if booleans and sum(case.expected.size for case in cases) > 3 and _always(cases, lambda case: ~case.expected):
        return "result-inverted", "has True where False is right, and False where True is right."
    return None


def _constant(cases: Cases) -> Found:
    if any(case.expected.size < 2 or np.ptp(case.expected.astype(float)) == 0 for case in cases):
        return None
    values = {float(np.ravel(case.received)[0]) for case in cases}
    if len(values) > 1 or any(np.any(case.received != next(iter(values))) for case in cases):
        return None
    value = np.ravel(cases[0].received)[0]
    return "result-constant", f"is {value:.4g} everywhere." if value.dtype.kind == "f" else f"is {value} everywhere."


def _factor(cases: Cases) -> Found:
    """Find a factor between the arrays: a constant, or a power of a size that occurs in the inputs."""
    if not rich(cases):
        return None
    factors = []
    for case in cases:
        large = np.unravel_index(np.argmax(np.abs(case.expected.astype(float))), case.expected.shape)
        factors.append(float(case.received[large]) / float(case.expected[large]) if case.expected[large] else np.nan)
    pairs = list(zip(cases, factors, strict=True))
    if not np.all(np.isfinite(factors)) or not all(factors):
        return None
    if not all(equal(case.received / factor, case.expected) for case, factor in pairs):
        return None
    if np.allclose(factors, -1):
        return "result-negative", "has the wrong sign everywhere."
    # Sizes differ from case to case, so that a size is not taken for a constant.
    for name, sizes in _sizes(cases):
        for power, shown in _POWERS.items():
            for sign in (1, -1):
                if min(sizes) > 1 and np.allclose(factors, np.array(sizes, float) ** (sign * power)):
                    size = shown.format(sizes[0])
                    much = "large" if sign > 0 else "small"
                    return "result-scaled", f"is too {much} by the factor {size}. {sizes[0]} is {name}."
    if np.allclose(factors, factors[0]):
        known = next((says for factor, says in _FACTORS.items() if np.isclose(factor, factors[0])), "")
        return "result-scaled", f"is {factors[0]:.4g} times what it should be, everywhere{known}."
    return None


def _sizes(cases: Cases) -> Iterator[tuple[str, list[int]]]:
    """Yield each size in the inputs with its value in each case: axes of arrays, and whole numbers."""
    for name, first in cases[0].inputs.items():
        values: list[Any] = [case.inputs.get(name) for case in cases]
        if isinstance(first, int) and not isinstance(first, bool) and all(isinstance(each, int) for each in values):
            yield f"`{name}`", [abs(int(each)) or 1 for each in values if each is not None]
        elif isinstance(first, np.ndarray) and all(np.ndim(each) == first.ndim for each in values):
            for axis in reversed(range(first.ndim)):
                yield f"the size of axis {axis} of `{name}`", [np.shape(each)[axis] for each in values]


def _size_in_place(cases: Cases) -> Found:
    """Find a size in the inputs that a wrong number is, or is too large by."""
    if any(case.expected.shape or case.received.dtype.kind not in "iu" for case in cases):
        return None
    received, expected = ([int(getattr(case, name)) for case in cases] for name in ("received", "expected"))
    for name, sizes in _sizes(cases):
        if len(set(sizes)) > 1 and received == sizes:
            return "result-is-size", f"is {received[0]}, which is {name}. That is not what is asked for."
    for name, sizes in _sizes(cases):
        for sign, much in ((1, "large"), (-1, "small")):
            if len(set(sizes)) > 1 and all(
                one - other == sign * size for one, other, size in zip(received, expected, sizes, strict=True)
            ):
                return "result-offset", f"is too {much} by {sizes[0]}. {sizes[0]} is {name}."
    return None


def _offset(cases: Cases) -> Found:
    differences = np.concatenate([np.ravel(case.received.astype(float) - case.expected) for case in cases])
    whole = all(case.received.dtype.kind in "iu" for case in cases)
    offset = differences[0]
    if not (rich(cases) or (whole and len(cases) > 1)) or not np.allclose(differences, offset, rtol=1e-6, atol=1e-9):
        return None
    if any(case.received.dtype.kind == "b" for case in cases):
        return None
    much = "large" if offset > 0 else "small"
    everywhere = " everywhere" if any(case.expected.size > 1 for case in cases) else ""
    return "result-offset", f"is too {much} by {abs(offset):.4g}{everywhere}."


_FUNCTIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "result-rounded-down": (np.floor, "is rounded down to whole numbers. `//` and `int` do that; `/` does not."),
    "result-rounded": (np.round, "is rounded to whole numbers."),
    "result-absolute": (np.abs, "has lost the signs: it holds absolute values."),
    "result-squared": (np.square, "holds the squares of the right numbers."),
    "result-root": (np.sqrt, "holds the square roots of the right numbers."),
    "result-inverse": (lambda array: 1 / array, "holds the inverses of the right numbers, 1 / x."),
    "result-exponential": (np.exp, "holds the exponentials of the right numbers."),
    "result-logarithm": (np.log, "holds the logarithms of the right numbers."),
    "result-softmax": (lambda array: _softmax(array), "holds the softmax of the right numbers."),
}


def _softmax(array: np.ndarray) -> np.ndarray:
    powers = np.exp(array - array.max(axis=-1, keepdims=True)) if array.ndim else array
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True)) if array.ndim else array


def _whole(cases: Cases) -> Found:
    """Find an array of whole numbers that holds what fits in."""
    if not rich(cases) or any(
        case.received.dtype.kind not in "iu" or case.expected.dtype.kind != "f" for case in cases
    ):
        return None
    if _always(cases, lambda case: np.trunc(case.expected)):
        return "result-cut-off", (
            "has lost what comes after the decimal point, because its dtype is that of whole numbers. `int`, "
            "`.astype(int)`, an array made with `dtype=int`, and `//` between whole numbers do that."
        )
    return None


def _function(cases: Cases) -> Found:
    if not rich(cases) or not rich(cases, "received") or any(case.expected.dtype.kind == "b" for case in cases):
        return None
    for id, (function, says) in _FUNCTIONS.items():
        if _always(cases, lambda case, function=function: function(case.expected.astype(float))):  # type: ignore[misc]
            return id, says
    return None


def _is_input(cases: Cases) -> Found:
    for name, value in cases[0].inputs.items():
        array = isinstance(value, np.ndarray) and value.size > 1 and value.dtype.kind in "biuf"
        if array and _always(cases, lambda case, name=name: case.inputs[name]):  # type: ignore[misc]
            return "result-is-input", f"is your argument `{name}`, unchanged."
    return None


def _with_input(cases: Cases) -> Found:
    """Find an argument that was not added or not multiplied by, or once too often."""
    if not rich(cases) or not rich(cases, "received"):
        return None
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "lacks `{}`, which must be added.": lambda right, given: right - given,
        "has `{}` subtracted instead of added.": lambda right, given: right - 2 * given,
        "has `{}` added once too often.": lambda right, given: right + given,
        "lacks `{}` as a factor.": lambda right, given: right / given,
        "has `{}` as a factor once too often.": lambda right, given: right * given,
    }
    for name, value in cases[0].inputs.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 1:
            for says, way in ways.items():
                if all(_is_way(case, case.inputs[name], way) for case in cases):
                    return "argument-missing-or-twice", says.format(name)
    return None


def _is_way(case: Case, given: np.ndarray, way: Callable[[Any, Any], Any]) -> bool:
    with contextlib.suppress(ValueError):  # the shapes do not go together
        return equal(case.received, way(case.expected, np.broadcast_to(given, case.expected.shape)))
    return False


def _moved(cases: Cases) -> Found:
    """Find the right numbers at other places."""
    if not rich(cases) or any(case.expected.ndim != cases[0].expected.ndim for case in cases):
        return None
    for axis in range(cases[0].expected.ndim):
        if _always(cases, lambda case, axis=axis: np.flip(case.expected, axis)):  # type: ignore[misc]
            return "result-reversed", f"is reversed along axis {axis}: what is last should be first."
        for step in (1, -1):
            if _always(cases, lambda case, axis=axis, step=step: np.roll(case.expected, step, axis)):  # type: ignore[misc]
                return "result-shifted", f"is moved by one place along axis {axis}."
    for order in permutations(range(cases[0].expected.ndim)):
        if _always(cases, lambda case, order=order: np.transpose(case.expected, order)):  # type: ignore[misc]
            places = [axis for axis, index in enumerate(order) if axis != index]
            exchanged = f": axis {places[0]} and axis {places[1]} are exchanged" if len(places) == 2 else ""
            return "result-transposed", f"has its axes in another order{exchanged}."
    if all(equal(np.sort(case.received, axis=None), np.sort(case.expected, axis=None)) for case in cases):
        return "result-elsewhere", (
            "contains the right numbers, but at other places. A reshape keeps the order of the numbers in memory, and "
            "moves no axis. A transpose moves axes."
        )
    return None


def _same_along(cases: Cases) -> Found:
    """Find an axis along which the received array does not change, but should."""
    for axis in range(min(case.expected.ndim for case in cases)):
        if any(_flat(case.expected, axis) for case in cases) or not all(_flat(case.received, axis) for case in cases):
            continue
        ways = {"the first one": _first, "their mean": _mean, "their sum": _sum}
        which = ""
        for name, way in ways.items():
            if all(equal(case.received, way(case.expected, axis) + np.zeros(case.expected.shape)) for case in cases):
                which = f": everywhere it is {name}"
                break
        return "result-same-along-axis", f"is the same at all places of axis {axis}, and should not be{which}."
    return None


def _flat(array: np.ndarray, axis: int) -> bool:
    """Return whether an array does not change along an axis."""
    return array.shape[axis] < 2 or equal(array, _first(array, axis) + np.zeros(array.shape))


def _first(array: np.ndarray, axis: int) -> Any:
    return array.take([0], axis)


def _mean(array: np.ndarray, axis: int) -> Any:
    return array.mean(axis=axis, keepdims=True)


def _sum(array: np.ndarray, axis: int) -> Any:
    return array.sum(axis=axis, keepdims=True)


def _row_sums(cases: Cases) -> Found:
    """Find rows that should sum to one, and do not."""
    floats = all(case.expected.dtype.kind == case.received.dtype.kind == "f" for case in cases)
    positive = all(case.expected.ndim > 1 and np.all(case.expected >= 0) for case in cases)
    if not floats or not positive or not all(_sums_to_one(case.expected, -1) for case in cases):
        return None
    if all(_sums_to_one(case.received, -1) for case in cases):
        return None
    for axis in range(cases[0].received.ndim - 1):
        if all(_sums_to_one(case.received, axis) for case in cases):
            return "sums-along-wrong-axis", f"sums to one along axis {axis}. It should sum to one along the last axis."
    total = next(float(each) for case in cases for each in np.ravel(case.received.sum(axis=-1)) if abs(each - 1) > NEAR)
    shown = f"{total:.4g}" if abs(total - 1) > 1e-3 else f"{total:.8g}"
    return "rows-do-not-sum-to-one", f"should sum to one along its last axis. Yours has a row with the sum {shown}."


def _sums_to_one(array: np.ndarray, axis: int) -> bool:
    sums = array.sum(axis=axis)
    return equal(sums, np.ones(sums.shape))


def _zeros(cases: Cases) -> Found:
    """Find numbers that should be exactly zero, if all others are right."""
    if any(case.expected.dtype.kind != "f" for case in cases):
        return None
    if not any(case.expected.any() for case in cases):  # there are no others
        received = np.concatenate([np.ravel(case.received) for case in cases])
        value = received[np.argmax(np.abs(received))]
        says = f"must be 0 everywhere here. Yours has {value:.4g}, for example."
        return ("should-all-be-zero", says) if value else None
    wrong = [(case, _wrong(case)) for case in cases]
    if all(np.all(case.expected[each] == 0) for case, each in wrong):
        value = next((case.received[each][0] for case, each in wrong if each.any()), None)
        if value is None:  # equal numbers of other types
            return None
        return "should-be-zero", f"is right except where it must be 0. There yours is {value:.4g}, for example."
    if all(np.all(case.received[each] == 0) for case, each in wrong):
        return "should-not-be-zero", "is right except at some places where yours is 0 and must not be."
    return None


def _wrong(case: Case) -> np.ndarray:
    """Return a mask that is True where the arrays differ."""
    far = np.abs(case.received.astype(float) - case.expected) > NEAR * np.abs(case.expected).max()
    return np.asarray(far if far.any() else case.received != case.expected)


def _almost(cases: Cases) -> Found:
    if not rich(cases) or any(case.expected.dtype.kind != "f" for case in cases):
        return None
    parts = [float(np.abs(case.received - case.expected).max() / np.abs(case.expected).max()) for case in cases]
    if not np.isfinite(parts).all() or max(parts) >= ALMOST:
        return None
    kept, wide = cases[0].received.dtype, cases[0].expected.dtype
    if kept.kind == "f" and all(case.received.dtype == kept and kept.itemsize < wide.itemsize for case in cases):
        return "result-less-precise", (
            f"is nearly right, but has only the digits of {kept}, expected {wide}. Somewhere an array is "
            f"made with a "
            "smaller dtype, or cast to one."
        )
    if max(parts):
        return "result-nearly-right", (
            f"is nearly right: it is off by at most {max(parts):.1g} of its largest element. Look at small constants, "
            "at rounding, and at the precision of the numbers (float16, float32)."
        )
    return None


RULES: tuple[Rule, ...] = (
    _not_finite, _size_in_place, _inverted, _constant, _factor, _offset, _whole, _function, _is_input, _with_input,
    _moved, _same_along, _row_sums, _zeros, _almost,
)  # fmt: skip
