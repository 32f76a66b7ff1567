"""Run answers to an exercise in the sandbox: the learner's, the solution, and the wrong answers."""

import ast
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from kmha.course.errors import CourseError
from kmha.course.exercises import cells
from kmha.course.exercises.content import Item
from kmha.course.exercises.exercise import Check, Exercise, Wrong
from kmha.course.judging.locked_cache import LockedCache
from kmha.course.judging.marking import ROOM, TOO_MUCH, NamedMistake, size
from kmha.course.judging.planning import Plan, PlannedCall, plan, plan_smallest
from kmha.sandbox.limits import PATIENCE
from kmha.sandbox.results import TOO_LONG, exceeded
from kmha.sandbox.sandbox import SIGNATURE, STARTUP, UNFINISHED, Call, CallResult, Sandbox, TaskResult
from kmha.sandbox.worker import arrays, error_record

QUICK = 2.0  # seconds in which any right answer finishes a small call
_SOLUTIONS, _WRONG, _SMALLEST = LockedCache(256), LockedCache(2048), LockedCache(256)


class BrokenExerciseError(CourseError, RuntimeError):
    """The exercise itself is broken: its solution does not run."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer to an exercise.

    Attributes:
        code: Text of the answer.
        files: Texts of the other files that the answer imports, keyed by file name.
        seconds: Time limit. Default: the exercise's own.
    """

    code: str
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seconds: float | None = None


def needed_files(item: Item, files: Mapping[str, str]) -> dict[str, str]:
    """Return the learner's files that an answer to the exercise imports, directly or not."""
    names = [f"{other.name}.py" for other in item.needs]
    return {name: files[name] for name in names if name in files}


def needed_solutions(item: Item) -> dict[str, str]:
    """Return the solutions of the exercises that this exercise needs, keyed by file name."""
    return {f"{other.name}.py": other.master.solution for other in item.needs}


def _joined(call: PlannedCall, results: Sequence[CallResult]) -> CallResult:
    """Return the result of a call from those of its parts. An error in one part is the error of the call."""
    if not call.apart:
        return results[0]
    error = next((result.error for result in results if result.error is not None), None)
    changed = tuple(dict.fromkeys(name for result in results for name in result.changed))
    printed = next((result.printed for result in results if result.printed), "")
    return CallResult([result.value for result in results] if error is None else None, error, changed, printed)


class Runner:
    """Run answers to one exercise on the inputs of one seed.

    The solution and the wrong answers run only once per seed, in the sandbox of the runner that needs them first.

    Args:
        item: The exercise.
        sandbox: A sandbox that imports the libraries of the exercise.
        seed: Seed of the inputs.
    """

    def __init__(self, item: Item, sandbox: Sandbox, seed: int) -> None:
        self.item, self.sandbox, self.seed = item, sandbox, seed

    @property
    def spec(self) -> Exercise:
        return self.item.spec

    @cached_property
    def plan(self) -> Plan:
        return plan(self.spec.checks, self.seed)

    def limit(self, answer: Answer) -> float:
        """Return the time limit of an answer, in seconds."""
        return self.spec.seconds if answer.seconds is None else answer.seconds

    def run(
        self, answer: Answer, calls: Plan | None = None, startup: float = STARTUP, trusted: bool = False
    ) -> TaskResult:
        """Run an answer and make `calls` to it, by default the calls of all checks.

        An answer that is `trusted` gets one process for all calls, which is faster.
        """
        limit = self.limit(answer)
        asked = (self.plan if calls is None else calls).calls
        apart = [call for call in asked if call.apart and not trusted]
        together = [part for call in asked if call not in apart for part in call.parts()]
        ran = self._run(answer, together, limit, startup)
        if ran.error is not None or not any(call.apart for call in asked):
            return ran
        of_together = iter(ran.results)
        of_apart = self._run_apart(answer, [part for call in apart for part in call.parts()], limit)
        joined = (
            _joined(call, [*islice(of_apart if call in apart else of_together, len(call.parts()))]) for call in asked
        )
        return dataclasses.replace(ran, results=tuple(joined))

    def _run_apart(self, answer: Answer, calls: Sequence[Call], limit: float) -> Iterator[CallResult]:
        """Yield the result of each call, in a process of its own. All have one limit of time, and one of size.

        The time is what the processes took. What this thread measures includes the time in which it waited for others,
        which read or judge other answers, so that it only bounds the waits for replies, as the sandbox does in a call.
        """
        left, deadline, room = limit, time.monotonic() + (1 + PATIENCE) * limit, ROOM
        for call in calls:
            if room < 0:
                yield CallResult(error=error_record(TOO_MUCH))
            elif left <= 0 or time.monotonic() >= deadline:
                yield CallResult(error=exceeded("time", limit))
            else:
                # Each gets the whole time limit: what is left would tell it how long those before it took.
                # With threads, it could choose the process number of the next.
                ran = self._run(answer, [call], limit, STARTUP, threads=False)
                left -= ran.seconds
                result = CallResult(error=ran.error) if ran.error is not None else ran.results[0]
                room -= size(result.value)
                yield result if room >= 0 else CallResult(error=error_record(TOO_MUCH))

    def _run(
        self, answer: Answer, calls: Sequence[Call], seconds: float, startup: float, threads: bool = True
    ) -> TaskResult:
        for _ in range(2):  # something other than this answer may have ended the sandbox
            ran = self.sandbox.run(
                self.item.name,
                answer.code,
                calls,
                files=answer.files,
                seconds=seconds,
                startup=startup,
                serve=self.spec.serve,
                absent=self.spec.forbids,
                threads=threads,
            )
            if ran is not UNFINISHED:
                break
        return ran

    def endless(self, answer: Answer) -> CallResult | None:
        """Return the error of an answer that does not finish a small call in `QUICK` seconds, or `None`.

        Only code with a `while` loop is tried. So an endless loop is found long before the time limit.
        """
        tree = cells.syntax_tree(answer.code)
        calls = [call for call in self.plan.calls if call.function != SIGNATURE]
        if tree is None or not calls or not any(isinstance(node, ast.While) for node in ast.walk(tree)):
            return None
        parts = [part for call in calls for part in call.parts()[:1]]
        call = min(parts, key=lambda part: sum(array.size for array in arrays(part.inputs)))
        ran = self._run(answer, [call], QUICK, QUICK)
        error = ran.error or ran.results[0].error
        return CallResult(error=error) if error is not None and str(error["says"]).startswith(TOO_LONG) else None

    def run_solution(self, calls: Plan | None = None) -> tuple[CallResult, ...]:
        """Run the solution.

        Raises:
            BrokenExerciseError: The solution raises an error.
        """
        ran = self.run(Answer(self.item.master.solution, needed_solutions(self.item)), calls, trusted=True)
        error = ran.error or next((result.error for result in ran.results if result.error), None)
        if error is not None:
            raise BrokenExerciseError(f"{self.item.id}: its own solution fails: {error['kind']} {error['says']}")
        return ran.results

    def expected(self) -> tuple[CallResult, ...]:
        """Return the results of `run_solution`, which runs only once per seed."""
        return _SOLUTIONS.get((self.item, self.seed), self.run_solution)

    def recorded_mistake(
        self, results: Sequence[CallResult], expected: Sequence[CallResult], tolerances: Sequence[float]
    ) -> NamedMistake | None:
        """Return a mistake from the record of a released exercise. Any other exercise has none."""
        return None

    def wrong(self, wrong: Wrong) -> TaskResult:
        """Return the results of a wrong answer."""

        def compute() -> TaskResult:
            return self.run(Answer(wrong.text(self.item.master.solution), needed_solutions(self.item)), trusted=True)

        return _WRONG.get((self.item, wrong.id, self.seed), compute)

    def smallest(self, check: Check) -> tuple[Plan, tuple[CallResult, ...] | None]:
        """Return small cases of a check, and the solution's results, or `None` if the solution needs larger sizes."""

        def compute() -> tuple[Plan, tuple[CallResult, ...] | None]:
            cases = plan_smallest(check, self.seed)
            try:
                return cases, self.run_solution(cases)
            except BrokenExerciseError:
                return cases, None

        return _SMALLEST.get((self.item, check, self.seed), compute)
