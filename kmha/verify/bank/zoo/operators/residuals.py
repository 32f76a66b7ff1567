"""Operators that change the residual connections of a block."""

import ast
from collections.abc import Iterable, Iterator

from kmha.verify.bank.zoo.operators.operator import operator, operators
from kmha.verify.bank.zoo.operators.source import FUNCTIONS, Edit, Source, called, name_of, of_self, words

RESIDUALS = {"residual", "shortcut", "identity", "skip", "inputs", "input", "res", "src", "original", "resid"}
FEED_FORWARD = {"ff", "ffn", "feed", "feedforward", "mlp", "fc", "linear", "intermediate", "pwff", "ffw"}
FEED_FORWARD |= {"fn2"}
ATTENTION = {"attn", "attention", "sa", "mha", "msa", "att", "multihead", "slf", "atten"}
CROSS = {"cross", "src", "enc", "encoder", "memory", "context", "ca", "xattn", "encdec", "inter", "source"}
OTHER_SUMS = {"scores", "score", "logits", "dots", "sim", "dim", "prev", "len", "length", "seq", "pos", "position"}
OTHER_SUMS |= {"positional", "pe", "bias", "mask", "embedding", "emb", "embeddings", "eps", "epsilon"}
NORMS = {"norm", "ln", "layernorm", "norms", "layer_norm", "prenorm", "rmsnorm"}
BLOCKS = ("encoder", "decoder")


def sublayers(source: Source, node: ast.AST) -> tuple[str, ...]:
    """Return the sublayers that an expression may belong to, by the names in it and in the statements before it."""
    statement = source.statement(node)
    texts = list(_before(source, statement, node))
    if found := first_sublayers(source, texts[:2]):
        return found
    names = set(words(getattr(source.home(node), "name", "")))
    own = _sublayers_of(source, names) if names & (ATTENTION | FEED_FORWARD) else ()
    if len(own) == 1:  # a class that is one sublayer, with its residual connection
        return own
    found = first_sublayers(source, texts[2:])
    if found:
        return found
    return ("attention", "cross", "feed-forward") if source.kind == "decoder" else ("attention", "feed-forward")


def first_sublayers(source: Source, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the sublayers that the first of these texts names, or none if no text names any."""
    found = (_sublayers_of(source, set(words(text.replace("self.", "")))) for text in texts)
    return next((each for each in found if each), ())


def _before(source: Source, statement: ast.stmt, node: ast.AST) -> Iterator[str]:
    """Yield the text of an expression, of its statement, and of the statements before it in its block.

    A sum that is the input of a sublayer is the residual connection of the sublayer before it.
    """
    yield source.code(node)
    call = source.around(node, ast.Call)
    if call is None or call not in ast.walk(statement) or not _sublayers_of(source, set(words(called(call)))):
        yield source.code(statement)
    for _, block in ast.iter_fields(source.parents[statement]):
        if isinstance(block, list) and statement in block:
            for other in reversed(block[: block.index(statement)]):
                yield source.code(other)


def _sublayers_of(source: Source, names: set[str]) -> tuple[str, ...]:
    if names & FEED_FORWARD and not names & ATTENTION:
        return ("feed-forward",)
    if not names & (ATTENTION | CROSS):
        return ()
    if source.kind != "decoder":
        return ("attention",) if not names & FEED_FORWARD else ()
    if names & CROSS:
        return ("cross",)
    return ("attention",) if names & {"self", "sa", "slf"} else ("attention", "cross")


def ids(source: Source, node: ast.AST, mistake: str) -> tuple[str, ...]:
    """Return the ids of a mistake in one sublayer, or in all if the code around the node serves every sublayer."""
    every = (mistake,) if is_helper(source, node) else ()
    return (*every, *(f"{mistake}-{each}" for each in sublayers(source, node)))


def is_helper(source: Source, node: ast.AST) -> bool:
    """Return whether a class serves any sublayer: by its name, or by a call of an argument or of `self.fn`."""
    home = source.home(node)
    named = {*words(getattr(home, "name", ""))}
    if named & {"residual", "add"} and named <= {"residual", "connection", "skip", "add", "and", "norm"}:
        return True
    names = {called(each) for each in ast.walk(home) if isinstance(each, ast.Call)}
    return bool(names & {"fn", "sublayer", "layer", "module", "func", "block", "f", "net"})


def sums(source: Source) -> Iterator[tuple[ast.AST, ast.expr, ast.expr]]:
    """Yield each residual connection, with the residual and the output of the sublayer."""
    if source.kind not in BLOCKS:
        return
    for node in source.walk(ast.BinOp, ast.AugAssign):
        if not isinstance(node.op, ast.Add):
            continue
        left, right = (node.target, node.value) if isinstance(node, ast.AugAssign) else (node.left, node.right)
        parts = {word for each in (left, right) for word in words(name_of(each) or called(each))}
        if parts & OTHER_SUMS or isinstance(left, ast.Constant) or isinstance(right, ast.Constant):
            continue
        if isinstance(left, ast.List | ast.Tuple) or isinstance(right, ast.List | ast.Tuple):
            continue
        if _is_residual(source, node, right) and not _is_residual(source, node, left):
            left, right = right, left
        if isinstance(left, ast.Name) and _is_residual(source, node, left):
            yield node, left, right


def _is_residual(source: Source, node: ast.AST, part: ast.expr) -> bool:
    """Return whether a part of a sum is the residual: by its name, or because the other part is a call."""
    if not isinstance(part, ast.Name):
        return False
    if RESIDUALS & set(words(part.id)):
        return True
    if isinstance(node, ast.AugAssign):
        return part is node.target and not RESIDUALS & set(words(name_of(node.value)))
    other = node.right if part is node.left else node.left  # type: ignore[attr-defined]
    if isinstance(other, ast.Name) and {"output", "out"} & {*words(part.id), *words(other.id)}:
        return not {"output", "out"} & set(words(part.id))
    if isinstance(other, ast.Name) and RESIDUALS & set(words(other.id)):
        return False
    statement = source.statement(node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    return isinstance(other, ast.Call) or name_of(target or node) == part.id


def _resummed(source: Source, change: tuple[str, str]) -> Iterator[Edit]:
    form, mistake = change
    for node, residual, output in sums(source):
        text = form.format(x=source.code(residual), f=source.part(output))
        text = f"{source.code(node.target)} = {text}" if isinstance(node, ast.AugAssign) else f"({text})"
        yield Edit(node, text, ids(source, node, mistake))


operators(
    _resummed,
    {  # the new text of the residual x plus the output f of the sublayer
        "residual-dropped": (("{f}", "residual-missing"),),
        "residual-doubled": (("{x} + {x} + {f}", "residual-doubled"),),
        "residual-sublayer-doubled": (("{x} + 2.0 * {f}", "residual-sublayer-doubled"),),
        "residual-output-doubled": (("2.0 * {f}", "residual-output-doubled"),),
    },
)


@operator("residual-unused")
def unused(source: Source) -> Iterator[Edit]:
    """Do not use the output of a sublayer."""
    for node, residual, _ in sums(source):
        found = ids(source, node, "residual-unused")
        skipped = ("decoder-cross-attention-skipped",) if "residual-unused-cross" in found else ()
        text = f"({source.code(residual)})"
        if isinstance(node, ast.AugAssign):
            text = "pass" if residual is node.target else f"{source.code(node.target)} = {text}"
        yield Edit(node, text, (*found, *skipped))


@operator("residual-from-normed")
def from_normed(source: Source) -> Iterator[Edit]:
    """Add the normalized input: `x + f(norm(x))` becomes `norm(x) + f(norm(x))`."""
    for node, residual, output in sums(source):
        wrong = _normed(source, node, name_of(residual), output)
        if wrong and isinstance(node, ast.BinOp):
            found = tuple(f"residual-{each}-from-normed" for each in sublayers(source, node))
            every = ("norm-replaces-input",) if is_helper(source, node) else ()
            yield Edit(residual, wrong, (*found, *every))


def _normed(source: Source, node: ast.AST, name: str, output: ast.expr) -> str:
    """Return the expression for the normalized residual: a call in the sum, or a variable assigned before it."""
    for each in ast.walk(output):
        if is_norm(each) and isinstance(each, ast.Call) and name_of(each.args[0]) == name:
            return source.code(each)
    function = source.around(node, *FUNCTIONS)
    found = ""
    for each in ast.walk(function) if function is not None else ():
        if isinstance(each, ast.Assign) and each.lineno < node.lineno and is_norm(each.value):  # type: ignore[attr-defined]
            target = name_of(each.targets[0])
            if isinstance(each.value, ast.Call) and name_of(each.value.args[0]) == name != target:
                found = target
    return found


def is_norm(node: ast.AST) -> bool:
    """Return whether a node calls a normalization that is an attribute, such as `self.norm1(x)`."""
    return isinstance(node, ast.Call) and of_self(node.func) and bool(node.args and NORMS & set(words(called(node))))
