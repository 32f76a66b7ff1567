"""Operators that change how a mask is applied to the logits."""

import ast
import re
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator
from kmha.verify.bank.zoo.operators.softmaxes import softmaxes
from kmha.verify.bank.zoo.operators.source import FUNCTIONS, Edit, Source, called, keyword, name_of, words

MASKED = {"mask", "masks", "masked", "bias", "pad", "padding", "causal", "tril", "triu"}
FILLS = ("masked_fill", "masked_fill_")
WHERE = ("where",)
FUSED = ("scaled_dot_product_attention", "dot_product_attention")
LARGE = re.compile(
    r"-\s*(inf|math\.inf|torch\.inf|np\.inf|1e\+?\d{2}\b|1e9|1e4|1\.0e9|10000|1e5|1e6|1e8|float)|finfo|-inf|NEG|neg|min\b"
)
LOGITS = {"logits", "scores", "score", "attn", "att", "attention", "dots", "sim", "weights", "qk", "energy", "weight"}
LOGITS |= {"a", "w", "matmul", "e", "similarity", "affinity", "attentions", "product"}


def is_mask(node: ast.AST) -> bool:
    """Return whether an expression is a mask, by a name in it."""
    names = {name_of(each) for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)}
    return any(MASKED & set(words(name)) for name in names)


def _is_large(source: Source, node: ast.AST) -> bool:
    """Return whether an expression is a number that hides logits."""
    text = source.code(node)
    return bool(LARGE.search(text)) and len(text) < 60


def fills(source: Source) -> Iterator[tuple[ast.Call, ast.expr, ast.expr, ast.expr]]:
    """Yield each call that fills in hidden logits, with the logits, the mask and the number."""
    for call in source.calls(*FILLS):
        arguments = call.args
        value = arguments[1] if len(arguments) == 2 else keyword(call, "value")
        named = len(arguments) == 1 or isinstance(value, ast.Name | ast.Attribute | ast.UnaryOp)
        if not isinstance(call.func, ast.Attribute) or len(arguments) not in (1, 2) or value is None:
            continue
        if named or _is_large(source, value):
            yield call, call.func.value, arguments[0], value
    for call in source.calls(*WHERE):
        if len(call.args) == 3 and _is_large(source, call.args[2]):
            yield call, call.args[1], call.args[0], call.args[2]
        elif len(call.args) == 3 and _is_large(source, call.args[1]):
            yield call, call.args[2], call.args[0], call.args[1]


def additions(source: Source) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    """Yield each addition of a mask to the logits, with the logits and the mask."""
    for node in source.walk(ast.BinOp):
        masked = isinstance(node.op, ast.Add) and is_mask(node.right) and not is_mask(node.left)
        if masked and source.attends(node) and _is_logits(node.left):
            yield node, node.left, node.right
    for node in source.walk(ast.AugAssign):
        if isinstance(node.op, ast.Add) and is_mask(node.value) and source.attends(node) and _is_logits(node.target):
            yield node, node.target, node.value


def _is_logits(node: ast.AST) -> bool:
    """Return whether an expression may be logits: a product, or a variable with a name for logits."""
    return any(
        LOGITS & set(words(name_of(each))) for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)
    )


def ids_for(source: Source, mask: ast.AST, what: str) -> tuple[str, ...]:
    """Return the ids of a mistake with one mask, by the kinds of mask that its name may stand for."""
    names = set(words(source.code(mask)))
    causal = names & {"causal", "tril", "triu", "subsequent", "lookahead", "future"}
    padding = names & {"pad", "padding"}
    every = {
        "missing": ("mask-missing", "mask-argument-ignored", "padding-ignored", "causal-missing"),
        "inverted": ("mask-inverted", "padding-inverted", "causal-inverted"),
    }[what]
    if causal:
        return tuple(each for each in every if not each.startswith("padding") and "argument" not in each)
    return tuple(each for each in every if not each.startswith("causal")) if padding else every


@operator("mask-dropped")
def dropped(source: Source) -> Iterator[Edit]:
    """Do not apply a mask to the logits."""
    for call, logits, mask, _ in fills(source):
        yield Edit(call, f"({source.code(logits)})", ids_for(source, mask, "missing"))
    for node, logits, mask in additions(source):
        text = "pass" if isinstance(node, ast.AugAssign) else f"({source.code(logits)})"
        yield Edit(node, text, ids_for(source, mask, "missing"))


@operator("mask-not-passed-on")
def not_passed_on(source: Source) -> Iterator[Edit]:
    """Do not pass a mask on to a function or a layer that applies it."""
    for call in source.walk(ast.Call):
        for each in call.keywords:
            named = each.arg and MASKED & set(words(each.arg)) and "bias" not in words(each.arg)
            if named and name_of(each.value) and is_mask(each.value):
                yield Edit(each.value, "None", ids_for(source, each.value, "missing"))


@operator("causal-flag-dropped", "causal-missing", "mask-missing")
def causal_flag_dropped(source: Source) -> Iterator[Edit]:
    """Do not tell the fused function that attention is causal."""
    for call in source.calls(*FUSED):
        flag = keyword(call, "is_causal")
        if flag is not None and source.code(flag) != "False":
            yield Edit(flag, "False")


@operator("causal-flag-set", "causal-always")
def causal_flag_set(source: Source) -> Iterator[Edit]:
    """Tell the fused function that attention is causal, whatever the caller asks for."""
    for call in source.calls(*FUSED):
        flag = keyword(call, "is_causal")
        if flag is not None and source.code(flag) not in ("True",):
            yield Edit(flag, "True")


@operator("mask-inverted")
def inverted(source: Source) -> Iterator[Edit]:
    """Use the opposite of a mask."""
    for _, _, mask, _ in fills(source):
        yield Edit(mask, _opposite(source, mask), ids_for(source, mask, "inverted"))
    for node in source.walk(ast.BinOp):
        # (1.0 - mask) * -1e9
        one_minus = isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Constant) and node.left.value == 1
        if one_minus and is_mask(node.right):
            yield Edit(node, f"({source.code(node.right)})", ids_for(source, node.right, "inverted"))


def _opposite(source: Source, mask: ast.expr) -> str:
    """Return the text of the opposite of a mask."""
    text = source.code(mask)
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return f"({source.code(mask.operand)})"
    if called(mask) == "logical_not" and isinstance(mask, ast.Call):
        return f"({source.code(mask.args[0])})" if mask.args else f"({source.code(mask.func.value)})"  # type: ignore[attr-defined]
    if isinstance(mask, ast.Compare) and isinstance(mask.ops[0], ast.Eq | ast.NotEq):
        left, right = source.code(mask.left), source.code(mask.comparators[0])
        return f"({left} {'!=' if isinstance(mask.ops[0], ast.Eq) else '=='} {right})"
    return f"(({text}) == 0)"


FILLED: dict[str, tuple[str, ...]] = {
    # Without a bias, a key of zeros has logits of zero too.
    "1e-9": ("mask-zeroes-logits", "causal-zeroes-logits", "padding-zeroes-key"),
    "-10.0": ("mask-fills-10",),
    "-100.0": ("mask-fills-100",),
    "1e9": ("mask-fills-large", "mask-adds-large"),  # what is filled in may be added to the logits later
}


@operator("mask-fills-other-number")
def fills_other(source: Source) -> Iterator[Edit]:
    """Fill in a number that does not hide logits, such as 1e-9 instead of -1e9, if nothing else hides them."""
    for call, _, _, number in fills(source):
        if _zeroed_later(source, call):
            continue
        for text, ids in FILLED.items():
            yield Edit(number, text, ids)


def _zeroed_later(source: Source, fill: ast.Call) -> bool:
    """Return whether the function fills in zeros too, as some do after the softmax."""
    function = source.around(fill, *FUNCTIONS)
    calls = (each for each in ast.walk(function) if isinstance(each, ast.Call) and called(each) in (*FILLS, *WHERE))
    return any(isinstance(each, ast.Constant) and each.value == 0 for call in calls for each in call.args)


ADDED: dict[str, tuple[str, ...]] = {
    "-1e-9": ("mask-missing",),
    "-10.0": ("mask-adds-10",),
    "-100.0": ("mask-adds-100",),
    "-1.0": ("mask-added-ones",),
}


@operator("mask-adds-other-number")
def adds_other(source: Source) -> Iterator[Edit]:
    """Add a number that does not hide logits, such as -1e-9 instead of -1e9."""
    for node in source.walk(ast.BinOp):
        if isinstance(node.op, ast.Mult) and is_mask(node.left) and _is_large(source, node.right):
            for text, ids in ADDED.items():
                ids = ids_for(source, node.left, "missing") if text == "-1e-9" else ids
                yield Edit(node.right, text, ids)


@operator("mask-after-softmax", "mask-after-softmax", "causal-after-softmax")
def after_softmax(source: Source) -> Iterator[Edit]:
    """Fill in zeros after the softmax, instead of the numbers that hide logits before it."""
    for call, logits, _, number in fills(source):
        before = source.statement(call)
        for softmax, array in softmaxes(source):
            after = source.statement(softmax)
            inside = isinstance(before, ast.Assign) and before.value is call and isinstance(after, ast.Assign)
            if not inside or after.lineno <= before.lineno or name_of(array) != name_of(before.targets[0]):  # type: ignore[attr-defined]
                continue
            if name_of(logits) == name_of(array) and source.next_statement(before) is after and after.value is softmax:  # type: ignore[attr-defined]
                target = source.code(after.targets[0])  # type: ignore[attr-defined]
                zeros = source.code(call).replace(source.code(number), "0.0")
                zeros = re.sub(rf"\b{re.escape(name_of(logits))}\b", target, zeros, count=1)
                indent = " " * before.col_offset
                yield Edit(before, f"{source.code(after)}\n{indent}{target} = {zeros}", last=after)
