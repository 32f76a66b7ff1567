"""The names that code gives to layers which Flax counts: `key = nn.Dense(size)(x)` is called "Dense_0"."""

import ast
import dataclasses
import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.weights import Variable

COUNTED = re.compile(r"(\w+)_(\d+)$")  # a name by which Flax counts the layers of a class
REPEATS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)


def with_assigned_names(variables: Sequence[Variable], modules: Iterable[Any]) -> list[Variable]:
    """Return the variables, with the names of projections in their paths where the code assigns them.

    Args:
        variables: Variables of a module of Flax.
        modules: Modules inside it, which were called.
    """
    names: dict[str, str] = {}
    groups: dict[Any, list[tuple[int, Any]]] = {}
    for module in modules:
        counted = COUNTED.match(module.name or "")
        if counted and module.parent is not None:
            groups.setdefault((module.path[:-1], counted[1]), []).append((int(counted[2]), module))
    for (path, kind), group in groups.items():
        found = assigned(frameworks.source_of(type(group[0][1].parent).__call__), kind)
        if len(found) != len(group):  # code in branches makes others than it says
            continue
        for place, module in group:
            if naming.weight(found[place])[0] and found.count(found[place]) == 1:
                names[".".join(module.path)] = ".".join((*path, found[place]))
    renamed = []
    for each in variables:
        owner, _, last = each.path.rpartition(".")
        name = f"{names[owner]}.{last}" if owner in names else each.path
        renamed.append(each if name == each.path else dataclasses.replace(each, path=name, place=each.path))
    return renamed


@functools.lru_cache(maxsize=256)
def assigned(code: str, kind: str) -> list[str]:
    """Return the name to which a call assigns what each new layer of a class makes, in their order, or "".

    Layers with a name of their own are left out. Nothing is returned if some are made in a loop, and cannot be counted.

    >>> code = "def f(x):\\n key, q = nn.Dense(3)(x), nn.Dense(3)(x)\\n return nn.Dense(4)(key * q)"
    >>> assigned(code, "Dense")
    ['key', 'q', '']
    """
    tree = frameworks.syntax_of(code)
    if any(_makes(part, kind) for loop in ast.walk(tree) if isinstance(loop, REPEATS) for part in ast.walk(loop)):
        return []
    names = {node: "" for node in ast.walk(tree) if _makes(node, kind)}
    for target, value in frameworks.assignments(tree):
        inner = [part for part in ast.walk(value) if part in names]
        if isinstance(target, ast.Name) and len(inner) == 1:
            names[inner[0]] = target.id
    return [names[node] for node in sorted(names, key=lambda node: (node.lineno, node.col_offset))]  # type: ignore[attr-defined]


def _makes(node: ast.AST, kind: str) -> bool:
    """Return whether an expression makes a layer of a class, such as `nn.Dense(3)`."""
    if not isinstance(node, ast.Call) or any(each.arg == "name" for each in node.keywords):
        return False
    return getattr(node.func, "attr", getattr(node.func, "id", "")) == kind
