"""Find what an exercise does not allow in an answer, from its text alone."""

import ast
import sys

from kmha.course.exercises import cells
from kmha.course.exercises.exercise import Exercise

_LIBRARIES = {"numpy": "NumPy", "keras": "Keras", "tensorflow": "TensorFlow", "matplotlib": "matplotlib"}


def violation(code: str, spec: Exercise) -> str | None:
    """Return a sentence on the first thing in the code that the exercise does not allow, or `None`.

    Code that cannot be parsed has no violation: loading it gives an error that names the line.
    """
    tree, allowed = cells.syntax_tree(code), {*spec.uses, *spec.needs}
    for node in ast.walk(tree) if tree else ():
        line = getattr(node, "lineno", 0)
        for name in _imported(node):
            if name not in allowed and name not in sys.stdlib_module_names:
                libraries = " and ".join(_LIBRARIES[each] for each in spec.uses)
                return f"you import {name} in line {line}. Write this exercise with {libraries}."
        for name in _names(node):
            if name in spec.forbids:
                return f"you use `{name}` in line {line}. In this exercise you write it yourself."
    return None


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name.partition(".")[0] for each in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or ".").partition(".")[0]]
    return []


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom | ast.Import):
        return [part for each in node.names for part in each.name.split(".")]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    return [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else []
