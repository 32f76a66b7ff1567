"""Find answers that are identical except for names, comments and layout. This is a sign, not a verdict.

>>> one = "def double(x):\\n    y = x + x  # twice\\n    return y\\n"
>>> normalized(one) == normalized("def double(array: int):\\n    both = array + array\\n    return both\\n")
True
"""

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from kmha.course.exercises import cells
from kmha.course.exercises.content import Item

MIN_NODES = 80  # a shorter answer looks alike in many heads
MAX_CODE = 256 << 10  # characters, comments included


class Alike(NamedTuple):
    """Students whose answers to an exercise are identical, and whether the solution is identical too."""

    exercise: str
    students: tuple[str, ...]
    like_solution: bool


def fingerprint(code: str, item: Item) -> str:
    """Return a hash of an answer, or an empty string if it is too short, too long, or cannot be parsed."""
    nodes, digest = _measured(code)
    return digest if nodes - _measured(item.master.starter)[0] >= MIN_NODES else ""


@lru_cache(256)  # one file can answer many exercises
def _measured(code: str) -> tuple[int, str]:
    """Return the number of nodes in the syntax tree of a text, and a hash of its shape, or "" if it has none."""
    tree = _tree(code)
    if tree is None:
        return 0, ""
    nodes, shape = sum(1 for _ in ast.walk(tree)), _shape(tree)
    return nodes, hashlib.sha256(shape.encode()).hexdigest()[:32] if shape else ""


@cache
def of_solution(item: Item) -> str:
    """Return the `fingerprint` of an exercise's solution."""
    return fingerprint(item.master.solution, item)


def alike(exercise: str, fingerprints: Iterable[tuple[str, str]], solution: str) -> list[Alike]:
    """Return the groups of students with identical answers to an exercise, the largest first.

    Args:
        exercise: Id of the exercise.
        fingerprints: Pairs of a student and the `fingerprint` of the student's answer.
        solution: Fingerprint of the solution. An answer that is like the solution is returned even if it is alone.
    """
    groups = defaultdict[str, list[str]](list)
    for student, each in fingerprints:
        if each:
            groups[each].append(student)
    found = [Alike(exercise, tuple(students), each == solution) for each, students in groups.items()]
    found = [each for each in found if len(each.students) > 1 or each.like_solution]
    return sorted(found, key=lambda each: -len(each.students))


def normalized(code: str) -> str:
    """Return the syntax tree of a text without docstrings and annotations, and with its own names numbered.

    The text is untrusted. Without a syntax tree, the result is empty.
    """
    tree = _tree(code)
    return _shape(tree) if tree else ""


def _tree(code: str) -> ast.Module | None:
    return cells.syntax_tree(code) if len(code) <= MAX_CODE else None


def _shape(tree: ast.Module) -> str:
    """Return a tree as text with its own names numbered. The tree is changed."""
    numbers: dict[str, str] = {}
    for node in ast.walk(tree):
        for name in _bound(node):
            numbers.setdefault(name, f"_{len(numbers)}")
    for node in ast.walk(tree):
        _rename(node, numbers)
    try:
        return ast.dump(tree)
    except (RecursionError, MemoryError, ValueError):  # also for a number of thousands of digits
        return ""


def _bound(node: ast.AST) -> Iterable[str]:
    """Return the names that a node defines."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    return [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []


def _rename(node: ast.AST, numbers: dict[str, str]) -> None:
    if isinstance(node, ast.Name):
        node.id = numbers.get(node.id, node.id)
    elif isinstance(node, ast.arg):
        node.arg, node.annotation = numbers[node.arg], None
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        node.name = numbers[node.name]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
