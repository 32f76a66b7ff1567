"""Operators that change an embedding: its scale, and its positions."""

import ast
import re
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator
from kmha.verify.bank.zoo.operators.scales import is_scale
from kmha.verify.bank.zoo.operators.source import Edit, Source, called, words

POSITIONS = {"pos", "position", "positions", "positional", "pe", "posemb", "wpe", "encoding"}


def _scaled(source: Source) -> Iterator[tuple[ast.BinOp, ast.expr, ast.expr]]:
    """Yield each product of an embedding and its scale."""
    for node in source.walk(ast.BinOp) if source.kind == "embedding" else ():
        if isinstance(node.op, ast.Mult):
            for array, scale in ((node.left, node.right), (node.right, node.left)):
                if is_scale(scale) and not is_scale(array) and not isinstance(array, ast.Constant):
                    yield node, array, scale


@operator("embedding-scale-dropped", "embedding-unscaled")
def scale_dropped(source: Source) -> Iterator[Edit]:
    """Do not scale the embedding."""
    for node, array, _ in _scaled(source):
        yield Edit(node, f"({source.code(array)})")


@operator("embedding-divided", "embedding-divided")
def divided(source: Source) -> Iterator[Edit]:
    """Divide the embedding by its scale."""
    for node, array, scale in _scaled(source):
        yield Edit(node, f"({source.part(array)} / {source.part(scale)})")


@operator("embedding-scaled-by-width", "embedding-scaled-by-width")
def by_width(source: Source) -> Iterator[Edit]:
    """Multiply the embedding by its width, without the root."""
    for node, array, scale in _scaled(source):
        yield Edit(node, f"({source.part(array)} * {source.part(scale)} * {source.part(scale)})")


def _sums(source: Source) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    """Yield each sum of an embedding and its positions."""
    for node in source.walk(ast.BinOp, ast.AugAssign) if source.kind == "embedding" else ():
        if not isinstance(node.op, ast.Add):
            continue
        parts = (node.target, node.value) if isinstance(node, ast.AugAssign) else (node.left, node.right)
        named = [bool(POSITIONS & set(words(source.code(part)))) for part in parts]
        constant = any(isinstance(part, ast.Constant) or called(part) in ("arange", "range") for part in parts)
        if named[1] and not constant:
            yield node, parts[0], parts[1]
        elif named[0] and not constant and isinstance(node, ast.BinOp):
            yield node, parts[1], parts[0]


def _changed(source: Source, form: str) -> Iterator[Edit]:
    for node, tokens, positions in _sums(source):
        text = form.format(x=source.part(tokens), p=source.part(positions))
        yield Edit(node, f"{source.code(tokens)} = {text}" if isinstance(node, ast.AugAssign) else f"({text})")


@operator("positions-dropped", "positions-missing")
def positions_dropped(source: Source) -> Iterator[Edit]:
    """Do not add the positions."""
    yield from _changed(source, "{x}")


@operator("positions-twice", "positions-twice")
def positions_twice(source: Source) -> Iterator[Edit]:
    """Add the positions twice."""
    yield from _changed(source, "{x} + {p} + {p}")


@operator("positions-subtracted", "positions-subtracted")
def positions_subtracted(source: Source) -> Iterator[Edit]:
    """Subtract the positions."""
    yield from _changed(source, "{x} - {p}")


@operator("positions-multiplied", "positions-multiplied")
def positions_multiplied(source: Source) -> Iterator[Edit]:
    """Multiply by the positions."""
    yield from _changed(source, "{x} * {p}")


@operator("positions-alone", "positions-alone")
def positions_alone(source: Source) -> Iterator[Edit]:
    """Return the positions alone."""
    yield from _changed(source, "{p} + 0.0 * {x}")


@operator("positions-from-one", "positions-from-one")
def from_one(source: Source) -> Iterator[Edit]:
    """Count the positions from 1."""
    for call in source.calls("arange") if source.kind == "embedding" else ():
        step = len(call.args) == 3 or any(each.arg == "step" for each in call.keywords)
        around = set(words(source.code(source.statement(call))))
        if not step and call.args and around & (POSITIONS | {"t", "seq", "length", "len"}):
            yield Edit(call, f"({source.code(call)} + 1)")


def _function_changed(source: Source, old: str, new: str) -> Iterator[Edit]:
    for call in source.calls(old) if source.kind == "embedding" else ():
        yield Edit(call.func, re.sub(rf"{old}$", new, source.code(call.func)))


@operator("positions-sines-only", "positions-sines-only")
def sines_only(source: Source) -> Iterator[Edit]:
    """Use sines for all features."""
    yield from _function_changed(source, "cos", "sin")


@operator("positions-cosines-only", "positions-cosines-only")
def cosines_only(source: Source) -> Iterator[Edit]:
    """Use cosines for all features."""
    yield from _function_changed(source, "sin", "cos")


def _bases(source: Source) -> Iterator[ast.Constant]:
    for node in source.walk(ast.Constant) if source.kind == "embedding" else ():
        if node.value in (10000, 10000.0) and not isinstance(node.value, bool):
            yield node


@operator("positions-base-1000", "positions-base-1000")
def base_1000(source: Source) -> Iterator[Edit]:
    """Use 1,000 as the base of the angles."""
    for node in _bases(source):
        yield Edit(node, "1000.0")


@operator("positions-base-100000", "positions-base-100000")
def base_100000(source: Source) -> Iterator[Edit]:
    """Use 100,000 as the base of the angles."""
    for node in _bases(source):
        yield Edit(node, "100000.0")


@operator("positions-exponent-positive", "positions-exponent-positive")
def exponent_positive(source: Source) -> Iterator[Edit]:
    """Multiply the positions by the power of the base: `-log(10000)` becomes `log(10000)`."""
    for node in source.walk(ast.UnaryOp) if source.kind == "embedding" else ():
        if isinstance(node.op, ast.USub) and "10000" in source.code(node) and called(node.operand) == "log":
            yield Edit(node, source.code(node.operand))


@operator("positions-exponent-halved", "positions-exponent-halved")
def exponent_halved(source: Source) -> Iterator[Edit]:
    """Use 100 as the base, as if the exponent were i/d."""
    for node in _bases(source):
        yield Edit(node, "100.0")
