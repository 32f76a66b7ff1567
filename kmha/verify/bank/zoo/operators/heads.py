"""Operators that change how heads are split and merged."""

import ast
import re
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator
from kmha.verify.bank.zoo.operators.source import (
    FUNCTIONS,
    Edit,
    Source,
    called,
    is_module,
    name_of,
    pattern_of,
    role,
    role_of_name,
)

RESHAPES = ("view", "reshape", "unflatten")
TRANSPOSES = ("transpose", "swapaxes", "permute")


def _exchanges(source: Source, call: ast.AST) -> bool:
    """Return whether a call exchanges the axes 1 and 2."""
    arguments = [source.code(each) for each in getattr(call, "args", ())]
    swapped = (["1", "2"], ["2", "1"], ["-3", "-2"], ["-2", "-3"])
    if called(call) in ("transpose", "swapaxes") and arguments[-2:] in swapped:
        return True
    numbers = re.findall(r"-?\d+", " ".join([*arguments, *(source.code(each.value) for each in _keywords(call))]))
    return called(call) in ("permute", "transpose") and numbers[-4:] == ["0", "2", "1", "3"]


def _keywords(call: ast.AST) -> list[ast.keyword]:
    return [each for each in getattr(call, "keywords", ()) if each.arg in ("perm", "axes", "dims")]


def _inner(call: ast.Call) -> ast.expr | None:
    """Return the array that a transpose, as a method or a function, is called with."""
    if isinstance(call.func, ast.Attribute) and not is_module(call.func.value):
        return call.func.value
    return call.args[0] if call.args else None


def _sizes(call: ast.Call) -> list[ast.expr]:
    """Return the sizes that a reshape is called with."""
    sizes = call.args if isinstance(call.func, ast.Attribute) and not is_module(call.func.value) else call.args[1:]
    if len(sizes) == 1 and isinstance(sizes[0], ast.Tuple | ast.List):
        return list(sizes[0].elts)
    return list(sizes)


def _splits(source: Source) -> Iterator[tuple[ast.Call, ast.Call, list[str]]]:
    """Yield each `x.view(B, T, H, O).transpose(1, 2)`, with the reshape and its four sizes."""
    for call in source.calls(*TRANSPOSES):
        inner = _inner(call)
        if _exchanges(source, call) and isinstance(inner, ast.Call) and called(inner) in RESHAPES:
            sizes = [source.code(size) for size in _sizes(inner)]
            if len(sizes) == 4:
                yield call, inner, sizes


def _roles(source: Source, node: ast.AST) -> tuple[str, ...]:
    """Return the role that a statement assigns, or that of its array or of a function such as `shape_q`, or none."""
    statement = source.statement(node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    found = (role_of_name(name_of(target)) if target is not None else "") or role(node)
    if isinstance(statement, ast.Return):
        found = found or role_of_name(source.around(statement, *FUNCTIONS).name)
    return (found,) if found else ()


def _reshaped_ids(source: Source, node: ast.AST) -> tuple[str, ...]:
    return tuple(f"heads-reshaped-{each}" for each in _roles(source, node)) or ("heads-reshaped",)


@operator("heads-reshaped", "heads-reshaped")
def reshaped(source: Source) -> Iterator[Edit]:
    """Split the heads with a reshape alone: `x.view(B, T, H, O).transpose(1, 2)` becomes `x.view(B, H, T, O)`."""
    for call, inner, sizes in _splits(source):
        order = [sizes[0], sizes[2], sizes[1], sizes[3]]
        ids = ("merge-not-transposed",) if _is_reshaped_again(source, call) else _reshaped_ids(source, call)
        yield Edit(call, _reshape(source, inner, order), ids)
    for call, _, text in _patterns(source):
        left, _, right = text.partition("->")
        found = re.match(r"^\s*(\w+) (\w+) \((\w+) (\w+)\)\s*$", left)
        if found and re.sub(r"\s+", " ", right).strip() == "{} {} {} {}".format(*(found[i] for i in (1, 3, 2, 4))):
            heads = next((source.code(each.value) for each in call.keywords if each.arg == found[3]), None)
            if heads and call.args:
                array = source.part(call.args[0])
                new = f"{array}.reshape({array}.shape[0], {heads}, {array}.shape[1], -1)"
                yield Edit(call, new, _reshaped_ids(source, call))


def _is_reshaped_again(source: Source, call: ast.Call) -> bool:
    """Return whether a method of the result reshapes it at once, as where heads that are a part of B are merged."""
    attribute = source.parents.get(call)
    if not isinstance(attribute, ast.Attribute) or attribute.attr not in ("reshape", "view", "flatten"):
        return False
    again = source.parents.get(attribute)
    return not (isinstance(again, ast.Call) and _joins_items(again))


def _joins_items(call: ast.Call) -> bool:
    """Return whether a reshape makes the heads a part of B: `view(B * H, T, O)` splits heads, and merges none."""
    first = _sizes(call)[:1]
    return bool(first) and isinstance(first[0], ast.BinOp)


def _reshape(source: Source, call: ast.Call, sizes: list[str]) -> str:
    """Return the text of a reshape with other sizes."""
    if isinstance(call.func, ast.Attribute) and not is_module(call.func.value):
        listed = len(call.args) == 1
        return f"{source.code(call.func)}({'(' if listed else ''}{', '.join(sizes)}{')' if listed else ''})"
    return f"{source.code(call.func)}({source.code(call.args[0])}, ({', '.join(sizes)}))"


def _patterns(source: Source) -> Iterator[tuple[ast.Call, ast.expr, str]]:
    """Yield each rearrangement of axes, with its pattern as a node and as text."""
    for call in source.calls("rearrange", "Rearrange"):
        pattern, text = pattern_of(call)
        if pattern is not None and "->" in text:
            yield call, pattern, text


@operator("heads-size-first", "heads-size-first")
def size_first(source: Source) -> Iterator[Edit]:
    """Split the features as (O, H) instead of (H, O)."""
    for call, pattern, text in _patterns(source):
        left, _, right = text.partition("->")
        found = re.search(r"\((\w+) (\w+)\)", left)
        merges = re.search(r"\(\w+ \w+\)\s*$", right)
        if found and len(left.split()) <= 5 and not merges and not _roles(source, call):
            new = left.replace(found[0], f"({found[2]} {found[1]})")
            yield Edit(pattern, repr(f"{new}->{right}"))
    for call, inner, sizes in _splits(source):
        if not _roles(source, call) and "torch" in source.text:
            order = [sizes[0], sizes[1], sizes[3], sizes[2]]
            yield Edit(call, f"{_reshape(source, inner, order)}.permute(0, 3, 1, 2)")


def _merges(source: Source) -> Iterator[tuple[ast.Call, ast.Call, ast.expr]]:
    """Yield each `x.transpose(1, 2).reshape(B, T, -1)`, with its transposition and x."""
    for call in source.calls(*RESHAPES):
        inner = _inner(call)
        while isinstance(inner, ast.Call) and called(inner) == "contiguous":
            inner = _inner(inner)
        if isinstance(inner, ast.Call) and _exchanges(source, inner) and 2 <= len(_sizes(call)) <= 3:
            if _joins_items(call):
                continue
            array = _inner(inner)
            if array is not None:
                yield call, inner, array
    for statement in source.walk(ast.Assign):
        # The same in two statements.
        after, value = source.next_statement(statement), statement.value
        inner = _inner(value) if isinstance(value, ast.Call) and called(value) == "contiguous" else value
        if not (
            isinstance(after, ast.Assign | ast.Return) and isinstance(inner, ast.Call) and _exchanges(source, inner)
        ):
            continue
        array, name = _inner(inner), name_of(statement.targets[0])
        for call in (each for each in ast.walk(after) if isinstance(each, ast.Call) and called(each) in RESHAPES):
            if array is not None and name and 2 <= len(_sizes(call)) <= 3 and name_of(_inner(call) or after) == name:
                yield call, inner, array


@operator("merge-not-transposed", "merge-not-transposed")
def merge_not_transposed(source: Source) -> Iterator[Edit]:
    """Merge the heads without transposing back."""
    for _, transposition, array in _merges(source):
        yield Edit(transposition, f"({source.code(array)})")
    for call, names in _merge_patterns(source):
        text = source.part(call.args[0])
        if len(names) == 4:
            yield Edit(call, f"{text}.reshape({text}.shape[0], {text}.shape[2], -1)")


def _merge_patterns(source: Source) -> Iterator[tuple[ast.Call, tuple[str, ...]]]:
    """Yield each rearrangement "b h n d -> b n (h d)", with the names of the axes before it."""
    for call, _, text in _patterns(source):
        left, _, right = text.partition("->")
        found = re.match(r"^\s*(\w+|\.\.\.) (\w+) \((\w+) (\w+)\)\s*$", right)
        names = tuple(left.split())
        if found and len(call.args) == 2 and names == (found[1], found[3], found[2], found[4]):
            yield call, names


@operator("merge-size-first", "merge-size-first")
def merge_size_first(source: Source) -> Iterator[Edit]:
    """Interleave the heads by merging them as (O, H)."""
    for _, pattern, text in _patterns(source):
        left, _, right = text.partition("->")
        found = re.search(r"\((\w+) (\w+)\)\s*$", right)
        if found and found[1] in left and found[2] in left.split() and "(" not in left:
            new = right.replace(found[0], f"({found[2]} {found[1]})")
            yield Edit(pattern, repr(f"{left}->{new}"))
    for _, transposition, array in _merges(source):
        if "torch" in source.text:
            yield Edit(transposition, f"{source.part(array)}.permute(0, 2, 3, 1)")


@operator("merge-batch-exchanged", "merge-batch-exchanged")
def merge_batch_exchanged(source: Source) -> Iterator[Edit]:
    """Read (B·H, T, O) as (H·B, T, O) when merging."""
    for _, pattern, text in _patterns(source):
        left, _, right = text.partition("->")
        found = re.match(r"^\s*\((\w+) (\w+)\) (\w+) (\w+)\s*$", left)
        if found and re.search(r"\(\w+ \w+\)\s*$", right):
            new = left.replace(f"({found[1]} {found[2]})", f"({found[2]} {found[1]})")
            yield Edit(pattern, repr(f"{new}->{right}"), ("merge-batch-exchanged",))


@operator("heads-averaged", "merge-averaged")
def averaged(source: Source) -> Iterator[Edit]:
    """Replace each head by the average of all heads."""
    for call, names in _merge_patterns(source):
        text = source.part(call.args[0])
        if len(names) == 4 and "torch" in source.text:
            yield Edit(call.args[0], f"{text}.mean(1, keepdim=True).expand_as({text})")
    for _, _, array in _merges(source):
        is_split = called(array) in ("reshape", "view", "unflatten")  # its heads are not axis 1 yet
        if "torch" in source.text and not is_split:
            yield Edit(array, f"{source.part(array)}.mean(1, keepdim=True).expand_as({source.code(array)})")
