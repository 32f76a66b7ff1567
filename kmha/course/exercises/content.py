"""Find the assignments and read their exercises.

Each assignment is a folder `aN_…` with `assignment.toml` (its title, and the names of its exercises in order),
`README.md` (its introduction), and two files for each exercise: the master, `NAME.py`, and `checks/NAME.py`, which
defines `EXERCISE`. In a released course, one file per exercise replaces these two files (`ReleasedItem`).
"""

import contextlib
import dataclasses
import difflib
import hashlib
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from kmha.course.errors import CourseError
from kmha.course.exercises import master, records
from kmha.course.exercises.exercise import Check, Exercise, Inputs
from kmha.course.exercises.master import Master
from kmha.regular_files import MAX_BYTES, read_regular
from kmha.sandbox.control_characters import visible
from kmha.sandbox.encoding import LARGEST, EncodingError, decode
from kmha.toml_files import read_toml

RELEASED_FOLDER = ".checks"  # the folder in a released course that contains its assignments
RELEASED_SUFFIX = ".checks"  # suffix of an exercise's file in that folder
RELEASED_VERSION = 1  # version of the format of that file
EXERCISE_FIELDS = ("title", "question", "difficulty", "minutes", "uses", "needs", "forbids", "seconds")
CHECK_FIELDS = ("layer", "says", "points", "times", "tolerance")
_ASSIGNMENTS = "a[0-9]*_*/assignment.toml"
_FOLDER = re.compile(r"a[0-9]+_[\w.-]+")
_LONGEST_TITLE = 200  # characters


class UnknownExerciseError(CourseError, ValueError):
    """The exercise does not exist, or cannot be read."""


@dataclasses.dataclass(frozen=True, eq=False)
class Item:
    """An exercise as part of an assignment.

    Attributes:
        assignment: Id of the assignment, such as "a1".
        name: Name of the function or class to write, and of the exercise's files.
        folder: Folder of the assignment.
        released: Whether the exercise is part of a released course, which does not contain the solution.
    """

    assignment: str
    name: str
    folder: Path
    released: ClassVar[bool] = False

    @property
    def id(self) -> str:
        return f"{self.assignment}.{self.name}"

    @property
    def all_points(self) -> int:
        """The points of all checks, including those that are not in a released course."""
        return self.spec.points

    @cached_property
    def master(self) -> Master:
        path = self.folder / f"{self.name}.py"
        return master.parse(path.read_text(encoding="utf-8"), f"{self.folder.name}/{path.name}")

    @cached_property
    def spec(self) -> Exercise:
        """The `EXERCISE` of `checks/NAME.py`. This imports the file, which is the teacher's own code."""
        path = self.folder / "checks" / f"{self.name}.py"
        # Two open courses can have exercises with the same id.
        course = hashlib.sha256(str(self.folder.resolve()).encode()).hexdigest()[:12]
        spec = importlib.util.spec_from_file_location(f"kmha_assignments_{course}_{self.assignment}_{self.name}", path)
        if spec is None or spec.loader is None or not path.exists():
            raise UnknownExerciseError(f"{self.id} has no {path}.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        found = module.EXERCISE
        if not isinstance(found, Exercise):
            raise UnknownExerciseError(
                f"{path}: EXERCISE must be a `kmha.course.exercises.Exercise`. Received: {found!r}."
            )
        return found

    @property
    def parent(self) -> "Assignment":
        return next(each for each in assignments(self.folder.parent) if each.folder == self.folder)

    @property
    def needs(self) -> tuple["Item", ...]:
        """The exercises whose files an answer imports, directly or not. Each exercise comes after those it imports."""
        return self._needed(())

    def _needed(self, around: tuple[str, ...]) -> tuple["Item", ...]:
        if self.name in around:
            raise UnknownExerciseError(f"{self.id} needs itself, directly or not. Download the course again.")
        found: dict[str, Item] = {}
        for name in self.spec.needs:
            other = dataclasses.replace(self, name=name)
            found |= {each.name: each for each in (*other._needed((*around, self.name)), other)}
        return tuple(found.values())


@dataclasses.dataclass(frozen=True, eq=False)
class ReleasedItem(Item):
    """An exercise of a released course. It has the visible checks, and the starter instead of the solution.

    Its file is a record (`kmha.sandbox.encoding`) that `kmha.course.judging.released.write` made, without any code.
    """

    released: ClassVar[bool] = True

    @cached_property
    def record(self) -> Mapping[str, Any]:
        path = self.folder / f"{self.name}{RELEASED_SUFFIX}"
        try:
            record = _visible(decode(_read(path, LARGEST)))
            versioned = isinstance(record, Mapping) and isinstance(record.get("version"), int)
            problem = None if versioned else "it has no version"
        except EncodingError as error:
            problem = str(error)
        if problem is None and record["version"] != RELEASED_VERSION:
            raise UnknownExerciseError(f"{path} was made by another version of kmha. Run: pip install --upgrade kmha")
        if problem := problem or records.problem(record):
            raise UnknownExerciseError(f"{path} cannot be read: {problem}. Download the course again.")
        return dict(record)

    @cached_property
    def master(self) -> Master:
        record = self.record
        return Master(record["text"], record["starter"], tuple(record["hints"]))

    @cached_property
    def spec(self) -> Exercise:
        """The exercise with its visible checks, but without their judges and without wrong answers."""
        checks = tuple(
            Check(**{name: check[name] for name in CHECK_FIELDS}, draw=_recorded) for check in self.record["checks"]
        )
        return Exercise(checks=checks, wrong=(), **{name: self.record[name] for name in EXERCISE_FIELDS})

    @property
    def all_points(self) -> int:
        return int(self.record["all_points"])


def _visible(value: Any) -> Any:
    """Write out the characters in a record that a terminal would obey. A released course may be untrusted."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(key): _visible(each) for key, each in value.items()}
    return type(value)(map(_visible, value)) if isinstance(value, list | tuple) else value


def _recorded(rng: Any) -> Inputs:
    raise ValueError("the inputs of a released exercise are recorded, and cannot be drawn.")


@dataclasses.dataclass(frozen=True, eq=False)
class Assignment:
    """Several exercises on one subject, in order. Its id is, for example, "a1"."""

    id: str
    title: str
    folder: Path
    items: tuple[Item, ...]

    @property
    def points(self) -> int:
        return sum(item.spec.points for item in self.items)

    @property
    def minutes(self) -> int:
        return sum(item.spec.minutes for item in self.items)

    @property
    def text(self) -> str:
        """The introduction of the assignment, in Markdown."""
        return _read(self.folder / "README.md").decode(errors="replace").replace("\r\n", "\n")


def root() -> Path:
    """Return the folder of all assignments: a released course around the current folder, or kmha's own."""
    return next((folder for folder in around(Path.cwd(), RELEASED_FOLDER) if _folders(folder)), None) or installed()


def around(place: Path, name: str) -> Iterator[Path]:
    """Yield the files or folders with a name in a folder and in those around it, the nearest first.

    Those of other users are left out, but not in the place's own folders: anyone can write to /tmp.
    """
    folders = (place, *place.parents)
    own = next(folder for folder in folders if folder.exists())
    trusted = {0, own.stat().st_uid, os.getuid() if hasattr(os, "getuid") else 0}
    for folder in folders:
        with contextlib.suppress(OSError):  # it does not exist, or cannot be read
            if (folder / name).lstat().st_uid in trusted:
                yield folder / name


def installed() -> Path:
    """Return the folder of kmha's own assignments: beside the package, or where an installation puts its data."""
    beside = Path(__file__).resolve().parents[3]
    shared = Path("share", "kmha", "assignments")
    # `pip install --target` puts data beside the package, and `--user` and `--prefix` where pip's record says.
    for folder in (beside / "assignments", beside / shared, *_of_record(shared), sysconfig.get_path("data") / shared):
        if folder.is_dir():
            return folder
    raise UnknownExerciseError(
        f"there are no assignments in {beside / 'assignments'} or {sysconfig.get_path('data') / shared}. "
        "Install kmha again."
    )


def _of_record(shared: Path) -> Iterator[Path]:
    """Yield the folder of the assignments in the list of files that pip installed."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("kmha") or ():
            if file.parts[-4:] == (*shared.parts, "README.md"):
                yield Path(str(file.locate())).parent.resolve()


@cache
def assignments(folder: Path) -> tuple[Assignment, ...]:
    """Return the assignments in a folder, in order."""
    return tuple(map(_assignment, _folders(folder)))


def items(folder: Path | None = None) -> Iterator[Item]:
    """Yield all exercises, in order."""
    for assignment in assignments(folder or root()):
        yield from assignment.items


def find(name: str, folder: Path | None = None) -> tuple[Item, ...]:
    """Return the exercises that a name stands for.

    Args:
        name: An id ("a1.cross_kv"), a name ("cross_kv"), an assignment ("a1"), or the path of a learner's file or
            folder ("a1_k_and_v/cross_kv.py", "a1_k_and_v.ipynb", or "." in the folder of an assignment).
        folder: Folder of all assignments. Default: `root()`.

    Raises:
        UnknownExerciseError: No exercise has this name. The message suggests similar names.
    """
    every = tuple(items(folder))
    found = tuple(item for item in every if name in (item.id, item.name, item.assignment)) or _at_path(name, every)
    if found:
        return found
    similar = _similar(name, every)
    advice = f"Did you mean {' or '.join(similar)}?" if similar else "To see all exercises, run: kmha course list"
    raise UnknownExerciseError(f"there is no exercise {name!r}. {advice}")


def _at_path(name: str, every: Sequence[Item]) -> tuple[Item, ...]:
    """Return the exercises in the file or folder at a path. The bare name of a file is enough."""
    path = Path(os.path.abspath(name))  # resolves "."
    if not name or path.suffix not in ("", ".py", ".ipynb"):
        return ()
    if path.suffix != ".py":
        return tuple(item for item in every if item.folder.name == path.stem)
    same_name = [item for item in every if item.name == path.stem]
    same_folder = tuple(item for item in same_name if item.folder.name == path.parent.name)
    return same_folder or tuple(item for item in same_name if name == path.name)


def _similar(name: str, every: Sequence[Item]) -> list[str]:
    """Return up to three ids: ids that begin with the name, then ids that contain it, or else ids spelt alike."""
    wanted = name.lower()
    if wanted.endswith(".py"):
        path = Path(wanted)
        wanted = ".".join([*path.parent.name.split("_")[:1], path.stem]) if path.parent.name else path.stem
    assignment, _, part = wanted.rpartition(".")
    names = [(text.lower(), item.id) for item in every for text in (item.id, item.name)]
    begins = [(text, id) for text, id in names if len(wanted) > 1 and text.startswith(wanted)]
    begins.sort(key=lambda each: len(each[0]) > len(wanted))  # names that differ only in case come first
    contains = [(text, id) for text, id in names if len(part) > 2 and part in text]
    contains.sort(key=lambda each: not each[1].startswith(f"{assignment}."))
    if assignment and begins:
        contains = []
    close = difflib.get_close_matches(wanted, sorted({text for text, _ in names}), n=3, cutoff=0.75)
    spelt = [(text, id) for match in close for text, id in names if text == match]
    return [*dict.fromkeys(id for _, id in begins + contains or spelt)][:3]


def _folders(folder: Path) -> list[Path]:
    """Return the folders of the assignments in a folder, in order."""
    return [path.parent for path in sorted(folder.glob(_ASSIGNMENTS)) if _FOLDER.fullmatch(path.parent.name)]


def _read(path: Path, most: int = MAX_BYTES) -> bytes:
    """Read a file of an assignment, which may be untrusted."""
    try:
        return read_regular(path, most)
    except OSError as error:
        raise UnknownExerciseError(f"{path} cannot be read: {error.strerror}. Download the course again.") from None


def _assignment(folder: Path) -> Assignment:
    path = folder / "assignment.toml"
    try:
        settings = read_toml(path)
    except (OSError, ValueError) as error:
        says = visible(str(error.strerror if isinstance(error, OSError) else error))
        raise UnknownExerciseError(f"{path} cannot be read: {says}. Download the course again.") from None
    title, names = settings.get("title"), settings.get("exercises")
    # The names are names of files too, and a released course may be untrusted.
    named = isinstance(names, list) and all(isinstance(name, str) and name.isidentifier() for name in names)
    if not named or not isinstance(title, str):
        raise UnknownExerciseError(
            f"{path}: expected a `title`, and `exercises`, a list of names of functions and classes. "
            f"Received: {visible(repr(settings))[:_LONGEST_TITLE]}."
        )
    id = folder.name.partition("_")[0]
    found: list[Item] = []
    for name in names or ():
        # No code in a released course is run, even if a record is missing there.
        released = folder.parent.name == RELEASED_FOLDER or (folder / f"{name}{RELEASED_SUFFIX}").is_file()
        found.append((ReleasedItem if released else Item)(id, name, folder))
    return Assignment(id, visible(title).partition("\n")[0][:_LONGEST_TITLE], folder, tuple(found))
