"""The learner's folder: a file for every exercise, and what has been achieved so far.

```
.kmha-course.json     what has been achieved (`kmha.course.learner.progress`)
README.md             what is here, and the commands
a1_k_and_v/           README.md, and a file for each exercise
a1_k_and_v.ipynb      in their place, where one works in notebooks
```

Nothing that a learner wrote is ever overwritten.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kmha import files
from kmha.course.exercises import cells, extras, notebooks
from kmha.course.exercises.content import Assignment, Item
from kmha.course.judging.rendering import count
from kmha.course.learner import guide
from kmha.course.learner.progress import STATE, Progress, WorkspaceError

FILES, NOTEBOOKS = "files", "notebooks"
LARGEST = 4 << 20  # bytes of a learner's file that is read


@dataclasses.dataclass(frozen=True)
class Workspace:
    """A learner's folder.

    Attributes:
        root: the folder.
        form: `FILES` or `NOTEBOOKS`.
    """

    root: Path
    form: str = FILES

    def path(self, item: Item) -> Path:
        """Of the file that has a learner's answer to an exercise."""
        if self.form == NOTEBOOKS:
            return self.root / f"{item.folder.name}.ipynb"
        return self.root / item.folder.name / f"{item.name}.py"

    def code(self, item: Item) -> str:
        """A learner's answer.

        Raises:
            WorkspaceError: the file is not there, or cannot be read.
        """
        path = self.path(item)
        text = _read(path)
        if self.form == FILES:
            return text
        try:
            found = notebooks.sources(cells.notebook(text), item.home)
        except ValueError as error:
            raise WorkspaceError(f"{path}: {error}") from None
        if item.name not in found:
            raise WorkspaceError(f"{path} has no cell for {item.id}: copy it from a folder that is started anew.")
        return found[item.name]

    def others(self, item: Item) -> dict[str, str]:
        """The learner's answers to the other exercises of the assignment that there are, by file names."""
        found = {}
        for other in item.beside:
            with contextlib.suppress(WorkspaceError):
                if other.name != item.name:
                    found[f"{other.name}.py"] = self.code(other)
        return found

    @property
    def progress(self) -> Progress:
        """What has been achieved in it."""
        return Progress(self.root / STATE)

    def fresh(self, item: Item) -> bool:
        """Whether the answer is, to the letter, what was handed out.

        Raises:
            WorkspaceError: the file is not there, or cannot be read.
        """
        if self.form == FILES:
            return self.code(item) == learners(item)
        assignment = item.home
        return self.code(item) == notebooks.sources(notebooks.student(assignment), assignment).get(item.name)

    def reset(self, item: Item) -> Path:
        """Puts the starter in the place of the answer, and returns where that was copied to."""
        path = self.path(item)
        text = _read(path)
        try:
            new = learners(item) if self.form == FILES else cells.replaced(text, item.name, _cell(item))
        except ValueError as error:
            raise WorkspaceError(f"{path}: {error}") from None
        copy = _copy(path)
        files.write_text(path, new)
        self.progress.note(item.id, points=0, passed=False)
        return copy


def start(root: Path, chosen: Sequence[Assignment], form: str | None = None) -> tuple[Workspace, list[Path]]:
    """Makes a learner's folder, or adds to one what is missing in it.

    Args:
        root: the folder.
        chosen: the assignments that it is to have.
        form: `FILES` or `NOTEBOOKS`; by default as the folder is, `FILES` for a new one.

    Returns:
        It, and the files that were added.

    Raises:
        WorkspaceError: the folder is one of the other form.
    """
    progress = Progress(root / STATE)
    known = _form(progress) if progress.path.exists() else None
    if known and form and form != known:
        raise WorkspaceError(f"{root} is a folder of {known}: start the {form} in another folder.")
    workspace = Workspace(root, known or form or FILES)
    added = []
    root.mkdir(parents=True, exist_ok=True)
    if known is None:
        progress.create(workspace.form)
    for path, text in _wanted(workspace, chosen):
        if not os.path.lexists(path):
            path.parent.mkdir(exist_ok=True)
            files.write_text(path, text())
            added.append(path)
    return workspace, added


def find(place: Path) -> Workspace | None:
    """The learner's folder that a place is in."""
    for folder in (place, *place.parents):
        if (folder / STATE).is_file():
            return Workspace(folder, _form(Progress(folder / STATE)))
    return None


def learners(item: Item) -> str:
    """The file that a learner gets: the text as comments, and the starter."""
    worth = f"{count(item.spec.points)}, about {item.spec.minutes} minutes"
    foot = f"**Check it** with `kmha course check {item.id}`: {worth}."
    text = "\n".join(f"# {line}".rstrip() for line in [*item.master.text.splitlines(), "", foot])
    return f"# %% [markdown]\n{text}\n\n# %%\n{item.master.starter}"


def _form(progress: Progress) -> str:
    form = progress.form()
    if form not in (FILES, NOTEBOOKS):
        raise WorkspaceError(f"{progress.path}: expected the form {FILES!r} or {NOTEBOOKS!r}. Received: {form!r}.")
    return str(form)


def _wanted(workspace: Workspace, chosen: Sequence[Assignment]) -> Iterator[tuple[Path, Any]]:
    """All files of a learner's folder, each with a function that makes its text."""
    if not any(item.released for assignment in chosen for item in assignment.items):  # that one has its own above
        places = {workspace.path(each.items[0]): each for each in chosen if each.items}
        yield workspace.root / "README.md", lambda: guide.text(places, notebooks=workspace.form == NOTEBOOKS)
    for assignment in chosen:
        if workspace.form == NOTEBOOKS:
            yield workspace.path(assignment.items[0]), lambda assignment=assignment: _notebook(assignment)
            continue
        yield workspace.root / assignment.folder.name / "README.md", lambda assignment=assignment: assignment.text
        for item in assignment.items:
            yield workspace.path(item), lambda item=item: learners(item)


def _notebook(assignment: Assignment) -> str:
    return str(extras.load("nbformat").writes(notebooks.student(assignment))) + "\n"


def _cell(item: Item) -> str:
    """The cell with the starter as a notebook has it."""
    return next(
        str(cell["source"]) for cell in notebooks.student(item.home)["cells"] if cells.grade_id(cell) == item.name
    )


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise WorkspaceError(f"{path} has more than {LARGEST >> 20} MiB: an answer is a few lines.")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WorkspaceError(f"{path} is missing. `kmha course start` puts it there again, and nothing else.") from None
    except UnicodeDecodeError as error:
        raise WorkspaceError(f"{path} is not UTF-8, from byte {error.start} on: save it with that encoding.") from None
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be read: {error.strerror}.") from None


def _copy(path: Path) -> Path:
    """A copy beside it, under the first number that is free."""
    number = 1
    while True:
        copy = path.with_name(f"{path.name}.bak-{number}")
        try:
            with copy.open("xb") as file:
                file.write(path.read_bytes())
        except FileExistsError:
            number += 1
        else:
            return copy
