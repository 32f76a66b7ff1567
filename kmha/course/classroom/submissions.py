"""What a class handed in: a folder of submissions, each a folder, a .zip, or a single notebook.

An answer is a file with the exercise's name in a folder of the assignment, `a1_k_and_v/cross_kv.py`; where the folder
has another name, the file's tells. Or it is in a notebook of the assignment, `a1.ipynb`. Where there are both, what is
not the starter counts, and of two the file.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from kmha.course.classroom.unpacking import Entry, LeftOutError, entries
from kmha.course.errors import CourseError
from kmha.course.exercises import notebooks
from kmha.course.exercises.content import Assignment, Item
from kmha.course.exercises.handout import is_starter

CODE, NOTEBOOK = 256 << 10, 16 << 20  # bytes of a file that is read
NOTEBOOKS = 40  # that are looked at: what an answer uses is looked for in all cells, which takes a second
TOTAL = 64 << 20  # bytes that are read of a submission
SAID = 20  # files left out that are named


class SubmissionsError(CourseError, ValueError):
    """The folder of submissions is not one."""


@dataclasses.dataclass(frozen=True)
class Submission:
    """What one student handed in.

    Attributes:
        id: the name of the folder or file.
        answers: code by the ids of exercises.
        notes: what was left out, and why.
    """

    id: str
    answers: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Of all that is in it."""
        content = json.dumps([self.id, sorted(self.answers.items()), self.notes])
        return hashlib.sha256(content.encode()).hexdigest()


def places(folder: Path) -> dict[str, Path]:
    """The submissions in a folder by their ids, in order.

    Raises:
        SubmissionsError: it is no folder, or holds none.
    """
    if not folder.is_dir():
        raise SubmissionsError(f"{folder} is no folder: name the one that holds a folder or .zip for each student.")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        single = path.is_file() and path.suffix.lower() in (".zip", ".ipynb")
        if path.name.startswith((".", "__MACOSX")) or path.is_symlink() or not (path.is_dir() or single):
            continue
        id = clean(path.stem if single else path.name)
        while id in found:  # anna and anna.zip are two
            id += path.suffix if single and not id.endswith(path.suffix) else "+"
        found[id] = path
    if not found:
        raise SubmissionsError(f"{folder} holds no submissions: expected a folder, .zip or .ipynb for each student.")
    return dict(sorted(found.items()))


def read(id: str, path: Path, assignments: Sequence[Assignment]) -> Submission:
    """One submission; what cannot be read is noted, and is no error."""
    reader = _Reader(assignments)
    with ExitStack() as opened:
        for entry in _in_order(entries(path, reader.note, opened), assignments):
            reader.take(entry)
    return Submission(id, reader.answers(), tuple(reader.notes))


def clean(text: str) -> str:
    """Without what a terminal would take for a command, and without half characters."""
    text = text.encode(errors="replace").decode()
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


class _Reader:
    """Of one submission."""

    def __init__(self, assignments: Sequence[Assignment]) -> None:
        self.assignments = assignments
        self.items = {item.id: item for each in assignments for item in each.items}
        self.of_files: dict[str, str] = {}
        self.of_notebooks: dict[str, str] = {}
        self.notes: list[str] = []
        self.left, self.left_notebooks = TOTAL, NOTEBOOKS

    def note(self, says: str) -> None:
        """Says what is left out; not without end."""
        if len(self.notes) < SAID:
            self.notes.append(clean(says)[:300])
        elif len(self.notes) == SAID:
            self.notes.append("… and more.")

    def take(self, entry: Entry) -> None:
        """Reads a file, if it may be an answer."""
        item = _exercise(entry.path, self.assignments)
        try:
            if item is not None:
                if item.id in self.of_files:
                    raise LeftOutError(f"there is another file for {item.id}.")
                self.of_files[item.id] = self._text(entry, CODE)
            elif entry.path.suffix.lower() == ".ipynb":
                self._take_notebook(entry)
        except LeftOutError as why:
            self.note(f"{entry.path} is left out: {why}")

    def answers(self) -> dict[str, str]:
        """Those of files and of notebooks."""
        found = dict(self.of_files)
        for id, code in self.of_notebooks.items():
            item = self.items[id]
            if id not in found or is_starter(found[id], item):
                found[id] = code
            elif not is_starter(code, item):
                self.note(f"{id} has an answer in a file and one in a notebook: that of the file counts.")
        return {id: found[id] for id in self.items if id in found}

    def _text(self, entry: Entry, most: int) -> str:
        data = entry.read(min(most, self.left) + 1)
        if len(data) > min(most, self.left):
            raise LeftOutError("it is too large.")
        self.left -= len(data)
        return data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")

    def _take_notebook(self, entry: Entry) -> None:
        if not self.left_notebooks:
            raise LeftOutError(f"there are more than {NOTEBOOKS} notebooks.")
        self.left_notebooks -= 1
        text = self._text(entry, NOTEBOOK)
        try:
            notebook = json.loads(text)
            assignment = _assignment(entry.path, notebook, self.assignments)
            found = notebooks.sources(notebook, assignment)
        except (ValueError, RecursionError) as error:
            raise LeftOutError(str(error)) from None
        for name, code in found.items():
            id = f"{assignment.id}.{name}"
            before = self.of_notebooks.get(id)
            if len(code.encode()) > CODE:
                self.note(f"{entry.path}: {id} is left out: it is too large.")
            elif before is None or is_starter(before, self.items[id]):
                self.of_notebooks[id] = code
            elif not is_starter(code, self.items[id]):
                self.note(f"{entry.path}: {id} is left out: it is in another notebook, too.")


def _in_order(found: Iterator[Entry], assignments: Sequence[Assignment]) -> list[Entry]:
    """Those that lie in the folder of an assignment first, so that they count."""
    folders = {each.id for each in assignments}
    return sorted(found, key=lambda entry: entry.path.parent.name.partition("_")[0] not in folders)


def _exercise(path: PurePosixPath, assignments: Sequence[Assignment]) -> Item | None:
    """The exercise that a file is an answer to: by its folder, or, where that tells nothing, by its name."""
    if path.suffix != ".py":
        return None
    among = [item for each in assignments for item in each.items if item.name == path.stem]
    folder = path.parent.name.partition("_")[0]
    return next((item for item in among if item.assignment == folder), among[0] if len(among) == 1 else None)


def _assignment(path: PurePosixPath, notebook: object, assignments: Sequence[Assignment]) -> Assignment:
    """As the notebook says, or its name: a1.ipynb, a1_k_and_v.ipynb."""
    told: object = notebook
    for key in ("metadata", "kmha", "assignment"):
        told = told.get(key) if isinstance(told, dict) else None
    for wanted in (told, path.stem.partition("_")[0]):
        for each in assignments:
            if each.id == wanted:
                return each
    raise ValueError("it does not say of which assignment it is.")
