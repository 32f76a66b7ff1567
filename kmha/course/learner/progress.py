"""What a learner has achieved so far, in a file of the learner's folder.

>>> Record(points=3).begun, Record(attempts=1).begun
(False, True)
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

from kmha import files
from kmha.course.errors import CourseError

STATE = ".kmha-course.json"


class WorkspaceError(CourseError, ValueError):
    """The learner's folder, or a file in it, is not as it must be; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Record:
    """What has been achieved in an exercise.

    Attributes:
        attempts: how often it was checked.
        points: the most that it got.
        passed: whether it got them all.
        hints: how many were asked for.
        solution: whether it was asked for before the exercise was passed.
    """

    attempts: int = 0
    points: int = 0
    passed: bool = False
    hints: int = 0
    solution: bool = False

    @property
    def begun(self) -> bool:
        """Whether it was ever checked."""
        return self.attempts > 0


@dataclasses.dataclass(frozen=True)
class Progress:
    """The file with the records; it is read anew each time, since another process may have written it.

    Attributes:
        path: of it.
    """

    path: Path

    def create(self, form: str) -> None:
        """Writes it with no records."""
        files.write_json(self.path, {"version": 1, "form": form, "exercises": {}, "said": []})

    def form(self) -> Any:
        """Of the folder: whether it has files or notebooks."""
        return self._state().get("form")

    def records(self) -> dict[str, Record]:
        """Of every exercise that was begun, by its id."""
        return self._records(self._state())

    def record(self, id: str) -> Record:
        """Of one exercise."""
        return self.records().get(id, Record())

    def note(self, id: str, **changes: Any) -> Record:
        """Changes the record of an exercise."""
        state = self._state()
        record = dataclasses.replace(self._records(state).get(id, Record()), **changes)
        state.setdefault("exercises", {}).pop(id, None)  # what was noted last comes last
        state["exercises"][id] = dataclasses.asdict(record)
        files.write_json(self.path, state)
        return record

    def attempt(self, id: str, points: int, passed: bool) -> Record:
        """Notes a check: the most points count, and what was once passed stays so."""
        before = self.record(id)
        best = max(points, before.points)
        return self.note(id, attempts=before.attempts + 1, points=best, passed=passed or before.passed)

    def once(self, name: str) -> bool:
        """Whether something is to be said that is said once in a folder: the first time."""
        state = self._state()
        said = state.setdefault("said", [])
        if name in said:
            return False
        said.append(name)
        files.write_json(self.path, state)
        return True

    def _state(self) -> dict[str, Any]:
        try:
            state = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self._spoilt(str(error)) from None
        lists = isinstance(state, dict) and isinstance(state.get("said", []), list)
        if not lists or not isinstance(state.get("exercises", {}), dict):
            raise self._spoilt("it is not as it was written")
        return dict(state)

    def _records(self, state: dict[str, Any]) -> dict[str, Record]:
        fields = {field.name: type(field.default) for field in dataclasses.fields(Record)}
        found = {}
        for id, each in state.get("exercises", {}).items():
            known = {name: each[name] for name in fields if isinstance(each, dict) and name in each}
            if not isinstance(each, dict) or any(type(value) is not fields[name] for name, value in known.items()):
                raise self._spoilt(f"what it says of {id} is not as it was written")
            found[id] = Record(**known)
        return found

    def _spoilt(self, why: str) -> WorkspaceError:
        return WorkspaceError(
            f"{self.path} cannot be read: {why}. Rename it and run `kmha course start` there: your answers stay, and "
            "`kmha course check` counts them again."
        )
