"""Grade a class's submissions in parallel, and save each result as soon as it is finished.

A run that was interrupted can be resumed: a submission is graded again only if its content, the exercises or the seed
changed. All submissions of a run get the same inputs, so the results of the solutions and of the known wrong answers
are computed only once.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kmha import __version__, atomic_files
from kmha.course.classroom import likeness, submissions
from kmha.course.classroom.submissions import Submission
from kmha.course.classroom.workers import Workers
from kmha.course.exercises.content import Assignment, Item
from kmha.course.exercises.handout import is_starter
from kmha.course.judging import rendering
from kmha.course.judging.locked_cache import shared_seconds
from kmha.course.judging.marking import Grade, refused
from kmha.course.judging.pipeline import judge
from kmha.course.judging.running import BrokenExerciseError, needed_solutions
from kmha.sandbox import limits
from kmha.sandbox.errors import SandboxError, StoppedError
from kmha.sandbox.results import ENDED
from kmha.sandbox.sandbox import Pool

VERSION = 2  # version of the format of the result files
ENGINE = Path(__file__).parents[2]  # the folder of kmha
STATES = "not begun", "out of time", "does not run", "wrong", "right"
NOT_BEGUN, OUT_OF_TIME, DOES_NOT_RUN, WRONG, RIGHT = STATES
# The time of a submission, at least and compared with that of the solutions. All of these take 75 seconds on two cores,
# so the second counts on slow machines only.
LEAST_MINUTES, TIMES = 10, 5
MISSING, UNWRITTEN = "it was not handed in.", "it is still the starter."
UNREAD = "nothing that was handed in could be read. The notes say why."
STUB_ERROR = "NotImplementedError: write this part"  # an answer with a part that is still the stub
CASE_LENGTH, CODE_LENGTH = 3_000, 20_000  # characters kept of a smallest case, and of an answer
GradedSubmission = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class GradingRun:
    """The settings of a run.

    Attributes:
        assignments: Assignments to grade.
        folder: Folder for the results, one file per submission.
        seed: Seed of the inputs.
        jobs: Number of submissions graded at a time, at most one per processor.
        seconds: Time limit for an answer. Default: the exercise's own.
        others: Assignments that are not graded, but may be handed in too.
        minutes: Time limit for reading a submission and running its answers. Answers after that are not run. Default:
            `TIMES` as long as the solutions take, at least `LEAST_MINUTES`.
        notes: Notes on the submissions, beside those from reading them, keyed by student.
    """

    assignments: tuple[Assignment, ...]
    folder: Path
    seed: int
    jobs: int = 1
    seconds: float | None = None
    others: tuple[Assignment, ...] = ()
    minutes: int | None = None
    notes: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(item for assignment in self.assignments for item in assignment.items)

    def key(self, submission: Submission, cut_off: bool = False) -> str:
        """Return a hash of everything that the result depends on. Only if it was `cut_off`, that includes `minutes`."""
        parts = [VERSION, __version__, self.seed, self.seconds, submission.digest, self._digests]
        parts += [self.minutes] if cut_off else []
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @cached_property
    def _digests(self) -> list[str]:
        """Hashes of all files of the assignments, and of kmha's own code."""
        return [*(_digest(each.folder, "*") for each in self.assignments), _digest(ENGINE, "*.py")]


def grade(
    students: Mapping[str, Sequence[Path]], run: GradingRun, progress: Callable[[str], None] = lambda id: None
) -> dict[str, GradedSubmission]:
    """Check that the solutions pass on this machine, then grade submissions.

    Args:
        students: Paths of the students' files and folders, keyed by id.
        run: Settings of the run.
        progress: Function called in this thread with the id of each exercise whose solution passed, and then with the
            id of each finished submission.

    Returns:
        For each id, a dictionary with `student`, `notes`, `failed` and `exercises`. `exercises` maps ids to what
        `kmha.course.judging.rendering.as_dict` returns, plus `title`, `difficulty`, `code`, `state` (one of `STATES`),
        `failed` (the grader itself failed), and `fingerprint` and `like_solution` (`kmha.course.classroom.likeness`).
        Each check also has `visible`, and the smallest case is text.

    Raises:
        BrokenExerciseError: The solution of an exercise fails. No submission is graded.
        KeyboardInterrupt: The run was interrupted. Results written so far are complete, and the same call resumes.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    names = file_names(students)
    solutions = {item.id: partial(_check_solution, item, run.seed) for item in run.items}
    # Answers that share a processor take time from each other, and can exceed their time limits.
    with Workers(max(1, min(run.jobs, len(students), len(limits.processors())))) as workers:
        seconds = sum(workers.map(solutions, progress).values())
        minutes = run.minutes or max(LEAST_MINUTES, math.ceil(TIMES * seconds / 60))
        jobs = {
            id: partial(_grade, id, paths, run.folder / f"{names[id]}.json", run, minutes)
            for id, paths in students.items()
        }
        return workers.map(jobs, progress)


def own_seconds() -> float:
    """Return the time of a clock that stands still while this thread computes, or waits for, what all answers share."""
    return time.monotonic() - shared_seconds()


def file_names(ids: Iterable[str]) -> dict[str, str]:
    """Return a file name for each id, valid on every file system, and unique even if case and composition are ignored.

    >>> file_names(["Ann", "a/../b"])
    {'Ann': 'Ann', 'a/../b': 'a_.._b-900ea8b7'}
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for id in ids:
        # 40 letters of up to 4 bytes each, a suffix, and a temporary file's suffix must fit into 255 bytes.
        name = re.sub(r"[^\w.-]", "_", id).lstrip(".")[:40]
        tries = 0
        while (name != id and not tries) or _folded(name) in (*taken, "index", "con", "nul", "aux", "prn"):
            digest = hashlib.sha256(f"{id}{'+' * tries}".encode()).hexdigest()
            name, tries = f"{name[:40]}-{digest[:8]}", tries + 1
        taken.add(_folded(name))
        names[id] = name
    return names


def _folded(name: str) -> str:
    """Return what macOS compares names by."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def handed_in(students: Mapping[str, Sequence[Path]], assignments: Sequence[Assignment]) -> dict[Assignment, int]:
    """Return the assignments for which someone handed in more than the starters, and how many did.

    If nobody did, these are all assignments.
    """
    found: Counter[str] = Counter()
    for id, paths in students.items():
        written = submissions.written(_read(id, paths, assignments)[0], assignments)
        found.update({answer.partition(".")[0] for answer in written})
    return {each: found[each.id] for each in assignments if found[each.id] or not found}


def _check_solution(item: Item, seed: int, pool: Pool) -> float:
    """Check that the solution gets full points in the sandbox in which the answers run, and return how long it takes.

    Raises:
        BrokenExerciseError: The solution loses points.
    """
    code, files, sandbox = item.master.solution, needed_solutions(item), pool.get(item.spec.uses)
    sandbox.start()  # each thread starts its own, so that would count several times
    begin = own_seconds()
    try:
        found = judge(item, code, sandbox, seed=seed, files=files, explained=False)
        if found.passed:
            return own_seconds() - begin
        reason = f"{item.id}: its own solution fails: {rendering.failure(found)}"
    except BrokenExerciseError as error:
        reason = str(error)
    raise BrokenExerciseError(
        f"{reason.rstrip('.')}. Nothing is graded. To see all problems, run: kmha course verify {item.id}"
    )


def _read(
    id: str, paths: Sequence[Path], assignments: Sequence[Assignment], others: Sequence[Assignment] = ()
) -> tuple[Submission, bool]:
    """Read a submission, and return whether this failed."""
    try:
        return submissions.read(id, paths, assignments, others), False
    except Exception as error:  # a bug in the grader must not cost the other students their grades
        return Submission(id, {}, (_failure("The grader failed to read it", error),)), True


def _grade(id: str, paths: Sequence[Path], result: Path, run: GradingRun, minutes: int, pool: Pool) -> GradedSubmission:
    begin = own_seconds()
    submission, unread = _read(id, paths, run.assignments, run.others)
    submission = dataclasses.replace(submission, notes=(*run.notes.get(id, ()), *submission.notes))
    if (known := _known(result, [run.key(submission), run.key(submission, cut_off=True)])) is not None:
        return known
    exercises = {}
    why = f"because this submission took more than {rendering.count(minutes, 'minute')}"
    for item in run.items:
        late = own_seconds() - begin > 60 * minutes
        refusal = f"it was not run, {why}. Use a larger --minutes." if late else ""
        exercises[item.id] = _grade_exercise(item, submission, run, pool, refusal)
    failed, notes = unread or any(each["failed"] for each in exercises.values()), list(submission.notes)
    if cut_off := [id for id, each in exercises.items() if each["state"] == OUT_OF_TIME]:
        verb = "was" if len(cut_off) == 1 else "were"
        number = rendering.count(len(cut_off), "answer")
        notes.append(f"{number} {verb} not run, {why}: {submissions.listed(cut_off)}. Use a larger --minutes.")
    key = run.key(submission, bool(cut_off))
    graded = {"key": key, "student": id, "notes": notes, "failed": failed, "exercises": exercises}
    atomic_files.write_json(result, graded)
    return graded


def _grade_exercise(item: Item, submission: Submission, run: GradingRun, pool: Pool, refusal: str) -> dict[str, Any]:
    """Grade an answer, unless there is a `refusal` to run it."""
    code = submission.answers.get(item.id) or ""
    try:
        if refusal and item.id in submission.answers and not is_starter(code, item):
            found = refused(item.id, item.spec, refusal)
            return _record(item, found, "") | {"code": _shown(code), "state": OUT_OF_TIME}
        return _record(item, _judge(item, code, submission, run, pool), code)
    except (BrokenExerciseError, SandboxError, StoppedError):
        raise
    except Exception as error:  # a bug in the grader must not cost the other students their grades
        found = refused(item.id, item.spec, _failure("the grader failed", error))
        return _record(item, found, "") | {"code": _shown(code), "failed": True}


def _failure(what: str, error: Exception) -> str:
    """Return what failed and the error, whose text may be a student's."""
    return submissions.clean(f"{what}: {type(error).__name__}: {error}")[:500]


def _record(item: Item, found: Grade, code: str) -> dict[str, Any]:
    exercise = rendering.as_dict(dataclasses.replace(found, case=None)) | {"case": _case(found)}
    for check, outcome in zip(exercise["checks"], found.outcomes, strict=True):
        check["visible"] = outcome.check.visible
    alike = likeness.fingerprint(code, item) if code else ""
    error = found.error or {"kind": "", "says": ""}
    ended = [outcome.problem or "" for outcome in found.outcomes] + ([] if error["kind"] else [str(error["says"])])
    return exercise | {
        "title": item.spec.title,
        "difficulty": item.spec.difficulty,
        "code": _shown(code),
        "state": _state(found),
        "failed": any(each.startswith(ENDED) for each in ended),  # perhaps because of another answer
        "fingerprint": alike,
        "like_solution": bool(alike) and alike == likeness.of_solution(item),
    }


def _shown(code: str) -> str:
    """Return the start of an answer that is too long for a page. One file can be the answer to all exercises."""
    rest = len(code) - CODE_LENGTH
    return code if rest <= 0 else f"{code[:CODE_LENGTH]}\n… and {rest:,} more characters, which are not shown.\n"


def _state(found: Grade) -> str:
    """Return how far an answer is: one of `STATES`."""
    says = str((found.error or {}).get("says"))
    problems = [outcome.problem or "" for outcome in found.outcomes]
    if says in (MISSING, UNWRITTEN) or (found.points == 0 and any(STUB_ERROR in each for each in problems)):
        return NOT_BEGUN
    return DOES_NOT_RUN if found.error is not None else RIGHT if found.passed else WRONG


def _judge(item: Item, code: str, submission: Submission, run: GradingRun, pool: Pool) -> Grade:
    if item.id not in submission.answers:
        return refused(item.id, item.spec, UNREAD if submission.unread else MISSING)
    if is_starter(code, item):
        return refused(item.id, item.spec, UNWRITTEN)
    names = {other.id: f"{other.name}.py" for other in item.parent.items}
    files = {names[id]: text for id, text in submission.answers.items() if id in names}
    return judge(item, code, pool.get(item.spec.uses), seed=run.seed, files=files, seconds=run.seconds)


def _case(grade: Grade) -> str:
    """Return the smallest case as text. It shows an untrusted result, so it is truncated and errors are ignored."""
    with contextlib.suppress(Exception):
        return "" if grade.case is None else rendering.case_text(grade.case)[:CASE_LENGTH]
    return ""


def _known(path: Path, keys: Sequence[str]) -> GradedSubmission | None:
    """Return the result in a file if the file has one of these keys, or else `None`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    valid = isinstance(found, dict) and found.get("key") in keys and found.get("failed") is False
    return found if valid else None


def _digest(folder: Path, pattern: str) -> str:
    """Return a hash of the names and contents of the files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob(pattern)):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()
