"""Calls that take several arrays as one argument, and unpack them in their code.

`query, key, mask = inputs` and `inputs["query"]` name the parts. kmha reads such a call as one with an argument for
each part, and packs what it passes.
"""

import ast
import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

from kmha.verify.diagnosing import frameworks, naming

Parameters = dict[str, inspect.Parameter]
INPUTS = {"query", "self", "ids"}  # roles of which a call has one


@dataclasses.dataclass(frozen=True)
class Packing:
    """The argument that holds several arrays.

    Attributes:
        argument: Name of the argument.
        parts: Names of the parts, in their order.
        by_name: Whether the argument is a dictionary rather than a list.
    """

    argument: str
    parts: tuple[str, ...]
    by_name: bool

    def opened(self, found: Parameters) -> Parameters:
        """Return a call's parameters, with one for each part instead of the argument."""
        parts = {name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in self.parts}
        return {**parts, **{name: each for name, each in found.items() if name != self.argument}}

    def packed(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the call, with the parts in the one that holds them. Missing parts are `None`."""
        parts = {name: arguments.get(name) for name in self.parts}
        rest = {name: value for name, value in arguments.items() if name not in parts}
        return {self.argument: parts if self.by_name else [*parts.values()], **rest}


@functools.lru_cache(maxsize=256)
def packing_of(function: Any) -> Packing | None:
    """Return how a call's first argument holds its parts, or `None` if it holds none.

    Args:
        function: The method that a call of a layer runs.
    """
    try:
        tree: Any = frameworks.syntax_of(function)
        first = [each.arg for each in tree.body[0].args.args][1]
    except (AttributeError, IndexError):
        return None
    found = _listed(tree.body[0], first) or _named(tree.body[0], first)
    parts = found.parts if found else ()
    usable = len({*parts}) == len(parts) > 1 and INPUTS & naming.roles_of(parts).keys()
    return found if usable else None


def _listed(function: Any, argument: str) -> Packing | None:
    """Return the parts that the function unpacks in a statement such as `x, mask = inputs`, or `= inputs[:2]`."""
    for statement in function.body:
        match statement:
            case ast.Assign(
                targets=[ast.Tuple(elts=names)],
                value=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name), slice=ast.Slice(lower=None)),
            ) if name == argument:
                parts = tuple(each.id for each in names if isinstance(each, ast.Name))
                return Packing(argument, parts, by_name=False) if len(parts) == len(names) else None
    return None


def _named(function: Any, argument: str) -> Packing | None:
    """Return the keys by which the function reads the argument, if it reads it in no other way."""
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == argument]
    keys = []
    for node in ast.walk(function):
        match node:
            case (
                ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)))
                | ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="get"), args=[ast.Constant(value=str(key)), *_]
                )
            ) if name == argument:
                keys.append(key)
    return Packing(argument, tuple(dict.fromkeys(keys)), by_name=True) if len(keys) == len(uses) else None
