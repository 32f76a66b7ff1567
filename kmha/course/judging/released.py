"""Write the exercises of a released course, and grade answers to them.

A released exercise contains its texts, its starter, its visible checks, the calls that they make for a few draws, a few
calls with small sizes, and the solution's results. It contains neither the solution, nor hidden checks, nor wrong
answers, nor code that decides: a check with its own judge compares an answer with the solution's result, and leaves
open whether a different result is correct too. Known mistakes are sealed (`kmha.course.judging.sealed`), and so are
results that are words, such as those of `letter_meanings` and the name of the mistake in a bug hunt: nobody reads them
by accident. Trying all results of an exercise that has few opens the seal, as asking `check` about each of them would.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kmha import atomic_files
from kmha.course.exercises.content import CHECK_FIELDS, EXERCISE_FIELDS, RELEASED_VERSION, Item, ReleasedItem
from kmha.course.exercises.exercise import LAYERS, Check, Exercise, Inputs, Judge
from kmha.course.exercises.source_documents import describe
from kmha.course.judging import sealed
from kmha.course.judging.bug_hunt import not_named
from kmha.course.judging.comparing import difference
from kmha.course.judging.explaining import bank_outputs, tolerances_of
from kmha.course.judging.marking import FORM, GROWTH, ROOM, NamedMistake, size
from kmha.course.judging.planning import Plan, PlannedCall
from kmha.course.judging.running import Answer, Runner, needed_solutions
from kmha.sandbox.control_characters import visible
from kmha.sandbox.encoding import encode
from kmha.sandbox.sandbox import SIGNATURE, CallResult, Sandbox

UNDECIDED = "your result differs from the solution's. Your teacher's grading decides whether it is right all the same."
_STREAM = 1 << 62  # added to the seed, so that grading with the same seed draws other inputs
NOT_THESE = "these are not the right words."
NO_CHECKS = "this exercise has no checks that could be handed out. It is checked when your teacher grades it."


def write(item: Item, path: Path, sandbox: Sandbox, seed: int) -> None:
    """Write the file of a released exercise.

    Args:
        item: The exercise, with its solution.
        path: Path of the file.
        sandbox: A sandbox that imports the libraries of the exercise.
        seed: Seed of the inputs.

    Raises:
        BrokenExerciseError: The solution fails.
    """
    spec = item.spec
    runner = _VisibleRunner(item, sandbox, seed + _STREAM)
    checks, calls = runner.spec.checks, runner.plan
    expected = runner.run_solution() if checks else ()
    pairs = [*zip(checks, calls.indices, strict=True)]
    formal = {index for check, indices in pairs if check.layer in ("signature", "shape") for index in indices}
    words = {index for index, result in enumerate(expected) if sealed.is_words(result.value)} - formal
    of_checks = [{*indices} for _, indices in pairs]
    while mixed := {index for indices in of_checks if not indices <= words for index in indices & words}:
        words -= mixed  # one judge compares all results of a check
    record = {
        **{name: getattr(spec, name) for name in EXERCISE_FIELDS},
        "version": RELEASED_VERSION,
        "all_points": spec.points,
        "text": item.master.text,
        "starter": item.master.starter,
        "hints": list(item.master.hints),
        "checks": [
            {name: getattr(check, name) for name in CHECK_FIELDS}
            | {"judged": check.judge is not None, "sealed": not words.isdisjoint(indices)}
            | {"of": list(indices), "small": _small_cases(check, runner)}
            for check, indices in pairs
        ],
        "asked": [{"ask": call.function, "inputs": call.inputs, "apart": call.apart} for call in calls.calls],
        "expected": [
            sealed.seal_words(result.value) if index in words else result.value for index, result in enumerate(expected)
        ],
        "mistakes": _sealed_mistakes(runner, expected) if checks else {},
    }
    atomic_files.write_bytes(path, encode(record))


class _VisibleRunner(Runner):
    """Run answers on the calls of the checks that are handed out."""

    @cached_property
    def spec(self) -> Exercise:
        # Our own code answers the requests to `serve`, and must not be handed out.
        keep = ("signature",) if self.item.spec.serve else LAYERS
        checks = [check for check in self.item.spec.checks if check.visible and check.layer in keep]
        return dataclasses.replace(self.item.spec, checks=tuple(checks))


def _small_cases(check: Check, runner: Runner) -> list[dict[str, Any]]:
    """Return small inputs for a check with the solution's results, if `explain` can show them."""
    if check.layer in FORM or check.ask or check.judge:
        return []
    cases, expected = runner.smallest(check)
    pairs = zip(cases.calls, expected or (), strict=False)
    return [
        {"inputs": call.inputs, "expected": result.value} for call, result in pairs if not sealed.is_words(result.value)
    ]


def _sealed_mistakes(runner: Runner, expected: Sequence[CallResult]) -> sealed.Book:
    """Return the known mistakes that show in the calls of the checks that are handed out."""
    item, tolerances, book = runner.item, tolerances_of(runner), sealed.Book()
    plain = [call.function != SIGNATURE for call in runner.plan.calls]
    for wrong in item.spec.wrong:
        ran = runner.run(Answer(wrong.text(item.master.solution), needed_solutions(item)), trusted=True)
        has_values = any(
            is_plain and result.error is None for result, is_plain in zip(ran.results, plain, strict=False)
        )
        if ran.error is None and has_values:
            named = {"id": wrong.id, "says": wrong.says, "source": describe(wrong.source)}
            sealed.seal(book, named, ran.results, expected, tolerances)
    for mistake, outputs in bank_outputs(runner):
        named = {"id": mistake.id, "says": mistake.says, "source": describe(mistake.source)}
        results = [None if output is None else CallResult(output) for output in outputs]
        sealed.seal(book, named, results, expected, tolerances)
    return book


class ReleasedRunner(Runner):
    """Run answers to a released exercise on its recorded inputs."""

    def __init__(self, item: ReleasedItem, sandbox: Sandbox) -> None:
        super().__init__(item, sandbox, seed=0)
        self.record = item.record

    @cached_property
    def spec(self) -> Exercise:
        """The exercise. Its judges leave open whether a result that differs from the solution's is correct."""
        checks = []
        for check, entry in zip(self.item.spec.checks, self.record["checks"], strict=True):
            judge: Judge | None = None
            if entry.get("sealed"):
                judge = partial(_same_words, not_named if check.layer == "named" else lambda _: NOT_THESE)
            elif entry["judged"]:
                judge = partial(_same_or_undecided, check.tolerance)
            checks.append(dataclasses.replace(check, judge=judge))
        return dataclasses.replace(self.item.spec, checks=tuple(checks))

    @cached_property
    def plan(self) -> Plan:
        calls = tuple(PlannedCall(call["inputs"], call["ask"], call.get("apart", "")) for call in self.record["asked"])
        return Plan(calls, tuple(tuple(entry["of"]) for entry in self.record["checks"]))

    def expected(self) -> tuple[CallResult, ...]:
        return tuple(CallResult(value) for value in self.record["expected"])

    def smallest(self, check: Check) -> tuple[Plan, tuple[CallResult, ...] | None]:
        index = next(index for index, each in enumerate(self.spec.checks) if each is check)
        small = self.record["checks"][index].get("small", [])
        calls = tuple(PlannedCall(case["inputs"]) for case in small)
        results = tuple(CallResult(case["expected"]) for case in small)
        return Plan(calls, (tuple(range(len(calls))),)), results or None

    def recorded_mistake(
        self, results: Sequence[CallResult], expected: Sequence[CallResult], tolerances: Sequence[float]
    ) -> NamedMistake | None:
        pairs = zip(results, expected, strict=True)
        if any(size(result.value) > ROOM + GROWTH * size(wanted.value) for result, wanted in pairs):
            return None  # no known mistake is that large, and the search takes 32 bytes for each element
        book = self.record.get("mistakes", {})
        of_bank = [None if call.function else result for call, result in zip(self.plan.calls, results, strict=True)]
        found = sealed.opened(book, results, expected, tolerances) or sealed.opened(book, of_bank, expected, tolerances)
        fields = [str((found or {}).get(name, "")) for name in ("id", "says", "source")]
        return NamedMistake(*map(visible, fields)) if found else None


def _same_words(says: Callable[[Any], str], inputs: Inputs, result: Any, expected: Any) -> str | None:
    return None if sealed.are_sealed(result, expected) else says(result)


def _same_or_undecided(tolerance: float, inputs: Inputs, result: Any, expected: Any) -> str | None:
    return UNDECIDED if difference(result, expected, tolerance) else None
