"""Find the exercises that a file answers, and the assignment of a notebook, even if the file is misnamed."""

import ast
import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from kmha.course.classroom.downloads import known_name
from kmha.course.exercises import cells
from kmha.course.exercises.content import Assignment, Item

EXACT, NAMED, DEFINED = range(3)


class Found(NamedTuple):
    """An exercise that a file answers.

    Attributes:
        item: The exercise.
        rank: `EXACT` if the file has the right name, `NAMED` if its name contains it, `DEFINED` if only its code does.
        why: Why a misnamed file is taken, as the end of a sentence.
    """

    item: Item
    rank: int
    why: str


def find_exercises(path: PurePosixPath, code: str, assignments: Sequence[Assignment]) -> list[Found]:
    """Return the exercises that a file answers: the exercise in its name, or else all exercises that it defines."""
    items = [item for each in assignments for item in each.items]
    if path.suffix == ".py" and (item := _one([item for item in items if item.name == path.stem], path)):
        return [Found(item, EXACT, "")]
    names = _defined(code, items)
    named = known_name(path.stem, {item.name for item in items})
    # Code that cannot be parsed is taken too: to be told about a syntax error helps. test_cross_kv.py is not.
    if named and (names is None or named[0] in names):
        item = _one([item for item in items if item.name == named[0]], path)
        return [Found(item, NAMED, f"its name contains {item.name}")] if item else []
    defined = [item for item in items if item.name in (names or ())]
    found = dict.fromkeys(_one([item for item in defined if item.name == each.name], path) for each in defined)
    return [Found(item, DEFINED, f"it defines {item.name}") for item in found if item]


def proposal(path: PurePosixPath, code: str, assignments: Sequence[Assignment]) -> str:
    """Return a sentence on why a file answers no exercise, and on what was perhaps meant."""
    items = [item for each in assignments for item in each.items]
    names = _defined(code, items) or set()
    ids = [item.id for item in items if item.name in names]
    if ids:
        return f"it could be {' or '.join(ids)}. Put it in a folder of its assignment."
    close = difflib.get_close_matches(path.stem.lower(), {item.name.lower() for item in items}, n=1, cutoff=0.7)
    meant = [item.id for item in items if item.name.lower() in close]
    return "no exercise has this name." + (f" Is it {' or '.join(meant)}?" if meant else "")


def find_assignment(path: PurePosixPath, notebook: object, assignments: Sequence[Assignment]) -> Assignment:
    """Return the assignment of a notebook, from its metadata, its file name, or its cells.

    Raises:
        ValueError: None of them says which assignment it is.
    """
    wanted = cells.nested(notebook, "metadata", "kmha", "assignment")
    for each in assignments:
        if each.id == wanted:
            return each
    names = {name: each for each in assignments for name in (each.id, each.folder.name)}
    if named := known_name(path.stem, names):
        return names[named[0]]
    counts = {each: _cells_of(notebook, each) for each in assignments}
    best = max(counts.values(), default=0)
    if best and [*counts.values()].count(best) == 1:
        return max(counts, key=lambda each: counts[each])
    raise ValueError("neither its metadata nor its name says which assignment it is.")


def _one(items: Sequence[Item], path: PurePosixPath) -> Item | None:
    """Return the exercise whose assignment is the file's folder, or the only one there is."""
    folder = path.parent.name.partition("_")[0]
    return next((item for item in items if item.assignment == folder), items[0] if len(items) == 1 else None)


def mentions(path: PurePosixPath, code: str, assignments: Sequence[Assignment]) -> bool:
    """Return whether a file can answer an exercise at all. Looking closer takes a second for some files."""
    items = [item for each in assignments for item in each.items]
    return known_name(path.stem, {item.name for item in items}) is not None or _may_define(code, items)


def _may_define(code: str, items: Sequence[Item]) -> bool:
    names = {item.name for item in items}
    return any(name in names for name in re.findall(r"\b(?:def|class)\s+(\w+)", code))


def _defined(code: str, items: Sequence[Item]) -> set[str] | None:
    """Return the names of the functions and classes at the top of a file, or `None` if it cannot be parsed.

    A file that defines none of the exercises is not parsed.
    """
    if not _may_define(code, items):
        return set()
    tree = cells.syntax_tree(code)
    kinds = ast.FunctionDef | ast.ClassDef
    return {node.name for node in tree.body if isinstance(node, kinds)} if tree else None


def _cells_of(notebook: object, assignment: Assignment) -> int:
    """Return how many cells of a notebook have an exercise's id, or begin with its title."""
    names = {item.name for item in assignment.items}
    titles = {item.master.title for item in assignment.items}
    return sum(id in names or title in titles for id, title in _ids_and_titles(notebook))


def _ids_and_titles(notebook: object) -> Iterator[tuple[Any, str]]:
    found = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in found if isinstance(found, list) else ():
        source = cell.get("source") if isinstance(cell, dict) else ""
        first = source[0] if isinstance(source, list) and source else source
        title = first.partition("\n")[0].lstrip("# ").strip() if isinstance(first, str) else ""
        id = cells.grade_id(cell)
        yield (id if isinstance(id, str) else None), title
