"""Operators that change one of the two products: query with key, and scores with value."""

import ast
import re
from collections.abc import Callable, Iterator

from kmha.verify.bank.zoo.operators.operator import operator, operators
from kmha.verify.bank.zoo.operators.source import (
    FUNCTIONS,
    PASSING,
    Edit,
    Source,
    called,
    name_of,
    pattern_of,
    role,
    text_of,
)

MATMUL = ("matmul", "bmm", "batch_dot", "dot", "baddbmm", "dot_general", "mm")
FUSED = ("scaled_dot_product_attention", "dot_product_attention", "flash_attn_func", "memory_efficient_attention")


def products(source: Source) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """Yield each product of two arrays with the two arrays: `@`, a function, a method, or an einsum."""
    for node in source.walk(ast.BinOp, ast.Call):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield node, [node.left, node.right]
        elif called(node) in MATMUL:
            arrays = list(node.args)
            if len(arrays) == 1 and isinstance(node.func, ast.Attribute):
                arrays = [node.func.value, *arrays]
            yield node, arrays[-2:]
        elif called(node) == "einsum":
            arrays = [each for each in node.args if not text_of(each)]
            if len(arrays) == 2:
                yield node, arrays


def logits(source: Source) -> Iterator[tuple[ast.expr, dict[str, ast.expr]]]:
    """Yield each product of query and key, with the two arrays keyed by role."""
    for node, arrays in products(source):
        found = {role(array): array for array in arrays}
        if found.keys() == {"query", "key"}:
            yield node, found
    for call in source.calls(*FUSED):
        found = _fused(call)
        if {"query", "key", "value"} <= found.keys():
            yield call, {name: found[name] for name in ("query", "key")}


def _fused(call: ast.Call) -> dict[str, ast.expr]:
    found = dict(zip(("query", "key", "value"), call.args, strict=False))
    return found | {each.arg: each.value for each in call.keywords if each.arg in ("query", "key", "value")}


def mixes(source: Source) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Yield each product of scores and values, with the two arrays. `v @ w_v` is a projection."""
    for node, arrays in products(source):
        roles = [role(array) for array in arrays]
        if len(arrays) == 2 and roles.count("value") == 1 and not {"query", "key"} & set(roles):
            value = arrays[roles.index("value")]
            yield node, next(array for array in arrays if array is not value), value


def variable(node: ast.AST) -> ast.expr | None:
    """Return the variable or attribute in an expression that has the expression's role."""
    for each in ast.walk(node):
        if not isinstance(each, ast.Name | ast.Attribute) or name_of(each) in PASSING:
            continue
        if role(each) and role(each) == role(node):
            return each
    return None


def _exchanged(source: Source, change: tuple[str, str]) -> Iterator[Edit]:
    """Use the array of the second role instead of the first in the product of query and key."""
    wrong, other = change
    for node, found in logits(source):
        values = [array for _, _, array in mixes(source) if source.home(array) is source.home(node)]
        if isinstance(node, ast.Call) and called(node) in FUSED:
            values = [_fused(node)["value"]]
        arrays = found | {"value": values[0]} if values else found
        old, new = variable(found[wrong]), variable(arrays[other]) if other in arrays else None
        if old is not None and new is not None:
            yield Edit(old, source.code(new), _with_scale(source, node, found["query"], wrong, other))


# If the query alone is scaled before the product, the query twice is scaled twice, and the key twice is not scaled.
SCALES = {
    ("key", "query"): ("logits-query-query", "scale-without-root", "key-ignored"),
    ("query", "key"): ("logits-key-key", "scale-missing", "query-ignored"),
}


def _with_scale(source: Source, node: ast.AST, query: ast.expr, wrong: str, other: str) -> tuple[str, ...]:
    """Return the ids of an exchange that also changes the scale, or none if the query is not scaled before."""
    name = re.escape(name_of(variable(query) or query))
    function = source.around(node, *FUNCTIONS)
    scaled = rf"\b{name} *([*/]= *|= *[\w.]*\({name}, |= *{name} *[*/] *)[\w.]*(scal|sqrt|depth|shape|dim|norm)"
    return SCALES.get((wrong, other), ()) if name and re.search(scaled, source.code(function)) else ()


# After projections of one input, the exchange is one of kernels, too.
operators(
    _exchanged,
    {
        "logits-query-query": (("key", "query"), "logits-query-query", "kernels-query-for-key", "key-ignored"),
        "logits-key-key": (("query", "key"), "logits-key-key", "kernels-key-for-query", "query-ignored"),
        "logits-query-value": (("key", "value"), "logits-query-value"),
    },
)


@operator("mix-key", "mix-key", "value-ignored", "kernels-key-for-value")
def mix_key(source: Source) -> Iterator[Edit]:
    """Mix the keys. If key and value come from one input, this is the same as the key's kernel for the value."""
    keys = {source.home(node): variable(found["key"]) for node, found in logits(source)}
    for node, _, array in mixes(source):
        old, new = variable(array), keys.get(source.home(node))
        if old is not None and new is not None:
            yield Edit(old, source.code(new))
    for call in source.calls(*FUSED):
        found = _fused(call)
        if {"key", "value"} <= found.keys():
            yield Edit(found["value"], source.code(found["key"]))


def _einsum(source: Source, wanted: str) -> Iterator[tuple[ast.Constant, list[str], str, int]]:
    """Yield the equation of each einsum of query and key, or of scores and value, as its parts.

    The parts are the labels of the arrays, the labels of the result, and the index of the scores among the arrays.
    """
    sites: list[tuple[ast.expr, ast.expr | None]] = (
        [(node, None) for node, _ in logits(source)] if wanted == "logits" else []
    )
    sites += [(node, scores) for node, scores, _ in mixes(source)] if wanted == "mix" else []
    for node, scores in sites:
        if called(node) != "einsum":
            continue
        place, equation = pattern_of(node)  # type: ignore[arg-type]
        left, arrow, right = equation.partition("->")
        if arrow:
            arrays = [each for each in node.args if each is not place]  # type: ignore[attr-defined]
            yield place, left.split(","), right, arrays.index(scores) if scores in arrays else 0  # type: ignore[misc]


def _exchanged_axes(labels: str, one: str, other: str) -> str:
    """Return the labels of an array with two axes exchanged: "b h i j" becomes "b h j i"."""
    return re.sub(rf"\b({one}|{other})\b" if " " in labels.strip() else f"{one}|{other}", _other(one, other), labels)


def _other(one: str, other: str) -> Callable[[re.Match[str]], str]:
    return lambda match: other if match.group() == one else one


def _labels(text: str) -> list[str]:
    text = text.replace("...", " " if " " in text.strip() else "").strip()
    return text.split() if " " in text else list(text)


@operator("logits-transposed", "logits-key-query")
def transposed(source: Source) -> Iterator[Edit]:
    """Exchange the axes of queries and keys in the logits that an einsum returns."""
    for place, arrays, result, _ in _einsum(source, "logits"):
        first, second, kept = (set(_labels(each)) for each in (*arrays, result))
        if len((first - second) & kept) == len((second - first) & kept) == 1:
            new = _exchanged_axes(result, *((first - second) & kept), *((second - first) & kept))
            yield Edit(place, repr(f"{','.join(arrays)}->{new}"))


@operator("scores-transposed", "mix-scores-transposed")
def scores_transposed(source: Source) -> Iterator[Edit]:
    """Exchange the axes of queries and keys in the scores that the values are mixed with."""
    for place, arrays, result, index in _einsum(source, "mix"):
        own, value, kept = (set(_labels(each)) for each in (arrays[index], arrays[1 - index], result))
        rows, columns = (own - value) & kept, (own & value) - kept
        if len(rows) == len(columns) == 1:
            new = _exchanged_axes(arrays[index], *rows, *columns)
            both = [new if number == index else each for number, each in enumerate(arrays)]
            yield Edit(place, repr(f"{','.join(both)}->{result}"))
    for node, scores, _ in mixes(source):
        if isinstance(node, ast.BinOp) or called(node) in ("matmul", "bmm"):
            yield Edit(scores, f"{source.part(scores)}.{source.transposition}")
