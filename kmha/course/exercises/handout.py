"""The files that a learner starts with: texts, starters, a guide to the folder, and an empty record of progress."""

import ast
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

from kmha import atomic_files
from kmha.course.errors import CourseError
from kmha.course.exercises import extras, notebooks
from kmha.course.exercises.cells import syntax_tree
from kmha.course.exercises.content import Assignment, Item

FILES, NOTEBOOKS = "files", "notebooks"
STATE = ".kmha-course.json"
LONGEST = 64 << 10  # characters. A longer text is no starter, and comparing it may take seconds

_FILES_INTRO = """Each folder is an assignment. Its README.md explains the topic, and every other file is an exercise.
Read the text at the top of the file, then write the missing code below it."""
_NOTEBOOKS_INTRO = """Each notebook is an assignment. Read the text above an exercise, write the missing code, and check
it: run the cell below it, or use the commands."""
_GUIDE = """# Learn attention by writing it

{intro} Begin with the first:

| | topic | exercises | points | minutes |
| --- | --- | ---: | ---: | ---: |
{rows}

Unless a text says otherwise, an answer must not change the arrays that it gets: make new ones instead.

Run these commands in this folder:

```
kmha course check      # check the first exercise that you have not passed, or name one: kmha course check {first}
kmha course watch      # check an answer every time you save it
kmha course hint       # get a hint; each exercise has three
kmha course list       # list all exercises and show which you have passed
kmha course progress   # show how far you are
kmha course solution   # show the solution of the exercise that you passed last, or of one that you name
```

`kmha course reset {first}` restores the starter and keeps a copy of what you wrote. `kmha course start` restores
missing files and never overwrites one.
"""


class OutsideError(CourseError, ValueError):
    """A file of a learner's folder is outside of it."""


def write_missing(root: Path, form: str, assignments: Sequence[Assignment]) -> list[Path]:
    """Write the files that a learner's folder lacks. Existing files are never overwritten.

    Args:
        root: The learner's folder, which is created if necessary.
        form: `FILES` or `NOTEBOOKS`.
        assignments: The assignments to write.

    Returns:
        The files written, apart from the record of progress.

    Raises:
        OutsideError: A file would be outside of the folder, because a link leads there.
    """
    root.mkdir(parents=True, exist_ok=True)
    if not (root / STATE).exists():
        check_inside(root, root / STATE)
        write_state(root / STATE, form)
    written = []
    for path, text in _contents(root, form, assignments):
        if not os.path.lexists(path):
            path.parent.mkdir(exist_ok=True)
            check_inside(root, path)
            atomic_files.write_text(path, text())
            written.append(path)
    return written


def check_inside(root: Path, path: Path) -> None:
    """Check that a file is inside a learner's folder, which may come from someone who is not trusted.

    Raises:
        OutsideError: A link leads outside of the folder.
    """
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise OutsideError(f"{path} is neither read nor written, because a link leads out of {root}. Remove the link.")


def write_state(path: Path, form: str) -> None:
    """Write an empty record of progress."""
    atomic_files.write_json(path, {"version": 1, "form": form, "exercises": {}, "said": []})


def answer_path(root: Path, form: str, item: Item) -> Path:
    """Return the path of the file in a learner's folder that contains the answer to an exercise."""
    if form == NOTEBOOKS:
        return root / f"{item.folder.name}.ipynb"
    return root / item.folder.name / f"{item.name}.py"


def starter_file(item: Item) -> str:
    """Return the content of the file that a learner gets for an exercise: its text as comments, then the starter."""
    points = f"{item.spec.points} point{'s' * (item.spec.points != 1)}"
    footer = f"**Check it** with `kmha course check {item.id}`: {points}, about {item.spec.minutes} minutes."
    text = "\n".join(f"# {line}".rstrip() for line in [*item.master.text.splitlines(), "", footer])
    return f"# %% [markdown]\n{text}\n\n# %%\n{item.master.starter}"


def is_starter(code: str, item: Item) -> bool:
    """Return whether an answer is still the starter, ignoring comments and whitespace."""
    found = _digest(code) if len(code) <= LONGEST else ""
    return found != "" and found == _digest(item.master.starter)


@lru_cache(256)  # one file can answer many exercises
def _digest(code: str) -> str:
    """Return a hash of the syntax tree of a text, or "" if it has none, or expressions too deep to be printed."""
    tree = syntax_tree(code)
    try:
        return hashlib.sha256(ast.dump(tree).encode()).hexdigest() if tree is not None else ""
    except (RecursionError, MemoryError):
        return ""


def guide(places: Mapping[Path, Assignment], form: str) -> str:
    """Return the README.md of a learner's folder, as Markdown.

    Args:
        places: The assignments in order, keyed by the path of one of their answers (`answer_path`).
        form: `FILES` or `NOTEBOOKS`.
    """
    rows = []
    for path, each in places.items():
        name = path.name if form == NOTEBOOKS else path.parent.name
        rows.append(f"| [{name}]({name}) | {each.title} | {len(each.items)} | {each.points} | {each.minutes} |")
    first = next((each.items[0].id for each in places.values()), "a1")
    intro = _NOTEBOOKS_INTRO if form == NOTEBOOKS else _FILES_INTRO
    return _GUIDE.format(intro=intro, rows="\n".join(rows), first=first)


def _contents(root: Path, form: str, assignments: Sequence[Assignment]) -> Iterator[tuple[Path, Callable[[], str]]]:
    """Yield the path of each file in a learner's folder, with a function that makes its text."""
    # A released course has its own README.md, one folder up.
    if not any(item.released for assignment in assignments for item in assignment.items):
        places = {answer_path(root, form, each.items[0]): each for each in assignments if each.items}
        yield root / "README.md", partial(guide, places, form)
    for assignment in assignments:
        if form == NOTEBOOKS:
            for item in assignment.items[:1]:
                yield answer_path(root, form, item), partial(_notebook, assignment)
            continue
        yield root / assignment.folder.name / "README.md", partial(getattr, assignment, "text")
        for item in assignment.items:
            yield answer_path(root, form, item), partial(starter_file, item)


def _notebook(assignment: Assignment) -> str:
    return str(extras.load("nbformat").writes(notebooks.student(assignment))) + "\n"
