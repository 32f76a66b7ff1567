"""Small edits of a solution: answers that nobody wrote, most of which are wrong.

One that gets full points either computes the same, or shows what the checks never vary. An expression is also frozen:
it keeps its first value in all later calls, as does a number that somebody copied from one case.

>>> [edit.new for edit in edits("def double(x):\\n    return 2 * x\\n")][:6]
['2 / x', '2', 'x', '3 * x', '1 * x', '2 * FROZEN.setdefault(0, x)']
"""

import ast
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kmha.course.exercises.cells import syntax_tree
from kmha.course.exercises.content import Item
from kmha.course.judging.pipeline import judge
from kmha.course.judging.running import needed_solutions
from kmha.sandbox.sandbox import Sandbox

FROZEN = "FROZEN"  # dict in which an expression's first value is kept
_OTHER: Mapping[type, type] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
}


class Edit(NamedTuple):
    """An edit: the line that it changes, as it was and as it is, and the whole code, which can be run."""

    line: int
    old: str
    new: str
    code: str


def edits(solution: str, starter: str = "") -> Iterator[Edit]:
    """Yield the edits of a solution, each of a single place that the starter does not have."""
    tree, given = syntax_tree(solution) or ast.Module([], []), {*starter.splitlines()}
    written = {number for number, line in enumerate(solution.splitlines(), 1) if line not in given}
    before, seen = _lines(tree), {ast.unparse(tree)}
    for owner, field, index in [*_places(tree)]:
        values = getattr(owner, field)
        node = values if index is None else values[index]
        if getattr(node, "lineno", 0) not in written:
            continue
        for other in _others(node, owner):
            _put(owner, field, index, other)
            code = ast.unparse(tree)
            if code not in seen:
                seen.add(code)
                frozen = f"{FROZEN} = {{}}\n" if FROZEN in code else ""
                yield Edit(node.lineno, *_difference(before, _lines(tree)), frozen + code)
        _put(owner, field, index, node)


def with_full_points(item: Item, sandbox: Sandbox, seed: int, most: int) -> Iterator[Edit]:
    """Yield those of at most `most` edits of an exercise's solution that get full points."""
    if not most:
        return
    found = [*edits(item.master.solution, item.master.starter)]
    files = needed_solutions(item)
    for edit in random.Random(seed).sample(found, min(most, len(found))):
        if judge(item, edit.code, sandbox, seed=seed, files=files, explained=False).passed:
            yield edit


def _places(owner: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Yield where each node below `owner` is: its owner, the owner's field, and the index in it."""
    for field, value in ast.iter_fields(owner):
        several = isinstance(value, list)
        for index, node in enumerate(value) if several else ((None, value),):
            says = isinstance(node, ast.Raise | ast.JoinedStr) or field in ("returns", "annotation", "decorator_list")
            if isinstance(node, ast.AST) and not says:
                yield owner, field, index
                yield from _places(node)


def _put(owner: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(owner, field, node)
    else:
        getattr(owner, field)[index] = node


def _others(node: ast.AST, owner: ast.AST) -> Iterator[ast.AST]:
    """Yield what may replace a node."""
    match node:
        case ast.Compare(left, [operator], [right]):
            yield ast.Compare(left, [_OTHER[type(operator)]()], [right])
        case ast.BinOp(left, operator, right):
            if type(operator) in _OTHER:
                yield ast.BinOp(left, _OTHER[type(operator)](), right)
            yield from (left, right)
        case ast.BoolOp(operator, values):
            for place in range(len(values)):
                rest = [*values[:place], *values[place + 1 :]]
                yield ast.BoolOp(operator, rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(_, operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(float(value)):
            yield ast.Constant(2 * value)
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.If(_, body, orelse):
            yield from (ast.If(ast.Constant(value), body, orelse) for value in (True, False))
        case ast.Call():
            yield from _other_calls(node)
        case ast.Subscript(value, index, ast.Load()):
            yield value
            if isinstance(index, ast.Slice):
                yield ast.Subscript(value, ast.Slice(None, index.upper, index.step), ast.Load())
                yield ast.Subscript(value, ast.Slice(index.lower, None, index.step), ast.Load())
        case ast.Assign() | ast.AugAssign() | ast.Expr():
            yield ast.Pass()
    if isinstance(node, ast.expr) and _has_own_value(node, owner):
        kept = ast.Attribute(ast.Name(FROZEN, ast.Load()), "setdefault", ast.Load())
        yield ast.Call(kept, [ast.Constant(0), node], [])


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    """Yield a call without each of its arguments, with two of them exchanged, and what it is called with or on."""
    function, args, keywords = node.func, node.args, node.keywords
    for place in range(len(keywords)):
        yield ast.Call(function, args, [*keywords[:place], *keywords[place + 1 :]])
    for place in range(1, len(args)):
        yield ast.Call(function, [*args[:place], *args[place + 1 :]], keywords)
    if len(args) > 1:
        yield ast.Call(function, [args[1], args[0], *args[2:]], keywords)
    yield from args[:1]
    if isinstance(function, ast.Attribute):
        yield function.value


def _has_own_value(node: ast.expr, owner: ast.AST) -> bool:
    """Return whether an expression may have another value in another call, unlike a constant or a function."""
    if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Compare | ast.BinOp):
        return False
    called: Any = getattr(owner, "func", None) if isinstance(owner, ast.Call) else None
    stored = isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
    return not (stored or node is called or isinstance(owner, ast.Attribute | ast.stmt | ast.keyword))


def _lines(tree: ast.AST) -> list[str]:
    return [line.strip() for line in ast.unparse(tree).splitlines()]


def _difference(before: list[str], after: list[str]) -> tuple[str, str]:
    """Return the first line that differs, as it was and as it is."""
    old, new = next(((one, other) for one, other in zip(before, after, strict=False) if one != other), ("", ""))
    return old.removeprefix("return "), new.removeprefix("return ")
