"""A learner's folder: a file for each exercise, and a record of progress.

```
.kmha-course.json     the record of progress (`kmha.course.learner.progress`)
README.md             a guide to the folder and the commands
a1_k_and_v/           README.md, and a file for each exercise
a1_k_and_v.ipynb      a notebook instead, in a folder of notebooks
```

Nothing that a learner wrote is ever overwritten.
"""

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from kmha import atomic_files
from kmha.course.exercises import cells, handout, notebooks
from kmha.course.exercises.content import Assignment, Item, around
from kmha.course.exercises.handout import FILES, NOTEBOOKS, STATE
from kmha.course.learner.progress import Progress, WorkspaceError
from kmha.regular_files import MAX_BYTES, open_regular


@dataclasses.dataclass(frozen=True)
class Workspace:
    """A learner's folder.

    Attributes:
        root: Path of the folder.
        form: `FILES` or `NOTEBOOKS`.
    """

    root: Path
    form: str = FILES

    def path(self, item: Item) -> Path:
        """Return the path of the file that contains the answer to an exercise."""
        return handout.answer_path(self.root, self.form, item)

    def code(self, item: Item) -> str:
        """Return the learner's answer.

        Raises:
            WorkspaceError: The file is missing or cannot be read.
        """
        path = self.path(item)
        text = self._read(path)
        if self.form == FILES:
            return text
        try:
            found = notebooks.answers(cells.load_notebook(text), item.parent)
        except ValueError as error:
            raise WorkspaceError(f"{path}: {error}") from None
        if item.name not in found:
            raise WorkspaceError(
                f"{path} has no cell for {item.id}. Run `kmha course start --notebooks` in a new folder and copy the "
                "cell from there."
            )
        return found[item.name]

    def others(self, item: Item) -> dict[str, str]:
        """Return the learner's other answers in the same assignment, keyed by file name."""
        found = {}
        for other in item.parent.items:
            with contextlib.suppress(WorkspaceError):
                if other.name != item.name:
                    found[f"{other.name}.py"] = self.code(other)
        return found

    @property
    def progress(self) -> Progress:
        return Progress(self.root / STATE)

    def is_pristine(self, item: Item) -> bool:
        """Return whether the answer (`code`) is, character for character, what was handed out."""
        if self.form == FILES:
            return self.code(item) == handout.starter_file(item)
        assignment = item.parent
        return self.code(item) == notebooks.answers(notebooks.student(assignment), assignment).get(item.name)

    def reset(self, item: Item) -> Path:
        """Replace the answer with the starter, and return the path of a copy of the answer."""
        path = self.path(item)
        text = self._read(path)
        try:
            new = handout.starter_file(item) if self.form == FILES else cells.replace_cell(text, item.name, _cell(item))
        except ValueError as error:
            raise WorkspaceError(f"{path}: {error}") from None
        copy = _copy(path)
        atomic_files.write_text(path, new)
        self.progress.update(item.id, points=0, passed=False)
        return copy

    def _read(self, path: Path) -> str:
        try:
            handout.check_inside(self.root, path)
            with open_regular(path, follow=True) as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise WorkspaceError(f"{path} has more than {MAX_BYTES >> 20} MiB. An answer is a few lines.")
            return data.decode().replace("\r\n", "\n").replace("\r", "\n")
        except handout.OutsideError as error:
            raise WorkspaceError(str(error)) from None
        except FileNotFoundError:
            raise WorkspaceError(f"{path} is missing. Run `kmha course start` to restore missing files.") from None
        except UnicodeDecodeError as error:
            reason = f"is not valid UTF-8 at byte {error.start}. Save it in that encoding."
            raise WorkspaceError(f"{path} {reason}") from None
        except OSError as error:
            raise WorkspaceError(f"{path} cannot be read: {error.strerror}.") from None


def start(root: Path, assignments: Sequence[Assignment], form: str | None = None) -> tuple[Workspace, list[Path]]:
    """Make a learner's folder, or add the files that an existing folder lacks.

    Args:
        root: Path of the folder.
        assignments: The assignments to put in it.
        form: `FILES` or `NOTEBOOKS`. Default: the form of an existing folder, and `FILES` for a new folder.

    Returns:
        The folder, and the files that were added.

    Raises:
        WorkspaceError: The folder exists in the other form.
    """
    known = _form(Progress(root / STATE)) if (root / STATE).exists() else None
    if known and form and form != known:
        raise WorkspaceError(f"{root} is a folder of {known}. Start the {form} in another folder.")
    workspace = Workspace(root, known or form or FILES)
    return workspace, handout.write_missing(root, workspace.form, assignments)


def find(place: Path) -> Workspace | None:
    """Return the learner's folder that contains a path, or `None`."""
    found = next((path for path in around(place, STATE) if os.path.isfile(path)), None)
    return None if found is None else Workspace(found.parent, _form(Progress(found)))


def _form(progress: Progress) -> str:
    form = progress.form()
    if form not in (FILES, NOTEBOOKS):
        raise WorkspaceError(f"{progress.path}: expected the form {FILES!r} or {NOTEBOOKS!r}. Received: {form!r}.")
    return str(form)


def _cell(item: Item) -> str:
    """Return the notebook cell that contains the starter."""
    return next(
        str(cell["source"]) for cell in notebooks.student(item.parent)["cells"] if cells.grade_id(cell) == item.name
    )


def _copy(path: Path) -> Path:
    """Copy a file to `NAME.bak-N` beside it, with the first free number N."""
    number = 0
    while True:
        number += 1
        copy = path.with_name(f"{path.name}.bak-{number}")
        with contextlib.suppress(FileExistsError), copy.open("xb") as file:
            file.write(path.read_bytes())
            return copy
