"""Operators that change the softmax: its axis, its place, or the function itself."""

import ast
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator, operators
from kmha.verify.bank.zoo.operators.source import Edit, Source, called, keyword, name_of, of_self

# Names of attributes that hold a softmax.
ATTRIBUTES = ("softmax", "_softmax", "attend", "sm", "attn_fn", "softmax_fn", "attend_fn")


def _axes(source: Source) -> Iterator[ast.expr]:
    """Yield the expressions for the last axis, as the axis of a softmax."""
    for call in source.calls("softmax", "Softmax"):
        axis = _axis(call)
        if axis is not None and source.code(axis) == "-1":
            yield axis


def _axis(call: ast.Call) -> ast.expr | None:
    """Return the axis that a softmax gets, if it gets one."""
    place = 0 if called(call) == "Softmax" or _is_method(call) else 1
    return keyword(call, "dim", "axis") or (call.args[place] if len(call.args) > place else None)


def _is_method(call: ast.Call) -> bool:
    """Return whether a softmax is a method of the logits, as in `logits.softmax(dim=-1)`."""
    return isinstance(call.func, ast.Attribute) and not call.args[1:] and _is_number(call.args[:1])


def _is_number(arguments: list[ast.expr]) -> bool:
    if not arguments:
        return True
    return isinstance(arguments[0], ast.Constant | ast.UnaryOp)


def logits_of(call: ast.Call) -> ast.expr | None:
    """Return what a softmax is taken of, or `None` for a layer that is made and not called."""
    if called(call) == "Softmax":
        return None
    if isinstance(call.func, ast.Attribute) and called(call) == "softmax" and _is_method(call):
        return call.func.value if name_of(call.func.value) not in ("self", "F", "nn", "ops", "tf", "torch") else None
    return call.args[0] if call.args else keyword(call, "input", "x", "logits")


def softmaxes(source: Source) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield each call of a softmax with the logits that it gets."""
    for call in source.walk(ast.Call):
        if called(call) in ("softmax", "softmax_fn") or (called(call) in ATTRIBUTES and of_self(call.func)):
            logits = logits_of(call)
            if logits is not None and len(call.args) <= 2:  # more arrays make it attention as a whole
                yield call, logits


def _over(source: Source, change: str) -> Iterator[Edit]:
    for axis in _axes(source):
        yield Edit(axis, change)


operators(
    _over,
    {  # The logits are (B, H, T, S), or (B·H, T, S).
        "softmax-over-queries": ("-2", "softmax-over-queries"),
        "softmax-over-axis-1": ("1", "softmax-over-heads", "softmax-over-queries"),
        "softmax-over-axis-0": ("0", "softmax-over-batch", "softmax-over-heads-and-batch"),
    },
)


@operator("softmax-dropped", "softmax-missing", "softmax-missing-masked")
def dropped(source: Source) -> Iterator[Edit]:
    """Mix the values with the logits."""
    for call, logits in softmaxes(source):
        ids = ("softmax-missing", "mask-missing") if _is_masked(source, call) else ()
        yield Edit(call, f"({source.code(logits)})", ids)


def _is_masked(source: Source, call: ast.Call) -> bool:
    """Return whether a softmax gets the mask too, so that what replaces the softmax does not apply it."""
    others = (*call.args[1:], *(each.value for each in call.keywords if "mask" in str(each.arg)))
    return any("mask" in source.code(each) for each in others)


@operator("softmax-twice", "softmax-twice", "softmax-twice-unmasked")
def twice(source: Source) -> Iterator[Edit]:
    """Take the softmax of the softmax."""
    for call, logits in softmaxes(source):
        before, _, after = source.code(call).partition(source.code(logits))
        yield Edit(call, f"{before}({source.code(call)}){after}")


@operator("softmax-of-opposite", "softmax-of-opposite", "softmax-of-opposite-masked")
def of_opposite(source: Source) -> Iterator[Edit]:
    """Take the softmax of the negative logits."""
    for _, logits in softmaxes(source):
        yield Edit(logits, f"(-({source.code(logits)}))")


@operator("softmax-logarithm", "softmax-logarithm")
def logarithm(source: Source) -> Iterator[Edit]:
    """Use the logarithm of the softmax."""
    for call in source.calls("softmax", "Softmax"):
        yield source.renamed(call, "LogSoftmax" if called(call) == "Softmax" else "log_softmax")


@operator("softmax-sigmoid", "softmax-sigmoid")
def sigmoid(source: Source) -> Iterator[Edit]:
    """Use a sigmoid."""
    for call, logits in softmaxes(source):
        ids = ("softmax-sigmoid", "mask-missing") if _is_masked(source, call) else ()
        yield Edit(call, f"(1 / (1 + 2.718281828459045 ** -({source.code(logits)})))", ids)


@operator("softmax-over-flattened", "softmax-over-flattened")
def over_flattened(source: Source) -> Iterator[Edit]:
    """Take the softmax over queries and keys together."""
    for call, logits in softmaxes(source):
        axis = _axis(call)
        if "torch." in source.text and (axis is None or source.code(axis) in ("-1", "3")):
            array = source.part(logits)
            yield Edit(call, f"{array}.flatten(-2).softmax(-1).reshape({array}.shape)")


@operator("softmax-in-half-precision", "softmax-in-half-precision")
def in_half(source: Source) -> Iterator[Edit]:
    """Compute the softmax in float16."""
    for _, logits in softmaxes(source):
        if "torch" in source.text:
            yield Edit(logits, f"{source.part(logits)}.half()")
