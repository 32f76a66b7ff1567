"""Find imports that an exercise does not allow, from an answer's text, for a message with the line.

The sandbox does not rely on this: other libraries cannot be read there, and what the exercise forbids does not exist.
"""

import ast
import sys
from functools import lru_cache

from kmha.course.exercises import cells
from kmha.course.exercises.exercise import LIBRARIES, Exercise


def violation(code: str, spec: Exercise) -> str | None:
    """Return a sentence on the first import in the code that the exercise does not allow, or `None`.

    Code that cannot be parsed has no violation: loading it gives an error that names the line.
    """
    allowed = {*spec.uses, *spec.needs}
    for line, name in _imports(code):
        if name not in allowed and name not in sys.stdlib_module_names:
            libraries = " and ".join(LIBRARIES[each] for each in spec.uses)
            return f"you import {name} in line {line}. Write this exercise with {libraries}."
    return None


@lru_cache(64)  # one file can answer many exercises
def _imports(code: str) -> tuple[tuple[int, str], ...]:
    """Return the line and the name of each import."""
    tree = cells.syntax_tree(code)
    return tuple(
        (getattr(node, "lineno", 0), name) for node in (ast.walk(tree) if tree else ()) for name in _imported(node)
    )


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name.partition(".")[0] for each in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or ".").partition(".")[0]]
    return []
