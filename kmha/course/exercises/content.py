"""The assignments: where they are, and what is in them.

A folder `aN_…` for each, with `assignment.toml` (its title, and the names of its exercises in order), `README.md` (its
opening), and two files for each exercise: the master, `NAME.py`, and `checks/NAME.py`, which defines `EXERCISE`.
"""

import dataclasses
import difflib
import importlib.util
import os
import sys
import sysconfig
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path

from kmha.course.errors import CourseError
from kmha.course.exercises import master
from kmha.course.exercises.exercise import Exercise
from kmha.course.exercises.master import Master

KEPT = ".checks"  # the folder in a released course that stands for that of all assignments
BAKED = ".checks"  # how the file ends that has there what is left of an exercise
_ASSIGNMENTS = "a[0-9]*_*/assignment.toml"


class UnknownExerciseError(CourseError, ValueError):
    """There is no such exercise."""


@dataclasses.dataclass(frozen=True, eq=False)
class Item:
    """An exercise in its place.

    Attributes:
        assignment: such as "a1".
        name: of what is to be written, and of the files.
        folder: of the assignment.
    """

    assignment: str
    name: str
    folder: Path

    @property
    def id(self) -> str:
        return f"{self.assignment}.{self.name}"

    @property
    def released(self) -> bool:
        """Whether it is one of a released course, without its solution (`kmha.course.judging.released`)."""
        return False

    @cached_property
    def master(self) -> Master:
        path = self.folder / f"{self.name}.py"
        return master.parse(path.read_text(encoding="utf-8"), f"{self.folder.name}/{path.name}")

    @cached_property
    def spec(self) -> Exercise:
        """What `checks/NAME.py` defines; that file is the teacher's own, and its code is run."""
        path = self.folder / "checks" / f"{self.name}.py"
        spec = importlib.util.spec_from_file_location(f"kmha_assignments_{self.assignment}_{self.name}", path)
        if spec is None or spec.loader is None or not path.exists():
            raise UnknownExerciseError(f"{self.id} has no {path}.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found = module.EXERCISE
        if not isinstance(found, Exercise):
            raise UnknownExerciseError(
                f"{path}: EXERCISE must be a kmha.course.exercises.exercise.Exercise: {found!r}."
            )
        return found

    @property
    def home(self) -> "Assignment":
        """Its assignment."""
        return next(each for each in assignments(self.folder.parent) if each.folder == self.folder)

    @property
    def beside(self) -> tuple["Item", ...]:
        """All exercises of its assignment."""
        return self.home.items


@dataclasses.dataclass(frozen=True, eq=False)
class Assignment:
    """Some exercises about one thing.

    Attributes:
        id: such as "a1".
        title: of it.
        folder: that it lies in.
        items: its exercises, in order.
    """

    id: str
    title: str
    folder: Path
    items: tuple[Item, ...]

    @property
    def points(self) -> int:
        """Of all its exercises."""
        return sum(item.spec.points for item in self.items)

    @property
    def minutes(self) -> int:
        """That all its exercises are expected to take."""
        return sum(item.spec.minutes for item in self.items)

    @property
    def text(self) -> str:
        """Markdown that it opens with."""
        return (self.folder / "README.md").read_text(encoding="utf-8")


def root() -> Path:
    """The folder of all assignments: of the released course that one is in, or else of kmha."""
    here = Path.cwd()
    kept = (folder / KEPT for folder in (here, *here.parents))
    return next((folder for folder in kept if any(folder.glob(_ASSIGNMENTS))), None) or installed()


def installed() -> Path:
    """The folder of kmha's assignments: beside the package, or where an installation puts its data."""
    beside = Path(__file__).resolve().parents[3] / "assignments"
    shared = Path(sysconfig.get_path("data")) / "share" / "kmha" / "assignments"
    for folder in (beside, shared):
        if folder.is_dir():
            return folder
    raise UnknownExerciseError(f"there are no assignments at {beside} or {shared}: install kmha again.")


@cache
def assignments(folder: Path) -> tuple[Assignment, ...]:
    """All in a folder, in order."""
    return tuple(_assignment(path.parent) for path in sorted(folder.glob(_ASSIGNMENTS)))


def items(folder: Path | None = None) -> Iterator[Item]:
    """All exercises, in order."""
    for assignment in assignments(folder or root()):
        yield from assignment.items


def find(name: str, folder: Path | None = None) -> tuple[Item, ...]:
    """The exercises that are meant by "a1.cross_kv", by "cross_kv", by "a1": all of an assignment, or by a path.

    A path is that of a file or a folder as a learner has them: "a1_k_and_v/cross_kv.py", "a1_k_and_v.ipynb", or "." in
    the folder of an assignment.

    Raises:
        UnknownExerciseError: none; it says which there are.
    """
    every = tuple(items(folder))
    found = tuple(item for item in every if name in (item.id, item.name, item.assignment)) or _at(name, every)
    if found:
        return found
    near = _near(name, every)
    raise UnknownExerciseError(
        f"there is no exercise {name!r}. " + (f"Did you mean {' or '.join(near)}?" if near else "See: kmha course list")
    )


def _at(name: str, every: Sequence[Item]) -> tuple[Item, ...]:
    """Those in the file or the folder at a path; a file's name alone is enough."""
    path = Path(os.path.abspath(name))  # "." has the name of the folder that it is
    if not name or path.suffix not in ("", ".py", ".ipynb"):
        return ()
    if path.suffix != ".py":
        return tuple(item for item in every if item.folder.name == path.stem)
    called = [item for item in every if item.name == path.stem]
    within = tuple(item for item in called if item.folder.name == path.parent.name)
    return within or tuple(item for item in called if name == path.name)


def _near(name: str, every: Sequence[Item]) -> list[str]:
    """Ids that may have been meant: what begins so, then what has it as a part; or else what is spelt much like it."""
    wanted = name.lower()
    if wanted.endswith(".py"):
        path = Path(wanted)
        wanted = ".".join([*path.parent.name.split("_")[:1], path.stem]) if path.parent.name else path.stem
    assignment, _, part = wanted.rpartition(".")
    names = [(text.lower(), item.id) for item in every for text in (item.id, item.name)]
    begins = [(text, id) for text, id in names if len(wanted) > 1 and text.startswith(wanted)]
    begins.sort(key=lambda each: len(each[0]) > len(wanted))  # spelt otherwise only in capitals: first
    within = [(text, id) for text, id in names if len(part) > 2 and part in text]
    within.sort(key=lambda each: not each[1].startswith(f"{assignment}."))
    if assignment and begins:
        within = []
    close = difflib.get_close_matches(wanted, sorted({text for text, _ in names}), n=3, cutoff=0.75)
    spelt = [(text, id) for like in close for text, id in names if text == like]
    return [*dict.fromkeys(id for _, id in begins + within or spelt)][:3]


def _assignment(folder: Path) -> Assignment:
    with (folder / "assignment.toml").open("rb") as file:
        told = tomllib.load(file)
    id = folder.name.partition("_")[0]
    return Assignment(id, told["title"], folder, tuple(_item(id, name, folder) for name in told["exercises"]))


def _item(id: str, name: str, folder: Path) -> Item:
    # In a released course, which may be a stranger's, nothing is run that lies there: what is missing is an error.
    if folder.parent.name != KEPT and not (folder / f"{name}{BAKED}").is_file():
        return Item(id, name, folder)
    from kmha.course.judging.released import Baked

    return Baked(id, name, folder)
