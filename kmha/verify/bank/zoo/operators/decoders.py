"""Operators that change a decoder: what the second attention gets, and which attention is called."""

import ast
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator
from kmha.verify.bank.zoo.operators.residuals import ATTENTION, CROSS
from kmha.verify.bank.zoo.operators.source import FUNCTIONS, Edit, Source, called, name_of, of_self, words

MEMORY = {"memory", "enc", "encoder", "context", "src", "source", "cross"}


def _is_memory(node: ast.AST) -> bool:
    name = set(words(name_of(node)))
    return isinstance(node, ast.Name) and bool(MEMORY & name) and not {"mask", "padding", "pad"} & name


def _calls(source: Source) -> Iterator[ast.Call]:
    """Yield each call in a decoder that passes on what the encoder returned, and the block's own sequence first."""
    if source.kind == "decoder":
        for call in source.walk(ast.Call):
            given = [*call.args, *(each.value for each in call.keywords)]
            own = given and isinstance(given[0], ast.Name | ast.Call) and not _is_memory(given[0])
            if any(map(_is_memory, given)) and own and isinstance(call.func, ast.Attribute):
                yield call


@operator("decoder-memory-from-block", "decoder-memory-from-block1", "decoder-memory-from-input", "inputs-all-query")
def memory_from_block(source: Source) -> Iterator[Edit]:
    """Pass the second attention the decoder's own sequence as key and value."""
    for call in _calls(source):
        given = [*call.args, *(each.value for each in call.keywords)]
        names = {name_of(each) for each in given if _is_memory(each)}
        first = given[0]
        if len(names) == 1:
            text, start = source.code(call), source.code(call.func)
            rest = text[len(start) :]
            for name in names:
                parts = [source.code(each) for each in call.args]
                parts = [source.code(first) if each == name else each for each in parts]
                pairs = [(each.arg, source.code(each.value)) for each in call.keywords if each.arg]
                parts += [f"{arg}={source.code(first) if value == name else value}" for arg, value in pairs]
                if rest and name in rest:
                    yield Edit(call, f"{start}({', '.join(parts)})")


@operator("decoder-attention-shared")
def attention_shared(source: Source) -> Iterator[Edit]:
    """Call one attention instead of the other."""
    if source.kind != "decoder":
        return
    by_function: dict[ast.AST, dict[str, ast.Call]] = {}
    for call in source.walk(ast.Call):
        name = set(words(called(call)))
        if of_self(call.func) and name & ATTENTION and not name & {"norm", "ln", "dropout", "drop", "block"}:
            place = "cross" if name & CROSS or name & {"multihead"} else "self" if name & {"self", "sa", "slf"} else ""
            by_function.setdefault(source.around(call, *FUNCTIONS), {}).setdefault(place, call)
    found = [calls for calls in by_function.values() if {"self", "cross"} <= calls.keys()]
    for calls in found:
        new = source.code(calls["self"].func)
        yield Edit(calls["cross"].func, new, ("decoder-attention-shared",))
        new = source.code(calls["cross"].func)
        yield Edit(calls["self"].func, new, ("decoder-attention-shared-second",))
