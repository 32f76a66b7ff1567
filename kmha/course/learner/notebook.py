"""Check an answer that is written in the cells of a notebook."""

import atexit
import dataclasses
import sys
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from kmha.course.exercises import cells, content, extras
from kmha.course.exercises.content import Item, UnknownExerciseError
from kmha.course.exercises.handout import is_starter
from kmha.course.judging import rendering
from kmha.course.judging.marking import Grade
from kmha.course.judging.pipeline import judge
from kmha.course.learner import workspace
from kmha.course.learner.checking import fresh_seed
from kmha.sandbox.sandbox import Pool

STARTER = "This is still the starter, as it was handed out. Read the text and write the missing code in its cell."


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NotebookGrade:
    """A grade that a notebook displays.

    Attributes:
        title: Title of the exercise.
        grade: Grade of the answer.
        seed: Seed that draws the same inputs again.
        is_starter: Whether the answer is still the starter.
    """

    title: str
    grade: Grade
    seed: int
    is_starter: bool = False

    @property
    def passed(self) -> bool:
        return self.grade.passed

    @property
    def points(self) -> int:
        return self.grade.points

    def show(self) -> int:
        """Display the grade, and return its points. nbgrader counts the number that a cell ends with."""
        extras.load("IPython").display.display(self)
        return self.points

    def __repr__(self) -> str:
        if self.is_starter:
            return f"{rendering.headline(self.title, self.grade)}\n\n{STARTER}"
        return rendering.text(self.title, self.grade, self.seed)

    def _repr_html_(self) -> str:
        if self.is_starter:
            return f"<p><b>{escape(rendering.headline(self.title, self.grade))}</b></p><p>{STARTER}</p>"
        return rendering.page(self.title, self.grade, self.seed)


def check(name: str, seed: int | None = None) -> NotebookGrade:
    """Check the function or class that the cells of this notebook define.

    Args:
        name: Name of the exercise: "a1.cross_kv".
        seed: Seed of the inputs. Default: a random seed.

    Raises:
        UnknownExerciseError: No exercise has this name, or more than one does.
        ValueError: No cell that was run defines the function or class.
    """
    found = content.find(name)
    if len(found) > 1:
        ids = ", ".join(item.id for item in found)
        raise UnknownExerciseError(f"{name!r} matches {len(found)} exercises: {ids}. Name one.")
    (item,), sources = found, _sources()
    code = _answer(item, sources)
    if code is None:
        raise ValueError(f"no cell that was run defines `{item.name}`. Run the cell with your answer, then this one.")
    drawn, seed = seed is None, _seed() if seed is None else seed
    others = {f"{other.name}.py": _answer(other, sources) for other in item.needs}
    files = {name: text for name, text in others.items() if text is not None}
    unwritten = _is_starter(code, item)
    sandbox = _pool().get(item.spec.uses)
    grade = judge(item, code, sandbox, seed=seed, files=files, tell=lambda _: None)
    if drawn and grade.passed and not item.released:
        seed = fresh_seed()
        grade = judge(item, code, sandbox, seed=seed, files=files)
    folder = workspace.find(Path.cwd())
    if folder is not None and not unwritten:
        folder.progress.add_attempt(item.id, grade.points, grade.passed)
    return NotebookGrade(item.spec.title, grade, seed, unwritten)


def _is_starter(code: str, item: Item) -> bool:
    """Return whether an answer from cells is still the starter. Cells lack the imports that the answer does not use."""
    return is_starter(code, item) or code == _answer(item, [item.master.starter])


def _answer(item: Item, sources: list[str]) -> str | None:
    return cells.gather(sources, item.name, *cells.defined_names(item.master.starter))


def _sources() -> list[str]:
    """Return the cells that were run, in order, or the text of a script."""
    main: Any = sys.modules["__main__"]
    history = getattr(main, "In", None)
    if isinstance(history, list):
        return [str(cell) for cell in history]
    path = getattr(main, "__file__", None)
    if path is None:
        raise ValueError("there are no notebook cells here. Call `check` in a notebook, or run `kmha course check`.")
    return [Path(path).read_text(encoding="utf-8")]


@cache
def _seed() -> int:
    """Draw the seed of this notebook: the results of the solution and of known wrong answers are then computed once."""
    return fresh_seed()


@cache
def _pool() -> Pool:
    pool = Pool()
    atexit.register(pool.close)
    return pool
