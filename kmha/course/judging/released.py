"""Write the exercises of a released course, and grade answers to them.

A released exercise contains its texts, its starter, its visible checks, the calls that they make for a few draws, and
the solution's results. It contains neither the solution, nor hidden checks, nor wrong answers, nor code that decides: a
check with its own judge compares an answer with the solution's result, and leaves open whether a different result
is correct too.
"""

import dataclasses
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kmha import atomic_files
from kmha.course.exercises.content import CHECK_FIELDS, EXERCISE_FIELDS, RELEASED_VERSION, Item, ReleasedItem
from kmha.course.exercises.exercise import Exercise, Inputs
from kmha.course.judging.comparing import difference
from kmha.course.judging.planning import Plan, plan
from kmha.course.judging.running import Runner
from kmha.sandbox.encoding import encode
from kmha.sandbox.sandbox import Call, CallResult, Sandbox

UNDECIDED = "your result differs from the solution's. Your teacher's grading decides whether it is right all the same."
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
    # Our own code answers the requests to `serve`, and must not be handed out.
    checks = [check for check in spec.checks if check.visible and (spec.serve is None or check.layer == "signature")]
    runner, calls = Runner(item, sandbox, seed), plan(checks, seed)
    expected = runner.run_solution(calls) if checks else ()
    record = {
        **{name: getattr(spec, name) for name in EXERCISE_FIELDS},
        "version": RELEASED_VERSION,
        "all_points": spec.points,
        "text": item.master.text,
        "starter": item.master.starter,
        "hints": list(item.master.hints),
        "checks": [
            {name: getattr(check, name) for name in CHECK_FIELDS}
            | {"judged": check.judge is not None, "of": list(indices)}
            for check, indices in zip(checks, calls.indices, strict=True)
        ],
        "asked": [{"ask": call.function, "inputs": call.inputs} for call in calls.calls],
        "expected": [result.value for result in expected],
    }
    atomic_files.write_bytes(path, encode(record))


class ReleasedRunner(Runner):
    """Run answers to a released exercise on its recorded inputs."""

    def __init__(self, item: ReleasedItem, sandbox: Sandbox) -> None:
        super().__init__(item, sandbox, seed=0)
        self.record = item.record

    @cached_property
    def spec(self) -> Exercise:
        """The exercise. Its judges leave open whether a result that differs from the solution's is correct."""
        checks = [
            dataclasses.replace(check, judge=partial(_same_or_undecided, check.tolerance)) if entry["judged"] else check
            for check, entry in zip(self.item.spec.checks, self.record["checks"], strict=True)
        ]
        return dataclasses.replace(self.item.spec, checks=tuple(checks))

    @cached_property
    def plan(self) -> Plan:
        calls = tuple(Call(call["inputs"], call["ask"]) for call in self.record["asked"])
        return Plan(calls, tuple(tuple(entry["of"]) for entry in self.record["checks"]))

    def expected(self) -> tuple[CallResult, ...]:
        return tuple(CallResult(value) for value in self.record["expected"])


def _same_or_undecided(tolerance: float, inputs: Inputs, result: Any, expected: Any) -> str | None:
    return UNDECIDED if difference(result, expected, tolerance) else None
