"""What an answer may use, read off its text: without running it."""

import ast
import sys

from kmha.course.exercises.exercise import Exercise

_CALLED = {"numpy": "NumPy", "keras": "Keras", "tensorflow": "TensorFlow", "matplotlib": "matplotlib"}


def broken(code: str, spec: Exercise) -> str | None:
    """The first thing in the code that the exercise does not allow, in a sentence, or `None`.

    Code that cannot be parsed is left to whoever loads it, which says where.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    allowed = {*spec.uses, *spec.needs}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for name in _modules(node):
            if name not in allowed and name not in sys.stdlib_module_names:
                told = " and ".join(_CALLED[each] for each in spec.uses)
                return f"it imports {name} in line {line}: this exercise is to be written with {told}."
        for name in _names(node):
            if name in spec.forbids:
                return f"it uses `{name}` in line {line}: that is what this exercise has you write."
    return None


def _modules(node: ast.AST) -> list[str]:
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
