"""Sizes that a layer or its code states: the number of heads, and the size of one head."""

import ast
import inspect
import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kmha.verify.diagnosing import frameworks, naming

DEPTH = 3  # number of objects inside each other that may state a layer's number of heads
SPLITS = {"reshape", "view", "unflatten", "rearrange", "split", "array_split", "chunk", "tensor_split"}
LARGEST = 23.0  # the root of the largest head size that an attribute may state
SCALES = re.compile("scal|sqrt|root|temper")  # names of attributes that a product of query and key is divided by


def stated_number(layer: Any, given: Mapping[str, Any], role: str) -> int | None:
    """Return the number with this role that was given, or that an attribute or the code of the layer states.

    The attribute may be one of a part of the layer, such as an axis of `einops.layers.torch.Rearrange`, and the code
    may read a variable of its module.
    """
    parts = list(layer.modules()) if hasattr(layer, "named_parameters") else [layer]
    stated = [item for owner in with_objects_inside(parts) for item in vars(owner).items()]
    stated += [item for part in parts for item in _split_features(part)]
    found = number_with_role([*given.items(), *stated], role)
    if found is None:
        kinds = {type(getattr(part, "module", part)) for part in parts}
        found = number_with_role(frameworks.numbers_read(filter(frameworks.is_own, kinds)).items(), role)
    return found


def _split_features(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield the axes into which a layer of einops splits features, or from which it joins them: not (h w) of an image.

    >>> import types
    >>> split = types.SimpleNamespace(pattern="b n (h d) -> b h n d", axes_lengths={"h": 3})
    >>> [*_split_features(split)]
    [('h', 3)]
    """
    joined = re.findall(r"\(([^()]*)\)\s*(?:->|$)", str(getattr(part, "pattern", "")))
    names = {name for group in joined for name in group.split()}
    lengths = vars(part).get("axes_lengths")
    yield from ((name, number) for name, number in dict(lengths or {}).items() if name in names)


def number_with_role(items: Iterable[tuple[str, Any]], role: str) -> int | None:
    """Return the first whole number whose name means this role."""
    numbers = ((name, value) for name, value in items if isinstance(value, int) and not isinstance(value, bool))
    return next((value for name, value in numbers if naming.argument(name.strip("_")) == role), None)


def number_of_heads(layer: Any, given: Mapping[str, Any]) -> int | None:
    """Return the number of heads that was given, or that the layer or its source code states."""
    if stated := stated_number(layer, given, "heads"):
        return stated
    owner = getattr(layer, "module", layer)
    kinds = [type(owner)]
    if hasattr(kinds[0], "__wrapped__"):  # it stands for a function around layers
        kinds += map(type, (*vars(owner).values(), *vars(owner).get("_modules", {}).values()))
    code = "\n".join(frameworks.source_of(kind) for kind in kinds if frameworks.is_own(kind))
    return heads_in_source(code)


def heads_in_source(code: str) -> int | None:
    """Return the number of heads that code states as a number, or `None`.

    It is the value of a variable with a known name, or an axis of a reshape before the last.

    >>> heads_in_source("x.view(B, T, 4, C // 4)"), heads_in_source("n_head = 3"), heads_in_source("x.view(-1, 5)")
    (4, 3, None)
    """
    named = re.findall(r"^\s*(\w+)\s*=\s*(\d+)\s*(?:#.*)?$", code, re.MULTILINE)
    named += re.findall(r"rearrange\([^\n]*\b(h|heads)\s*=\s*(\d+)", code)
    stated = {int(number) for name, number in named if naming.argument(name) == "heads"}
    calls = re.findall(r"(?:view|reshape|Reshape|unflatten)\(((?:[^()]|\([^()]*\))*)\)", code)
    axes = {int(axis) for call in calls for axis in re.findall(r"[,(]\s*(\d+)\s*(?=,)", call)}
    packed = {3} if "qkv" in code.lower() else set()
    found = {number for number in stated or axes - packed if number > 1}
    return found.pop() if len(found) == 1 else None


def with_objects_inside(parts: Sequence[Any]) -> list[Any]:
    """Return objects, and the plain objects that they hold, the nearest first."""
    found, level = list(parts), list(parts)
    for _ in range(DEPTH):
        values = [value for part in level for value in getattr(part, "__dict__", {}).values()]
        values += [item for each in values if isinstance(each, list) for item in each]
        values += [item for each in values if isinstance(each, dict) for item in each.values()]
        known = {id(each) for each in found}
        level = [*{id(each): each for each in values if _is_plain_object(each) and id(each) not in known}.values()]
        found += level
    return found


def _is_plain_object(value: Any) -> bool:
    """Return whether an attribute is an object such as a configuration or a layer of the same code."""
    return (
        hasattr(value, "__dict__")
        and not isinstance(value, type)
        and not hasattr(value, "shape")
        and (not callable(value) or (not inspect.isroutine(value) and frameworks.is_own(type(value))))
    )


def stated_heads(function: Callable[..., Any]) -> dict[str, int]:
    """Return the number of heads of an object whose code splits features into so many, keyed by its role, if any."""
    if hasattr(function, "__code__") or not frameworks.is_own(type(function)):
        return {}
    calls = [node for node in ast.walk(frameworks.syntax_of(type(function))) if isinstance(node, ast.Call)]
    for name, value in getattr(function, "__dict__", {}).items():
        if type(value) is int and naming.argument(name.strip("_")) == "heads" and any(_splits(c, name) for c in calls):
            return {"heads": value}
    return {}


def _splits(call: ast.Call, name: str) -> bool:
    """Return whether a call reshapes an array with an attribute, or passes the attribute on as it is."""
    given = [*call.args, *(each.value for each in call.keywords)]
    function = _names(call.func)
    if function & SPLITS:
        return any(name in _names(each) for each in given)
    return not function & {"range", "isinstance", "print"} and any(
        isinstance(each, ast.Attribute) and each.attr == name for each in given
    )


def uses(name: str, *classes: type) -> bool:
    """Return whether the code of classes uses an argument or attribute outside of the constructor.

    >>> class Attention:
    ...     pass
    >>> uses("num_heads", Attention)  # no methods are known
    True
    """
    nodes = [node for each in classes for node in ast.walk(frameworks.syntax_of(each))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    kept = {name}  # the argument, and the attributes that are made of it
    for each in functions:
        for target, value in frameworks.assignments(each) if each.name == "__init__" else ():
            kept |= _names(target) - {"self"} if kept & _names(value) else set()
    return not functions or any(kept & _names(each) for each in functions if each.name != "__init__")


def _names(tree: ast.AST) -> set[str]:
    nodes = [*ast.walk(tree)]
    return {n.id for n in nodes if isinstance(n, ast.Name)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}


def stated_size(layer: Any) -> tuple[str, int] | None:
    """Return the attribute whose value is √O or O^-½ for an integer O of at least 2, and O. Several such O state none.

    Without one, an attribute such as `d_k` states O itself, or a width and a number of heads do.

    >>> import types
    >>> stated_size(types.SimpleNamespace(scale=0.25, dropout=0.5)), stated_size(types.SimpleNamespace(d_k=4))
    (('scale', 16), ('d_k', 4))
    >>> stated_size(types.SimpleNamespace(d_model=12, n_heads=3))
    ('d_model', 4)
    """
    found = {}
    attributes = getattr(layer, "__dict__", {})
    for name, value in attributes.items():
        if not (SCALES.search(name.lower()) and isinstance(value, numbers.Real)):
            continue
        root = abs(float(value))
        if not (1 / LARGEST < root < LARGEST):  # or NaN
            continue
        size = max(root**2, root**-2)
        if size > 1.5 and abs(size - round(size)) < 1e-4 * size:
            found[round(size)] = name
    if not found:
        names = {naming.argument(name.strip("_")): name for name, each in attributes.items() if type(each) is int}
        sizes = {role: attributes[name] for role, name in names.items()}
        if "size" in sizes:
            found = {sizes["size"]: names["size"]}
        elif "width" in sizes and sizes.get("heads", 0) > 0 and sizes["width"] % sizes["heads"] == 0:
            found = {sizes["width"] // sizes["heads"]: names["width"]}
    return next(((name, size) for size, name in found.items() if size > 1), None) if len(found) == 1 else None
