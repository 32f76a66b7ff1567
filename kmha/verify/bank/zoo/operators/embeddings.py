"""Operators that change an embedding: its scale, and its positions."""

import ast
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator, operators
from kmha.verify.bank.zoo.operators.scales import is_scale
from kmha.verify.bank.zoo.operators.source import Edit, Source, called, name_of, words

POSITIONS = {"pos", "position", "positions", "positional", "pe", "posemb", "wpe", "encoding"}
ROTARY = {"rotary", "rope", "rot", "freq", "freqs", "frequencies"}
COUNTS = {"index", "offset", "start", "past", "step"}  # words for numbers that are added to the positions' numbers


def _scaled(source: Source) -> Iterator[tuple[ast.BinOp, ast.expr, ast.expr]]:
    """Yield each product of an embedding and its scale."""
    for node in source.walk(ast.BinOp) if source.kind == "embedding" else ():
        if isinstance(node.op, ast.Mult):
            for array, scale in ((node.left, node.right), (node.right, node.left)):
                fixed = is_scale(array) or isinstance(array, ast.Constant) or _is_free(source, array)
                if is_scale(scale) and not fixed:
                    yield node, array, scale


def _is_free(source: Source, array: ast.expr) -> bool:
    """Return whether the scale of an array is a matter of taste: positions, or vectors that the caller embedded."""
    arguments = {each.arg for each in source.around(array, ast.FunctionDef).args.args}
    return bool(POSITIONS & set(words(source.code(array)))) or name_of(array) in arguments


def _rescaled(source: Source, change: str) -> Iterator[Edit]:
    for node, array, scale in _scaled(source):
        yield Edit(node, change.format(x=source.part(array), s=source.part(scale)))


operators(
    _rescaled,
    {  # the new text of the embedding x times its scale s
        "embedding-scale-dropped": ("({x})", "embedding-unscaled"),
        "embedding-divided": ("({x} / {s})", "embedding-divided"),
        "embedding-scaled-by-width": ("({x} * {s} * {s})", "embedding-scaled-by-width"),
    },
)


def _sums(source: Source) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    """Yield each sum of an embedding and its positions."""
    for node in source.walk(ast.BinOp, ast.AugAssign) if source.kind == "embedding" else ():
        if not isinstance(node.op, ast.Add):
            continue
        parts = (node.target, node.value) if isinstance(node, ast.AugAssign) else (node.left, node.right)
        # A sum that contains the positions is not the positions.
        named = [not isinstance(part, ast.BinOp) and bool(POSITIONS & set(words(source.code(part)))) for part in parts]
        constant = any(isinstance(part, ast.Constant) or called(part) in ("arange", "range") for part in parts)
        constant = constant or any(COUNTS & set(words(source.code(part))) for part in parts)
        if named[1] and not constant:
            yield node, parts[0], parts[1]
        elif named[0] and not constant and isinstance(node, ast.BinOp):
            yield node, parts[1], parts[0]


ALONE = "{p} + 0.0 * {x}"


def _changed(source: Source, change: str) -> Iterator[Edit]:
    for node, tokens, positions in _sums(source):
        embeds = any(isinstance(each, ast.Call) for each in ast.walk(tokens))
        if change == ALONE and not embeds:  # a class that embeds no tokens may be meant to return positions alone
            continue
        text = change.format(x=source.part(tokens), p=source.part(positions))
        yield Edit(node, f"{source.code(tokens)} = {text}" if isinstance(node, ast.AugAssign) else f"({text})")


operators(
    _changed,
    {  # the new text of the embedding x plus the positions p
        "positions-dropped": ("{x}", "positions-missing"),
        "positions-twice": ("{x} + {p} + {p}", "positions-twice"),
        "positions-subtracted": ("{x} - {p}", "positions-subtracted"),
        "positions-multiplied": ("{x} * {p}", "positions-multiplied"),
        "positions-alone": (ALONE, "positions-alone"),
    },
)


def _is_rotary(source: Source, node: ast.AST) -> bool:
    """Return whether code is about rotary positions, whose base and first position are a matter of taste."""
    return bool(ROTARY & {*words(getattr(source.home(node), "name", ""))})


@operator("positions-from-one", "positions-from-one")
def from_one(source: Source) -> Iterator[Edit]:
    """Count the positions from 1. Rows of a trained table may be counted from any number."""
    computed = source.kind == "embedding" and any(source.calls("sin", "cos"))
    for call in source.calls("arange") if computed else ():
        if _is_rotary(source, call):
            continue
        step = len(call.args) == 3 or any(each.arg == "step" for each in call.keywords)
        around = set(words(source.code(source.statement(call))))
        if not step and call.args and around & (POSITIONS | {"t", "seq", "length", "len"}):
            yield Edit(call, f"({source.code(call)} + 1)")


def _function_changed(source: Source, change: tuple[str, str]) -> Iterator[Edit]:
    old, new = change
    for call in source.calls(old) if source.kind == "embedding" else ():
        yield source.renamed(call, new)


operators(
    _function_changed,
    {
        "positions-sines-only": (("cos", "sin"), "positions-sines-only", "rotary-sines-only"),
        "positions-cosines-only": (("sin", "cos"), "positions-cosines-only", "rotary-cosines-only"),
    },
)


def _base_changed(source: Source, change: str) -> Iterator[Edit]:
    for node in source.walk(ast.Constant) if source.kind == "embedding" else ():
        if node.value in (10000, 10000.0) and not _is_rotary(source, node):
            yield Edit(node, change)


operators(
    _base_changed,
    {
        "positions-base-1000": ("1000.0", "positions-base-1000"),
        "positions-base-100000": ("100000.0", "positions-base-100000"),
        "positions-exponent-halved": ("100.0", "positions-exponent-halved"),  # as if the exponent were i/d
    },
)


@operator("positions-exponent-positive", "positions-exponent-positive")
def exponent_positive(source: Source) -> Iterator[Edit]:
    """Multiply the positions by the power of the base: `-log(10000)` becomes `log(10000)`."""
    for node in source.walk(ast.UnaryOp) if source.kind == "embedding" else ():
        if isinstance(node.op, ast.USub) and "10000" in source.code(node) and called(node.operand) == "log":
            yield Edit(node, source.code(node.operand))
