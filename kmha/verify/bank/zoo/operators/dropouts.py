"""Operators that change dropout, and the scores that are returned."""

import ast
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator
from kmha.verify.bank.zoo.operators.softmaxes import softmaxes
from kmha.verify.bank.zoo.operators.source import FUNCTIONS, Edit, Source, called, keyword, name_of, of_self, words


def _scores(source: Source) -> Iterator[tuple[ast.AST, str, ast.expr]]:
    """Yield each function with the name that it gives the result of its softmax, and the logits."""
    for call, logits in softmaxes(source):
        statement = source.statement(call)
        if isinstance(statement, ast.Assign) and name_of(statement.targets[0]):
            yield source.around(call, *FUNCTIONS), name_of(statement.targets[0]), logits


def _dropouts(source: Source) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield each dropout of scores, with the scores."""
    names = {(function, name) for function, name, _ in _scores(source)}
    for call in source.walk(ast.Call):
        if {"dropout", "drop"} & set(words(called(call))) and call.args:
            inside = {called(each) for each in ast.walk(call.args[0]) if isinstance(each, ast.Call)}
            if (source.around(call, *FUNCTIONS), name_of(call.args[0])) in names or "softmax" in inside:
                yield call, call.args[0]


@operator("dropout-at-inference", "dropout-at-inference", training=True)
def at_inference(source: Source) -> Iterator[Edit]:
    """Drop scores at inference too."""
    for call, scores in _dropouts(source):
        flag = keyword(call, "training", "deterministic")
        if flag is not None:
            yield Edit(flag, "False" if keyword(call, "deterministic") is not None else "True")
        elif of_self(call.func) and "torch" in source.text:
            module = source.code(call.func)
            yield Edit(call, f"torch.nn.functional.dropout({source.code(scores)}, {module}.p)")


@operator("dropout-dropped", "dropout-never", training=True)
def never(source: Source) -> Iterator[Edit]:
    """Do not drop anything: neither scores, nor, as some layers do as well, the output."""
    for call, scores in _dropouts(source):
        others = [each for each in ast.walk(source.home(call)) if {"dropout", "drop"} & set(words(called(each)))]
        if len([each for each in others if called(each) != "Dropout"]) == 1:
            yield Edit(call, f"({source.code(scores)})")


@operator("dropout-twice", "dropout-twice", training=True)
def twice(source: Source) -> Iterator[Edit]:
    """Apply dropout twice."""
    for call, scores in _dropouts(source):
        text = source.code(call)
        before, _, after = text.partition(source.code(scores))
        yield Edit(call, f"{before}{text}{after}")


@operator("dropout-on-logits", "dropout-on-logits", training=True)
def on_logits(source: Source) -> Iterator[Edit]:
    """Apply dropout to the logits, before the softmax."""
    names = {(function, name): logits for function, name, logits in _scores(source)}
    for call, scores in _dropouts(source):
        logits = names.get((source.around(call, *FUNCTIONS), name_of(scores)))
        statement = source.statement(call)
        if logits is None or not isinstance(statement, ast.Assign) or statement.value is not call:
            continue
        first = source.statement(logits)
        if source.next_statement(first) is statement and isinstance(first, ast.Assign):
            text, array = source.code(call), source.code(logits)
            dropped = text.replace(source.code(scores), array, 1)
            softmax = source.code(first.value).replace(array, dropped, 1)
            yield Edit(first, f"{source.code(statement.targets[0])} = {softmax}", last=statement)


def _returned(source: Source) -> Iterator[tuple[ast.Name, ast.expr]]:
    """Yield the scores in each tuple that is returned, with the logits that they are the softmax of."""
    names = {(function, name): logits for function, name, logits in _scores(source)}
    for node in source.walk(ast.Return):
        for each in node.value.elts if isinstance(node.value, ast.Tuple) else ():
            logits = names.get((source.around(node, *FUNCTIONS), name_of(each)))
            if isinstance(each, ast.Name) and logits is not None:
                yield each, logits


@operator("returned-logits", "returned-logits", "returned-masked-logits")
def returned_logits(source: Source) -> Iterator[Edit]:
    """Return the logits as the scores."""
    for scores, logits in _returned(source):
        if name_of(logits) != scores.id:
            yield Edit(scores, source.code(logits))


@operator("returned-transposed", "returned-transposed")
def returned_transposed(source: Source) -> Iterator[Edit]:
    """Return the scores as (B, H, S, T)."""
    for scores, _ in _returned(source):
        yield Edit(scores, f"{scores.id}.{source.transposition}")
