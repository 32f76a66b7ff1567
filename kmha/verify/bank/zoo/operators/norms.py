"""Operators that change the normalizations of a block, or the code of a normalization itself."""

import ast
from collections.abc import Iterator
from typing import Any

from kmha.verify.bank.zoo.operators.operator import operator
from kmha.verify.bank.zoo.operators.residuals import BLOCKS, first_sublayers, is_helper, is_norm, sublayers
from kmha.verify.bank.zoo.operators.source import FUNCTIONS, Edit, Source, called, keyword, name_of, of_self, words

GAINS = {"gamma", "weight", "a", "g", "scale", "gain", "alpha"}
BIASES = {"beta", "bias", "b", "shift", "offset"}
PLACES = {"attention": "1", "cross": "2", "feed-forward": "last"}


def norms(source: Source) -> Iterator[ast.Call]:
    """Yield each call of a normalization in a block."""
    if source.kind in BLOCKS:
        for call in source.walk(ast.Call):
            words_of_class = set(words(getattr(source.home(call), "name", "")))
            if is_norm(call) and not {"attention", "attn"} & words_of_class and len(call.args) == 1:
                yield call


def _sublayers(source: Source, call: ast.Call) -> tuple[str, ...]:
    """Return the sublayers that a normalization may belong to: those in its statement, or in the next ones."""
    own = _numbered(source, call) or first_sublayers(source, [name_of(call.func)])
    return own or first_sublayers(source, _after(source, call)) or sublayers(source, call.func)


def _after(source: Source, call: ast.Call) -> Iterator[str]:
    """Yield the text of the statements after a normalization whose input is kept: it belongs to the next sublayer."""
    statement, given = source.statement(call), name_of(call.args[0])
    before = source.previous_statement(statement)
    kept = isinstance(before, ast.Assign) and name_of(before.value) == given
    if given and isinstance(statement, ast.Assign) and (kept or name_of(statement.targets[0]) not in ("", given)):
        while (following := source.next_statement(statement)) is not None:
            yield source.code(following)
            statement = following


def _numbered(source: Source, call: Any) -> tuple[str, ...]:
    """Return the sublayer of a normalization with a number, such as `self.norm2`, counted in its class."""
    name = call.func.attr
    nodes: Iterator[Any] = ast.walk(source.home(call))
    called_norms = {each.func.attr for each in nodes if is_norm(each)}
    alike = sorted(each for each in called_norms if each.rstrip("0123456789") == name.rstrip("0123456789"))
    order = ("attention", "cross", "feed-forward") if len(alike) == 3 else ("attention", "feed-forward")
    return (order[alike.index(name)],) if len(alike) == len(order) and name in alike else ()


@operator("norm-dropped")
def dropped(source: Source) -> Iterator[Edit]:
    """Leave out a normalization."""
    for call in norms(source):
        every = ("norm-never",) if is_helper(source, call) else ()
        found = tuple(f"norm-missing-{each}" for each in _sublayers(source, call))
        yield Edit(call, f"({source.code(call.args[0])})", (*every, *found))


@operator("norm-of-other-sublayer")
def shared(source: Source) -> Iterator[Edit]:
    """Use the normalization of another sublayer: `self.norm2(x)` becomes `self.norm1(x)`."""
    by_function: dict[ast.AST, list[Any]] = {}
    for call in norms(source):
        by_function.setdefault(source.around(call, *FUNCTIONS), []).append(call)
    for calls in by_function.values():
        for call in calls:
            for other in {each.func.attr: each for each in calls}.values():
                found = _shared_ids(source, call, other)
                if other.func.attr != call.func.attr and found:
                    yield Edit(call.func, source.code(other.func), found)


def _shared_ids(source: Source, call: ast.Call, other: ast.Call) -> tuple[str, ...]:
    pairs = [(PLACES[one], PLACES[two]) for one in _sublayers(source, call) for two in _sublayers(source, other)]
    if "keras" in source.text:  # what is never called has no weights, so nothing tells which of the two is used
        pairs += [(two, one) for one, two in pairs]
    return tuple(f"norm-shared-{one}-{two}" for one, two in pairs if one != two)


def _in_norm(source: Source, *types: type) -> Iterator[Any]:
    """Yield the nodes inside classes and functions that are normalizations by their name."""
    for node in source.walk(*types):
        home = source.home(node)
        name = set(words(getattr(home, "name", "")))
        if {"norm", "layernorm", "normalization", "ln"} & name and not {"pre", "post", "residual", "add"} & name:
            yield node


@operator("norm-epsilon-outside", "norm-epsilon-outside")
def epsilon_outside(source: Source) -> Iterator[Edit]:
    """Add epsilon to the standard deviation: `sqrt(var + eps)` becomes `sqrt(var) + eps`."""
    for call in _in_norm(source, ast.Call):
        inner = call.args[0] if called(call) == "sqrt" and call.args else None
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Add) and "eps" in source.code(inner.right):
            func = source.code(call.func)
            yield Edit(call, f"({func}({source.code(inner.left)}) + {source.code(inner.right)})")


@operator("norm-unbiased", "norm-unbiased")
def unbiased(source: Source) -> Iterator[Edit]:
    """Divide the sum of squares by n - 1."""
    for call in _in_norm(source, ast.Call):
        if called(call) in ("var", "std", "var_mean"):
            flag = keyword(call, "unbiased")
            if flag is not None and source.code(flag) == "False":
                yield Edit(flag, "True")
            correction = keyword(call, "correction")
            if correction is not None and source.code(correction) == "0":
                yield Edit(correction, "1")


@operator("norm-not-centred", "norm-not-centred", "norm-variance-around-zero", "norm-root-mean-square")
def not_centred(source: Source) -> Iterator[Edit]:
    """Do not subtract the mean."""
    for node in _in_norm(source, ast.BinOp):
        if isinstance(node.op, ast.Sub) and {"mean", "mu", "u"} & set(words(source.code(node.right))):
            yield Edit(node, f"({source.code(node.left)})")


@operator("norm-gain-dropped", "norm-gain-missing")
def gain_dropped(source: Source) -> Iterator[Edit]:
    """Do not multiply by the gain."""
    for node in _in_norm(source, ast.BinOp):
        for gain, other in ((node.left, node.right), (node.right, node.left)):
            own = of_self(gain) and GAINS & set(words(name_of(gain)))
            if isinstance(node.op, ast.Mult) and own:
                yield Edit(node, f"({source.code(other)})")


@operator("norm-bias-dropped", "norm-bias-missing")
def bias_dropped(source: Source) -> Iterator[Edit]:
    """Do not add the bias."""
    for node in _in_norm(source, ast.BinOp):
        own = of_self(node.right) and BIASES & set(words(name_of(node.right)))
        if isinstance(node.op, ast.Add) and own:
            yield Edit(node, f"({source.code(node.left)})")


@operator("norm-without-root", "norm-without-root")
def without_root(source: Source) -> Iterator[Edit]:
    """Divide by the variance: `sqrt(var + eps)` becomes `(var + eps)`."""
    for call in _in_norm(source, ast.Call):
        if called(call) == "sqrt" and call.args:
            yield Edit(call, f"({source.code(call.args[0])})")
