"""Grade a class's submissions in parallel, and save each result as soon as it is finished.

A run that was interrupted can be resumed: a submission is graded again only if its content, the exercises or the seed
changed. All submissions of a run get the same inputs, so the results of the solutions and of the known wrong answers
are computed only once.
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

from kmha import __version__, atomic_files
from kmha.course.classroom import submissions
from kmha.course.classroom.submissions import Submission
from kmha.course.exercises.content import Assignment, Item
from kmha.course.exercises.handout import is_starter
from kmha.course.judging import rendering
from kmha.course.judging.marking import Grade, refused
from kmha.course.judging.pipeline import judge
from kmha.course.judging.running import BrokenExerciseError
from kmha.sandbox.errors import SandboxError, StoppedError
from kmha.sandbox.sandbox import Pool

VERSION = 1  # version of the format of the result files
ENGINE = Path(__file__).parents[2]  # the folder of kmha
MISSING, UNWRITTEN = "it was not handed in.", "it is still the starter."
CASE_LENGTH = 3_000  # characters kept of a smallest case
GradedSubmission = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class GradingRun:
    """The settings of a run.

    Attributes:
        assignments: Assignments to grade.
        folder: Folder for the results, one file per submission.
        seed: Seed of the inputs.
        jobs: Number of submissions graded at a time.
        seconds: Time limit for an answer. Default: the exercise's own.
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
        """Return a hash of everything that the result depends on."""
        parts = [VERSION, __version__, self.seed, self.seconds, submission.digest, self._digests]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @cached_property
    def _digests(self) -> list[str]:
        """Hashes of all files of the assignments, and of kmha's own code."""
        return [*(_digest(each.folder, "*") for each in self.assignments), _digest(ENGINE, "*.py")]


def grade(
    places: Mapping[str, Path], run: GradingRun, progress: Callable[[str], None] = lambda id: None
) -> dict[str, GradedSubmission]:
    """Grade submissions.

    Args:
        places: Paths of the submissions, keyed by id.
        run: Settings of the run.
        progress: Function called in this thread with the id of each finished submission.

    Returns:
        For each id, a dictionary with `student`, `notes`, `failed` and `exercises`. `exercises` maps ids to what
        `kmha.course.judging.rendering.as_dict` returns, plus `title`, `code`, `handed_in` and `failed` (the grader
        itself failed). Each check also has `visible`, and the smallest case is text.

    Raises:
        BrokenExerciseError: The solution of an exercise does not run.
        KeyboardInterrupt: The run was interrupted. Results written so far are complete, and the same call resumes.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    todo: queue.SimpleQueue[tuple[str, Path, Path]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[str, GradedSubmission] | BaseException] = queue.SimpleQueue()
    names = file_names(places)
    for id, path in places.items():
        todo.put((id, path, run.folder / f"{names[id]}.json"))
    workers = [_Worker(run, todo, done) for _ in range(max(1, min(run.jobs, len(places))))]
    graded: dict[str, GradedSubmission] = {}
    try:
        for worker in workers:
            worker.start()
        while len(graded) < len(places):
            result = _next(done)
            if isinstance(result, BaseException):
                raise result
            graded[result[0]] = result[1]
            progress(result[0])
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()
    return {id: graded[id] for id in places}


def file_names(ids: Iterable[str]) -> dict[str, str]:
    """Return a file name for each id, valid on every file system and unique even if case is ignored.

    >>> file_names(["Ann", "a/../b"])
    {'Ann': 'Ann', 'a/../b': 'a_.._b-900ea8b7'}
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for id in ids:
        # 40 letters of up to 4 bytes each, a suffix, and a temporary file's suffix must fit into 255 bytes.
        name = re.sub(r"[^\w.-]", "_", id).lstrip(".")[:40]
        if name != id or name.casefold() in taken or name.casefold() in ("index", "con", "nul", "aux", "prn"):
            name = f"{name}-{hashlib.sha256(id.encode()).hexdigest()[:8]}"
        taken.add(name.casefold())
        names[id] = name
    return names


def handed_in(places: Mapping[str, Path], assignments: Sequence[Assignment]) -> tuple[Assignment, ...]:
    """Return the assignments for which someone handed in an answer, or all if nobody did."""
    found: set[str] = set()
    for id, path in places.items():
        found |= {answer.partition(".")[0] for answer in submissions.read(id, path, assignments).answers}
    return tuple(assignment for assignment in assignments if assignment.id in found) or tuple(assignments)


class _Worker(threading.Thread):
    """A thread that grades one submission after another, in its own sandboxes."""

    def __init__(self, run: GradingRun, todo: Any, done: Any) -> None:
        super().__init__(daemon=True)
        self.settings, self.todo, self.done = run, todo, done
        self.pool = Pool()
        self.stopped = False

    def run(self) -> None:
        try:
            with self.pool, contextlib.suppress(queue.Empty, StoppedError):
                while not self.stopped:
                    id, path, result = self.todo.get_nowait()
                    self.done.put((id, self._grade(id, path, result)))
        except BaseException as error:  # raised again in the thread that waits
            self.done.put(error)

    def stop(self) -> None:
        """Stop the worker, even in the middle of an answer."""
        self.stopped = True
        self.pool.stop()

    def _grade(self, id: str, path: Path, result: Path) -> GradedSubmission:
        submission = submissions.read(id, path, self.settings.assignments)
        key = self.settings.key(submission)
        if (known := _known(result, key)) is not None:
            return known
        exercises = {item.id: self._grade_exercise(item, submission) for item in self.settings.items}
        failed, notes = any(each["failed"] for each in exercises.values()), list(submission.notes)
        graded = {"key": key, "student": id, "notes": notes, "failed": failed, "exercises": exercises}
        atomic_files.write_json(result, graded)
        return graded

    def _grade_exercise(self, item: Item, submission: Submission) -> dict[str, Any]:
        code, failed = submission.answers.get(item.id), False
        try:
            found = self._judge(item, code, submission)
        except (BrokenExerciseError, SandboxError, StoppedError):
            raise
        except Exception as error:  # a bug in the grader must not cost the other students their grades
            failed = True
            found = refused(item.id, item.spec, f"the grader failed: {type(error).__name__}: {error}"[:500])
        exercise = rendering.as_dict(dataclasses.replace(found, case=None)) | {"case": _case(found)}
        for check, outcome in zip(exercise["checks"], found.outcomes, strict=True):
            check["visible"] = outcome.check.visible
        more = {"title": item.spec.title, "handed_in": code is not None, "failed": failed, "code": code or ""}
        return exercise | more

    def _judge(self, item: Item, code: str | None, submission: Submission) -> Grade:
        if code is None:
            return refused(item.id, item.spec, MISSING)
        if is_starter(code, item):
            return refused(item.id, item.spec, UNWRITTEN)
        names = {other.id: f"{other.name}.py" for other in item.parent.items}
        files = {names[id]: text for id, text in submission.answers.items() if id in names}
        sandbox = self.pool.get(item.spec.uses)
        if self.stopped:  # this sandbox may have been created after `stop` stopped the others
            raise StoppedError
        return judge(item, code, sandbox, seed=self.settings.seed, files=files, seconds=self.settings.seconds)


def _case(grade: Grade) -> str:
    """Return the smallest case as text. It shows an untrusted result, so it is truncated and errors are ignored."""
    with contextlib.suppress(Exception):
        return "" if grade.case is None else rendering.case_text(grade.case)[:CASE_LENGTH]
    return ""


def _next(done: Any) -> Any:
    """Wait for the next result. Use timeouts, because Ctrl-C does not interrupt a long wait on every system."""
    while True:
        with contextlib.suppress(queue.Empty):
            return done.get(timeout=0.2)


def _known(path: Path, key: str) -> GradedSubmission | None:
    """Return the result in a file if the file has this key, or else `None`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    valid = isinstance(found, dict) and found.get("key") == key and found.get("failed") is False
    return found if valid else None


def _digest(folder: Path, pattern: str) -> str:
    """Return a hash of the names and contents of the files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob(pattern)):
        if path.is_file() and "__pycache__" not in path.parts:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()
