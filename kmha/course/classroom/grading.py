"""Grades what a class handed in: many at a time, each in sandboxes of its worker, and each result is kept as it comes.

A run that was stopped goes on where it was: a submission is graded again only if its content, the exercises or the seed
are others. All submissions of a run get the same inputs, so that what the solutions and the wrong answers give is
computed once.
"""

import contextlib
import dataclasses
import hashlib
import json
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from kmha import __version__, files
from kmha.course.classroom import submissions
from kmha.course.classroom.submissions import Submission
from kmha.course.exercises.content import Assignment, Item
from kmha.course.exercises.handout import is_starter
from kmha.course.judging import rendering
from kmha.course.judging.judging import judge
from kmha.course.judging.marking import Grade, refused
from kmha.course.judging.running import BrokenExerciseError
from kmha.sandbox.pool import Pool
from kmha.sandbox.sandbox import SandboxError, StoppedError

VERSION = 1  # of the files
MISSING, UNTOUCHED = "it was not handed in.", "it is still the starter."
CASE = 3_000  # characters of a smallest case that are kept
Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """How a class is graded.

    Attributes:
        assignments: that count.
        folder: for the results, a file for each submission.
        seed: of the inputs.
        jobs: how many are graded at a time.
        seconds: that an answer may take, if not as many as the exercise says.
    """

    assignments: tuple[Assignment, ...]
    folder: Path
    seed: int
    jobs: int = 1
    seconds: float | None = None

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(item for assignment in self.assignments for item in assignment.items)

    def key(self, submission: Submission) -> str:
        """Of all that a result hangs on."""
        told = [VERSION, __version__, self.seed, self.seconds, submission.digest, self._content]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @cached_property
    def _content(self) -> list[str]:
        paths = [path for item in self.items for path in (item.folder / f"{item.name}.py", _checks(item))]
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def grade(places: Mapping[str, Path], run: Run, progress: Callable[[str], None] = lambda id: None) -> dict[str, Record]:
    """Grades submissions.

    Args:
        places: where they are, by their ids.
        run: how.
        progress: called with the id of each that is done, in this thread.

    Returns:
        What came of each, by their ids: `student`, `notes`, and `exercises` by their ids, each as
        `kmha.course.judging.rendering.as_dict` has it, with its `title`, the `code`, whether it was `handed_in`,
        whether grading it `failed`, whether each check is `visible`, and the smallest case as text.

    Raises:
        BrokenExerciseError: the solution of an exercise does not run.
        KeyboardInterrupt: results that are there are whole, and the same call goes on.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    todo: queue.SimpleQueue[tuple[str, Path, Path]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, Record] | BaseException] = queue.SimpleQueue()
    names = file_names(places)
    for id, path in places.items():
        todo.put((id, path, run.folder / f"{names[id]}.json"))
    workers = [_Worker(run, todo, done) for _ in range(max(1, min(run.jobs, len(places))))]
    found: dict[str, Record] = {}
    try:
        for worker in workers:
            worker.start()
        while len(found) < len(places):
            result = _next(done)
            if isinstance(result, BaseException):
                raise result
            found[result[0]] = result[1]
            progress(result[0])
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()
    return {id: found[id] for id in places}


def file_names(ids: Iterable[str]) -> dict[str, str]:
    """For each id a name that every file system takes, and that is no other's where upper and lower case are one.

    >>> file_names(["Ann", "a/../b"])
    {'Ann': 'Ann', 'a/../b': 'a_.._b-900ea8b7'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for id in ids:
        # A letter can be 4 bytes, a file system's limit is 255, and the name gets a suffix and that of a draft.
        name = re.sub(r"[^\w.-]", "_", id).lstrip(".")[:40]
        if name != id or name.casefold() in taken or name.casefold() in ("index", "con", "nul", "aux", "prn"):
            name = f"{name}-{hashlib.sha256(id.encode()).hexdigest()[:8]}"
        taken.add(name.casefold())
        found[id] = name
    return found


class _Worker(threading.Thread):
    """Grades one submission after another, in sandboxes of its own."""

    def __init__(self, run: Run, todo: Any, done: Any) -> None:
        super().__init__(daemon=True)
        self.how, self.todo, self.done = run, todo, done
        self.pool = Pool()
        self.stopped = False

    def run(self) -> None:
        try:
            with self.pool, contextlib.suppress(queue.Empty, StoppedError):
                while not self.stopped:
                    id, path, result = self.todo.get_nowait()
                    self.done.put((id, self._one(id, path, result)))
        except BaseException as error:  # for the thread that waits
            self.done.put(error)

    def stop(self) -> None:
        """Ends it, whatever it does."""
        self.stopped = True
        self.pool.stop()

    def _one(self, id: str, path: Path, result: Path) -> Record:
        submission = submissions.read(id, path, self.how.assignments)
        key = self.how.key(submission)
        if (known := _known(result, key)) is not None:
            return known
        record: Record = {"key": key, "student": id, "notes": list(submission.notes), "failed": False, "exercises": {}}
        for item in self.how.items:
            told = self._exercise(item, submission)
            record["failed"] |= told["failed"]
            record["exercises"][item.id] = told
        files.write_json(result, record)
        return record

    def _exercise(self, item: Item, submission: Submission) -> Record:
        code = submission.answers.get(item.id)
        failed = False
        try:
            found = self._judged(item, code, submission)
        except (BrokenExerciseError, SandboxError, StoppedError):
            raise
        except Exception as error:  # the fault is ours: it must not cost the others their grades
            failed = True
            found = refused(item.id, item.spec, f"the grader failed: {type(error).__name__}: {error}"[:500])
        told = rendering.as_dict(dataclasses.replace(found, shown=None)) | {"case": _case(found)}
        for check, outcome in zip(told["checks"], found.outcomes, strict=True):
            check["visible"] = outcome.check.visible
        return {**told, "title": item.spec.title, "handed_in": code is not None, "failed": failed, "code": code or ""}

    def _judged(self, item: Item, code: str | None, submission: Submission) -> Grade:
        if code is None:
            return refused(item.id, item.spec, MISSING)
        if is_starter(code, item):
            return refused(item.id, item.spec, UNTOUCHED)
        of_assignment = {other.id: f"{other.name}.py" for other in item.beside}
        more = {of_assignment[id]: text for id, text in submission.answers.items() if id in of_assignment}
        sandbox = self.pool.of(item.spec.uses)
        if self.stopped:  # it may have come after all others were stopped
            raise StoppedError
        return judge(item, code, sandbox, seed=self.how.seed, more=more, seconds=self.how.seconds)


def _case(grade: Grade) -> str:
    """The smallest case as text; in it is a stranger's result, so that it is cut, and that it fails is no matter."""
    with contextlib.suppress(Exception):
        return "" if grade.shown is None else rendering.case_text(grade.shown)[:CASE]
    return ""


def _next(done: Any) -> Any:
    """What comes next; waiting in pieces, since Ctrl-C is not heard in the middle of one everywhere."""
    while True:
        with contextlib.suppress(queue.Empty):
            return done.get(timeout=0.2)


def _known(path: Path, key: str) -> Record | None:
    """The result in a file, if it is of the same content."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("key") != key or found.get("failed") is not False:
        return None
    return found


def _checks(item: Item) -> Path:
    return item.folder / "checks" / f"{item.name}.py"


def handed_in(places: Mapping[str, Path], assignments: Sequence[Assignment]) -> tuple[Assignment, ...]:
    """The assignments that someone handed in an answer to; all, if nobody did."""
    found: set[str] = set()
    for id, path in places.items():
        found |= {answer.partition(".")[0] for answer in submissions.read(id, path, assignments).answers}
    return tuple(assignment for assignment in assignments if assignment.id in found) or tuple(assignments)
