"""A class's submissions: a folder that contains a folder, a .zip or a notebook for each student.

An answer is a file named after the exercise in a folder named after the assignment, `a1_k_and_v/cross_kv.py`. In a
folder of another name, the file's name alone decides. Answers can also be in a notebook of the assignment, `a1.ipynb`.
If an exercise has both, the file counts, unless it is still the starter.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from kmha.course.classroom.unpacking import Entry, LeftOutError, entries
from kmha.course.errors import CourseError
from kmha.course.exercises import cells, notebooks
from kmha.course.exercises.content import Assignment, Item
from kmha.course.exercises.handout import is_starter

# Limits of a submission.
MAX_CODE, MAX_NOTEBOOK = 256 << 10, 16 << 20  # bytes of a file
MAX_NOTEBOOKS = 40  # gathering the answers of a notebook takes a second
MAX_TOTAL = 64 << 20  # bytes of all files
MAX_NOTES = 20


class SubmissionsError(CourseError, ValueError):
    """A folder is not a folder of submissions."""


@dataclasses.dataclass(frozen=True)
class Submission:
    """The submission of one student.

    Attributes:
        id: Name of the folder or file.
        answers: Code of the answers, keyed by exercise id.
        notes: Sentences on what was left out, and why.
    """

    id: str
    answers: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Hash of the whole submission."""
        content = json.dumps([self.id, sorted(self.answers.items()), self.notes])
        return hashlib.sha256(content.encode()).hexdigest()


def places(folder: Path) -> dict[str, Path]:
    """Return the paths of the submissions in a folder, keyed by id and in order.

    Raises:
        SubmissionsError: The path is not a folder, or the folder contains no submissions.
    """
    if not folder.is_dir():
        raise SubmissionsError(f"{folder} is not a folder. Name one that holds a folder or .zip for each student.")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        single = path.is_file() and path.suffix.lower() in (".zip", ".ipynb")
        if path.name.startswith((".", "__MACOSX")) or path.is_symlink() or not (path.is_dir() or single):
            continue
        id = clean(path.stem if single else path.name)
        while id in found:  # anna and anna.zip are two submissions
            id += path.suffix if single and not id.endswith(path.suffix) else "+"
        found[id] = path
    if not found:
        raise SubmissionsError(f"{folder} holds no submissions. Expected a folder, .zip or .ipynb for each student.")
    return dict(sorted(found.items()))


def read(id: str, path: Path, assignments: Sequence[Assignment]) -> Submission:
    """Read one submission. A file that cannot be read gives a note, not an error."""
    reader = _Reader(assignments)
    with ExitStack() as stack:
        folders = {each.id for each in assignments}
        found = entries(path, reader.note, stack)
        # Files in an assignment's folder come first, so that they count.
        for entry in sorted(found, key=lambda entry: entry.path.parent.name.partition("_")[0] not in folders):
            reader.add(entry)
    answers = reader.answers()
    if not answers:
        reader.note("No answer was found, so this submission gets 0 points.")
    return Submission(id, answers, tuple(reader.notes))


def clean(text: str) -> str:
    """Replace characters that a terminal would interpret, and lone surrogates."""
    text = text.encode(errors="replace").decode()
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


class _Reader:
    def __init__(self, assignments: Sequence[Assignment]) -> None:
        self.assignments = assignments
        self.items = {item.id: item for each in assignments for item in each.items}
        self.from_files: dict[str, str] = {}
        self.from_notebooks: dict[str, str] = {}
        self.notes: list[str] = []
        self.bytes_left, self.notebooks_left = MAX_TOTAL, MAX_NOTEBOOKS

    def note(self, note: str) -> None:
        """Add a note, unless there are too many."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(clean(note)[:300])
        elif len(self.notes) == MAX_NOTES:
            self.notes.append("… and more.")

    def add(self, entry: Entry) -> None:
        """Read a file if it can contain answers."""
        item = _exercise(entry.path, self.assignments)
        try:
            if item is not None:
                if item.id in self.from_files:
                    raise LeftOutError(f"another file has the answer to {item.id}.")
                self.from_files[item.id] = self._text(entry, MAX_CODE)
            elif entry.path.suffix.lower() == ".ipynb":
                self._add_notebook(entry)
        except LeftOutError as reason:
            self.note(f"{entry.path} is left out: {reason}")

    def answers(self) -> dict[str, str]:
        """Return the answers from files and notebooks."""
        found = dict(self.from_files)
        for id, code in self.from_notebooks.items():
            item = self.items[id]
            if id not in found or is_starter(found[id], item):
                found[id] = code
            elif not is_starter(code, item):
                self.note(f"{id} has an answer in a file and one in a notebook. The file counts.")
        return {id: found[id] for id in self.items if id in found}

    def _text(self, entry: Entry, most: int) -> str:
        data = entry.read(min(most, self.bytes_left) + 1)
        if len(data) > min(most, self.bytes_left):
            raise LeftOutError("it is too large.")
        self.bytes_left -= len(data)
        return data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")

    def _add_notebook(self, entry: Entry) -> None:
        if not self.notebooks_left:
            raise LeftOutError(f"there are more than {MAX_NOTEBOOKS} notebooks.")
        self.notebooks_left -= 1
        text = self._text(entry, MAX_NOTEBOOK)
        try:
            notebook = json.loads(text)
            assignment = _assignment(entry.path, notebook, self.assignments)
            found = notebooks.answers(notebook, assignment)
        except (ValueError, RecursionError) as error:
            raise LeftOutError(str(error)) from None
        for name, code in found.items():
            id = f"{assignment.id}.{name}"
            before = self.from_notebooks.get(id)
            if len(code.encode()) > MAX_CODE:
                self.note(f"{entry.path}: {id} is left out: it is too large.")
            elif before is None or is_starter(before, self.items[id]):
                self.from_notebooks[id] = code
            elif not is_starter(code, self.items[id]):
                self.note(f"{entry.path}: {id} is left out: another notebook has an answer to it.")


def _exercise(path: PurePosixPath, assignments: Sequence[Assignment]) -> Item | None:
    """Return the exercise that a file answers, found by its folder, or else by its name alone."""
    if path.suffix != ".py":
        return None
    matches = [item for each in assignments for item in each.items if item.name == path.stem]
    folder = path.parent.name.partition("_")[0]
    return next((item for item in matches if item.assignment == folder), matches[0] if len(matches) == 1 else None)


def _assignment(path: PurePosixPath, notebook: object, assignments: Sequence[Assignment]) -> Assignment:
    """Return the assignment that a notebook names in its metadata or by its file name: a1.ipynb, a1_k_and_v.ipynb."""
    for wanted in (cells.nested(notebook, "metadata", "kmha", "assignment"), path.stem.partition("_")[0]):
        for each in assignments:
            if each.id == wanted:
                return each
    raise ValueError("neither its metadata nor its name says which assignment it is.")
