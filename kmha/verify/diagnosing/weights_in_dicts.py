"""The weights that the code of a function reads from dicts, such as `params["W_q"]` or `linear(x, **c_attn)`.

Such code says which keys it needs, but not how large the weights are. Their names tell that: `attn["c_attn"]["w"]` is
the packed kernel of query, key and value. kmha makes weights only if it knows the names of all.
"""

import ast
import copy
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.calling import EMPTY, parameters

Tree = dict[str, Any]  # the keys that code reads, each with the tree of the dict below it, which is empty for an array

DEPTH = 4  # maximum number of functions that pass a dict on to each other
NORM = re.compile("^ln|norm")
FEED_FORWARD = re.compile("^(mlp|ffn?|feedforward)")
OF_FEED_FORWARD = re.compile("^(w|b|fc|ff|lin|linear|dense|ffn|mlp|wff|bff|wfc|bfc)[12]$")
BIASES = ("b", "bias", "beta")
PARTS = ("w", "weight", "weights", "kernel", *BIASES, "g", "gamma", "scale", "shift", "gain")
WIDTHS = {"packed": 3, "key_value": 2}  # how many kernels are in one


def trees_of(function: Callable[..., Any], depth: int = DEPTH) -> dict[str, Tree]:
    """Return the trees of the arguments that are dicts, keyed by their names.

    >>> def project(x, w, b): return x @ w + b
    >>> def project_twice(x, first, others): return project(x, **first) + project(x, others["w"], 0)
    >>> trees_of(project_twice)
    {'first': {'w': {}, 'b': {}}, 'others': {'w': {}}}
    """
    return copy.deepcopy(_trees_of(function, depth))


@functools.lru_cache(maxsize=1024)
def _trees_of(function: Callable[..., Any], depth: int) -> dict[str, Tree]:
    found: dict[str, Tree] = {name: {} for name in parameters(function)} if depth else {}
    code = frameworks.syntax_of(function) if depth else ast.Module([], [])
    others = _other_names(code)
    reads = _reads(function, code, depth)
    for expression, below in sorted(reads, key=lambda read: (read[0].lineno, read[0].col_offset)):
        name, keys = _path(expression)
        for _ in others:  # a name may stand for a part of what another one stands for
            name, before = others.get(name, (name, []))
            keys = [*before, *keys]
        if name in found:
            place = found[name]
            for key in keys:
                place = place.setdefault(key, {})
            place.update({key: tree for key, tree in below.items() if tree or key not in place})
    return {name: tree for name, tree in found.items() if tree}


def _reads(function: Callable[..., Any], code: ast.AST, depth: int) -> Iterator[tuple[ast.expr, Tree]]:
    """Yield each expression in a function's code that may read a dict, and the tree that other functions read of it."""
    for node in ast.walk(code):
        if isinstance(node, ast.Subscript):
            yield node, {}
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        called = getattr(function, "__globals__", {}).get(node.func.id)
        if not inspect.isfunction(called) or called.__module__ != function.__module__ or called is function:
            continue
        trees, takes = trees_of(called, depth - 1), parameters(called)
        given = dict(zip(takes, node.args, strict=False)) | {each.arg: each.value for each in node.keywords if each.arg}
        for name, expression in given.items():
            yield expression, trees.get(name, {})
        rest = [name for name, each in takes.items() if name not in given and each.default is EMPTY]
        for spread in (each.value for each in node.keywords if each.arg is None):
            yield spread, {name: trees.get(name, {}) for name in rest}


def _other_names(code: ast.AST) -> dict[str, tuple[str, list[str]]]:
    """Return the paths that code gives another name, such as `first = params["first"]`, keyed by this name."""
    found: dict[str, tuple[str, list[str]]] = {}
    for target, value in frameworks.assignments(code):
        name, keys = _path(value)
        if isinstance(target, ast.Name) and keys and name != target.id:
            found[target.id] = name, keys
    return found


def _path(expression: ast.AST) -> tuple[str, list[str]]:
    """Return the name and the keys of an expression such as `params["attn"]["w"]`, or no name."""
    keys: list[str] = []
    while (
        isinstance(expression, ast.Subscript)
        and isinstance(expression.slice, ast.Constant)
        and isinstance(expression.slice.value, str)
    ):
        keys.insert(0, expression.slice.value)
        expression = expression.value
    return (expression.id if isinstance(expression, ast.Name) else "", keys)


def paths(tree: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each array in a tree.

    >>> list(paths({"attn": {"w": {}, "b": {}}, "gain": {}}))
    [('attn', 'w'), ('attn', 'b'), ('gain',)]
    """
    for name, below in tree.items():
        yield from paths(below, (*before, name)) if below else [(*before, name)]


def shapes(
    found: Sequence[tuple[str, ...]], width: int, inner: int, groups: int = 1
) -> dict[tuple[str, ...], tuple[int, ...]] | None:
    """Return the shapes of the weights of attention or of a block with these paths, or `None` if one is not known.

    The kernels of key and value are narrower than the query's by the factor `groups`.

    >>> shapes([("c_attn", "w"), ("c_attn", "b"), ("c_proj", "w")], 8, 32)
    {('c_attn', 'w'): (8, 24), ('c_attn', 'b'): (24,), ('c_proj', 'w'): (8, 8)}
    >>> shapes([("qkv",), ("mlp", "first"), ("mlp", "second"), ("colour",)], 8, 32) is None
    True
    """
    sizes: dict[tuple[str, ...], tuple[int, ...]] = {}
    kernels: set[str] = set()
    feed_forward: list[tuple[str, ...]] = []
    for path in found:
        words = [naming.plain(word) for word in path]
        owner = words[-2] if words[-1] in PARTS and len(words) > 1 else words[-1]
        role, is_bias = naming.weight(owner)
        is_bias |= words[-1] in BIASES
        if any(map(NORM.search, words)):
            sizes[path] = (width,)
        elif any(map(FEED_FORWARD.search, words[:-1])) or OF_FEED_FORWARD.search(owner):
            feed_forward.append(path)
        elif role is None:
            return None
        else:
            columns = WIDTHS.get(role, 1) * width // (groups if role in ("key", "value", "key_value") else 1)
            sizes[path] = (columns,) if is_bias else (width, columns)
            kernels |= set() if is_bias else {role}
    if not ("packed" in kernels or {"query", "key", "value"} <= kernels or {"query", "key_value"} <= kernels):
        return None
    return sizes | _of_feed_forward(feed_forward, width, inner)


def _of_feed_forward(
    found: Sequence[tuple[str, ...]], width: int, inner: int
) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Return the shapes of the weights of a feed-forward network, whose first layer comes first."""
    biases = [path for path in found if naming.plain(path[-1]).startswith(BIASES)]
    kernels = [path for path in found if path not in biases]
    first = dict(zip(kernels, [(width, inner), (inner, width)], strict=False))
    return first | dict(zip(biases, [(inner,), (width,)], strict=False))


def made(found: Mapping[tuple[str, ...], tuple[int, ...]]) -> dict[str, Any]:
    """Return dicts of random weights of these shapes.

    >>> made({("attn", "w"): (2, 6)})["attn"]["w"].shape
    (2, 6)
    """
    rng = np.random.default_rng(0)
    weights: dict[str, Any] = {}
    for path, shape in found.items():
        place = weights
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = rng.normal(size=shape)
    return weights
