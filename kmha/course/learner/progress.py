"""A learner's progress, kept in a file of their folder.

>>> Record(points=3).begun, Record(attempts=1).begun
(False, True)
"""

import dataclasses
from pathlib import Path
from typing import Any

from kmha import atomic_files
from kmha.bounded_json import from_json
from kmha.course.errors import CourseError
from kmha.regular_files import MAX_BYTES, open_regular
from kmha.sandbox.control_characters import visible

LARGEST = 10**9  # maximum number in a record. Python writes no number of more than 4,300 digits


class WorkspaceError(CourseError, ValueError):
    """The learner's folder, or a file in it, is invalid. The message says how to repair it."""


@dataclasses.dataclass(frozen=True)
class Record:
    """A learner's record for one exercise.

    Attributes:
        attempts: Number of checks.
        points: Highest number of points in a check.
        passed: Whether a check ever gave full points.
        hints: Number of hints shown.
        solution: Whether the learner asked for the solution before passing.
    """

    attempts: int = 0
    points: int = 0
    passed: bool = False
    hints: int = 0
    solution: bool = False

    @property
    def begun(self) -> bool:
        """True if the exercise was ever checked."""
        return self.attempts > 0


@dataclasses.dataclass(frozen=True)
class Progress:
    """The file of records. It is read on each access, since another process may have written it."""

    path: Path

    def form(self) -> Any:
        """Return the form of the folder: files or notebooks."""
        return self._state().get("form")

    def records(self) -> dict[str, Record]:
        """Return the records of all exercises that were begun, keyed by id. The one that changed last comes last."""
        return self._records(self._state())

    def record(self, id: str) -> Record:
        """Return the record of one exercise."""
        return self.records().get(id, Record())

    def update(self, id: str, **changes: Any) -> Record:
        """Change fields of an exercise's record, and return the new record."""
        state = self._state()
        record = dataclasses.replace(self._records(state).get(id, Record()), **changes)
        state.setdefault("exercises", {}).pop(id, None)  # so that the last changed comes last
        state["exercises"][id] = dataclasses.asdict(record)
        atomic_files.write_json(self.path, state)
        return record

    def add_attempt(self, id: str, points: int, passed: bool) -> Record:
        """Record a check. The best points count, and an exercise that was ever passed stays passed."""
        before = self.record(id)
        best = max(points, before.points)
        return self.update(id, attempts=before.attempts + 1, points=best, passed=passed or before.passed)

    def first_time(self, name: str) -> bool:
        """Return True on the first call with this name in a folder, for notices that are shown only once."""
        state = self._state()
        names = state.setdefault("said", [])
        if name in names:
            return False
        names.append(name)
        atomic_files.write_json(self.path, state)
        return True

    def _state(self) -> dict[str, Any]:
        try:
            if self.path.is_symlink():  # what it leads to may be another file of the learner's
                raise ValueError("it is a link")
            with open_regular(self.path) as file:
                state = from_json(file.read(MAX_BYTES).decode())
        except (OSError, ValueError, RecursionError) as error:
            raise self._unreadable(str(error)) from None
        valid = isinstance(state, dict) and isinstance(state.get("said", []), list)
        if not valid or not isinstance(state.get("exercises", {}), dict):
            raise self._unreadable("its content is not what kmha wrote")
        return dict(state)

    def _records(self, state: dict[str, Any]) -> dict[str, Record]:
        fields = {field.name: type(field.default) for field in dataclasses.fields(Record)}
        found = {}
        for id, each in state.get("exercises", {}).items():
            known = {name: each[name] for name in fields if isinstance(each, dict) and name in each}
            valid = isinstance(each, dict) and all(type(known[name]) is fields[name] for name in known)
            if not valid or not all(0 <= number <= LARGEST for number in known.values()):
                raise self._unreadable(f"its entry for {visible(id)} is not what kmha wrote")
            found[id] = Record(**known)
        return found

    def _unreadable(self, reason: str) -> WorkspaceError:
        return WorkspaceError(
            f"{self.path} cannot be read: {reason}. Rename it and run `kmha course start` in that folder. You keep "
            "your answers, and `kmha course check` records them again."
        )
