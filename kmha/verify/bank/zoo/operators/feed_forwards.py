"""Operators that change the feed-forward network of a block."""

import ast
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator, operators
from kmha.verify.bank.zoo.operators.residuals import ATTENTION, BLOCKS, FEED_FORWARD
from kmha.verify.bank.zoo.operators.source import Edit, Source, called, name_of, of_self, text_of, words

FUNCTIONS = {"relu", "gelu", "silu", "swish", "activation", "act", "activation_fn", "act_fn", "_activation"}
LAYERS = {"ReLU", "GELU", "SiLU", "Swish", "QuickGELU", "ReLu"}
PARTS = {"norm", "ln", "layernorm", "dropout", "drop", "intermediate", "output", "in", "out", "up", "down", "layer"}
LINEAR = {"linear", "dense", "fc", "w", "lin", "proj", "conv", "c", "out"}


def _activations(source: Source) -> Iterator[ast.Call]:
    """Yield each call of an activation function in a block, outside of its attention."""
    for call in source.walk(ast.Call) if source.kind in BLOCKS else ():
        around = set(words(getattr(source.home(call), "name", "")))
        attention = around & ATTENTION and not around & FEED_FORWARD
        if called(call) in FUNCTIONS and len(call.args) == 1 and not attention:
            yield call


def _made(source: Source) -> Iterator[ast.Call]:
    """Yield each activation layer that a block makes, such as `nn.GELU()`."""
    if source.kind in BLOCKS:
        for call in source.walk(ast.Call):
            if called(call) in LAYERS and not call.args:
                yield call


def _named(source: Source) -> Iterator[ast.keyword]:
    """Yield each argument `activation="relu"` of a layer."""
    if source.kind in BLOCKS:
        for call in source.walk(ast.Call):
            for each in call.keywords:
                given = text_of(each.value) in ("relu", "gelu", "swish", "silu")
                if each.arg == "activation" and (given or (name_of(each.value) and "Dense" in called(call))):
                    yield each


@operator("activation-dropped", "feed-forward-activation-missing")
def activation_dropped(source: Source) -> Iterator[Edit]:
    """Leave out the activation."""
    for call in _activations(source):
        yield Edit(call, f"({source.code(call.args[0])})")
    for call in _made(source):
        yield Edit(call, f"{source.renamed(call, 'Identity').text}()")
    for each in _named(source):
        yield Edit(each.value, "None")


def _activated(source: Source, change: str) -> Iterator[Edit]:
    for call in _made(source):
        yield Edit(call, f"{source.renamed(call, change.capitalize()).text}()")
    for each in _named(source):
        yield Edit(each.value, f"'{change}'")
    for call in _activations(source):
        if called(call) in ("relu", "gelu", "silu"):
            yield source.renamed(call, change)


operators(
    _activated,
    {  # No usual block uses these functions.
        "activation-tanh": ("tanh", "feed-forward-activation-tanh"),
        "activation-sigmoid": ("sigmoid", "feed-forward-activation-sigmoid"),
    },
)


@operator("activation-after-second", "feed-forward-activation-after-second")
def after_second(source: Source) -> Iterator[Edit]:
    """Apply the activation after the second layer: `w2(act(w1(x)))` becomes `act(w2(w1(x)))`."""
    for call in _activations(source):
        outer, node = None, source.parents.get(call)
        while isinstance(node, ast.Call) and len(node.args) >= 1:
            outer = node if LINEAR & set(words(called(node).rstrip("0123456789_"))) else outer
            node = source.parents.get(node)
        if outer is not None and isinstance(call.args[0], ast.Call):
            inner = source.code(outer).replace(source.code(call), source.code(call.args[0]), 1)
            yield Edit(outer, f"{source.code(call.func)}({inner})")


@operator("feed-forward-twice", "feed-forward-twice")
def twice(source: Source) -> Iterator[Edit]:
    """Run the feed-forward network twice."""
    if source.kind not in BLOCKS:
        return
    for call in source.walk(ast.Call):
        own = of_self(call.func) and len(call.args) == 1
        name = set(words(called(call)))
        if own and name & {"ff", "ffn", "mlp", "feed", "feedforward"} and not name & PARTS:
            yield Edit(call, f"{source.code(call.func)}({source.code(call)})")
