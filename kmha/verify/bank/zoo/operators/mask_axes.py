"""Operators that change what a mask hides: its diagonal, its axes, or how it is combined with another."""

import ast
import re
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.masks import is_mask
from kmha.verify.bank.zoo.operators.operator import operator, operators
from kmha.verify.bank.zoo.operators.source import Edit, Source, called, is_module, keyword, pattern_of, words

TRIANGLES = ("triu", "tril")


def _triangles(source: Source) -> Iterator[tuple[ast.Call, ast.expr | None]]:
    """Yield each call that makes a triangle, with the expression for its diagonal."""
    for call in source.calls(*TRIANGLES):
        diagonal = keyword(call, "diagonal", "k")
        place = 0 if isinstance(call.func, ast.Attribute) and not is_module(call.func.value) else 1
        if diagonal is None and len(call.args) > place:
            diagonal = call.args[place]
        yield call, diagonal


def _moved(source: Source, change: int) -> Iterator[Edit]:
    for call, diagonal in _triangles(source):
        if diagonal is not None:
            yield Edit(diagonal, f"({source.code(diagonal)} {change:+d})")
        elif call.args or isinstance(call.func, ast.Attribute):
            yield Edit(call, f"{source.code(call)[:-1].rstrip().rstrip(',')}{', ' if call.args else ''}{change})")


operators(
    _moved,
    {
        "diagonal-one-more": (1, "causal-one-ahead"),  # each position sees the next one
        "diagonal-one-less": (-1, "causal-strict"),  # no position sees itself
    },
)


@operator("triangle-of-the-other-side", "causal-reversed", "causal-inverted")
def other_side(source: Source) -> Iterator[Edit]:
    """Take the other triangle: `triu(x, 1)` becomes `tril(x, -1)`."""
    for call, diagonal in _triangles(source):
        text, name = source.code(call), called(call)
        func = source.code(call.func)
        new = func[: -len(name)] + ("tril" if name == "triu" else "triu")
        if diagonal is None:
            yield Edit(call, new + text[len(func) :])
        else:
            inside = text[len(func) :].replace(source.code(diagonal), f"-({source.code(diagonal)})")
            yield Edit(call, new + inside)


POSITIONS = {"row", "col", "column", "pos", "position", "positions", "index", "i", "j", "q", "k", "idx", "range"}
POSITIONS |= {"arange", "rows", "cols", "columns"}
FUNCTIONS = {"greater_equal": "greater", "less_equal": "less"}


@operator("causal-comparison-strict", "causal-strict")
def comparison_strict(source: Source) -> Iterator[Edit]:
    """Compare positions with `>` instead of `>=`."""
    for node in source.walk(ast.Compare):
        names = set(words(source.code(node)))
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.GtE | ast.LtE) and POSITIONS & names:
            statement = source.statement(node)
            if not isinstance(statement, ast.If) and ("[" in source.code(node) or "index" in names):
                sign = ">" if isinstance(node.ops[0], ast.GtE) else "<"
                yield Edit(node, f"({source.code(node.left)} {sign} {source.code(node.comparators[0])})")
    for call in source.calls(*FUNCTIONS):
        yield source.renamed(call, FUNCTIONS[called(call)])


@operator("padding-on-queries", "padding-on-queries", "mask-transposed")
def on_queries(source: Source) -> Iterator[Edit]:
    """Give the padding mask its axis at the queries: `mask[:, None, None, :]` becomes `mask[:, None, :, None]`."""
    for node in source.walk(ast.Subscript):
        text = source.code(node.slice).replace(" ", "").replace("tf.newaxis", "None").replace("np.newaxis", "None")
        if text == ":,None,None,:" and is_mask(node.value):
            yield Edit(node, f"{source.code(node.value)}[:, None, :, None]")
    for call in source.calls("unsqueeze"):
        inner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(inner, ast.Call) and called(inner) == "unsqueeze" and is_mask(call) and call.args and inner.args:
            axes = source.code(inner.args[0]), source.code(call.args[0])
            if axes == ("1", "2"):
                yield Edit(call.args[0], "3")
    for call in source.calls("rearrange"):
        pattern, text = pattern_of(call)
        text = re.sub(r"\s+", " ", text).strip()
        found = re.match(r"^(\w+) (\w+) -> \1 ((?:\(\) |1 )+)\2$", text)
        if found and pattern is not None and len(found[3].split()) == 2:
            one = found[3].split()[0]
            yield Edit(pattern, repr(f"{found[1]} {found[2]} -> {found[1]} {one} {found[2]} {one}"))
        elif found and pattern is not None:
            yield Edit(pattern, repr(f"{found[1]} {found[2]} -> {found[1]} {found[2]} {found[3].split()[0]}"))


# With as many items as heads, the only sizes that it runs with, a mask that is tiled over (B·H) gives the same numbers.
@operator("mask-without-heads-axis", "mask-items-as-heads", "mask-tiled")
def without_heads(source: Source) -> Iterator[Edit]:
    """Put the new axis of a mask before the batch: `mask.unsqueeze(1)` becomes `mask.unsqueeze(0)`."""
    for call in source.calls("unsqueeze", "expand_dims"):
        array = call.func.value if called(call) == "unsqueeze" and isinstance(call.func, ast.Attribute) else None
        array = call.args[0] if called(call) == "expand_dims" and call.args else array
        axis = keyword(call, "axis", "dim") or (call.args[-1] if call.args else None)
        named = isinstance(array, ast.Name | ast.Attribute) and is_mask(array)
        if named and axis is not None and source.code(axis) in ("1", "-3"):
            yield Edit(axis, "0")


# In self-attention, the causal mask allows a token at t to attend to nothing that is padding at the end of its item. So
# OR with this mask changes nothing in the padding mask.
@operator("masks-either", "masks-either", "padding-replaces-causal")
def either(source: Source) -> Iterator[Edit]:
    """Combine two masks with OR instead of AND."""
    for node in source.walk(ast.BinOp):
        if isinstance(node.op, ast.BitAnd | ast.BitOr) and is_mask(node.left) and is_mask(node.right):
            sign = "|" if isinstance(node.op, ast.BitAnd) else "&"
            yield Edit(node, f"({source.code(node.left)} {sign} {source.code(node.right)})")
    other = {"logical_and": "logical_or", "logical_or": "logical_and", "minimum": "maximum"}
    for call in source.calls(*other):
        if len(call.args) == 2 and all(map(is_mask, call.args)):
            yield source.renamed(call, other[called(call)])
    for node in source.walk(ast.AugAssign):
        if isinstance(node.op, ast.BitAnd | ast.BitOr) and is_mask(node.target) and is_mask(node.value):
            sign = "|" if isinstance(node.op, ast.BitAnd) else "&"
            yield Edit(node, f"{source.code(node.target)} {sign}= {source.code(node.value)}")


@operator("mask-tiled", "mask-tiled")
def tiled(source: Source) -> Iterator[Edit]:
    """Tile a mask over (B·H) instead of repeating each item's mask."""
    for call in source.calls("repeat"):
        pattern, text = pattern_of(call)
        found = re.search(r"->\s*\((\w+) (\w+)\)", text)
        if found and pattern is not None and is_mask(call.args[0]):
            yield Edit(pattern, repr(text.replace(f"({found[1]} {found[2]})", f"({found[2]} {found[1]})")))
    for call in source.calls("repeat_interleave"):
        if is_mask(call.func) and len(call.args) == 2 and isinstance(call.func, ast.Attribute):
            array = source.code(call.func.value)
            yield Edit(call, f"{array}.repeat({source.code(call.args[0])}, *[1] * ({array}.ndim - 1))")
