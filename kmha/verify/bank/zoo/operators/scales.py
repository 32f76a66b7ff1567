"""Operators that change the scale of the logits: dropped, of another size, or without its root."""

import ast
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator
from kmha.verify.bank.zoo.operators.source import FUNCTIONS, Edit, Source, called, name_of, words

ROOTS = ("sqrt", "rsqrt")
PRODUCTS = ("multiply", "mul", "divide", "truediv", "div", "true_divide", "scalar_mul")
SCALES = {"scale", "scaling", "sqrt", "rsqrt", "scaler"}
HEADS = ("num_heads", "n_heads", "n_head", "heads", "nhead", "num_attention_heads", "h", "head", "n_h", "num_head")
DRAWS = {"normal", "uniform", "randn", "rand", "truncated_normal", "standard_normal"}
SIZES = {"head", "dk", "d", "dim", "key", "size", "dh", "hs", "qk", "hd"}


def is_scale(node: ast.AST) -> bool:
    """Return whether an expression is a scale, by its name, its root or its power."""
    if called(node) in ("cast", "float", "tensor", "asarray", "array") and getattr(node, "args", None):
        return is_scale(node.args[0])  # type: ignore[attr-defined]
    if called(node) in ROOTS or _power(node) is not None:
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return is_scale(node.right) and isinstance(node.left, ast.Constant)
    return bool(SCALES & set(words(name_of(node)))) and name_of(node) not in PRODUCTS


def _power(node: ast.AST) -> float | None:
    """Return the exponent of a power of ±1/2, or `None`."""
    right = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) else None
    if called(node) in ("pow", "power") and len(node.args) == 2:  # type: ignore[attr-defined]
        right = node.args[1]  # type: ignore[attr-defined]
    try:
        value = float(ast.literal_eval(right)) if right is not None else None
    except (ValueError, TypeError):
        return None
    return value if value in (0.5, -0.5) else None


def _scaled(source: Source) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Yield each product or quotient of an array and the attention's scale, with its two parts."""
    for node in source.walk(ast.BinOp, ast.Call):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            array, scale = node.left, node.right
            if isinstance(node.op, ast.Mult) and is_scale(array) and not is_scale(scale):
                array, scale = scale, array
        elif called(node) in PRODUCTS and len(node.args) == 2:
            array, scale = node.args
        else:
            continue
        constant = isinstance(array, ast.Constant) or is_scale(array) or _is_relative(source, array) or _draws(array)
        if is_scale(scale) and not constant and _of_attention(source, node):
            yield node, array, scale


def _is_relative(source: Source, array: ast.expr) -> bool:
    """Return whether an array is made of relative positions, whose scale is a matter of taste."""
    return bool({"rel", "relative"} & set(words(source.code(array))))


def _draws(node: ast.AST) -> bool:
    return any(called(each) in DRAWS for each in ast.walk(node))


def _of_attention(source: Source, node: ast.AST) -> bool:
    """Return whether a scale is that of the logits, and not of a table of positions or of random first weights."""
    if not source.attends(node) or source.kind == "embedding":
        return False
    name = name_of(node.targets[0]) if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
    for each in ast.walk(source.around(node, *FUNCTIONS)) if name else ():
        factors = [each.left, each.right] if isinstance(each, ast.BinOp) else []
        if name in map(name_of, factors) and any(map(_draws, factors)):
            return False
    return True


def _definitions(source: Source) -> Iterator[ast.expr]:
    """Yield the expressions that define the attention's scale: assigned to a name such as `self.scale`, or used."""
    for node in source.walk(ast.Assign):
        (target, *_), value = node.targets, node.value
        # Not a root of a variance, and not a scale that is chosen by a flag.
        if is_scale(target) and is_scale(value) and _of_attention(source, node):
            yield value
    for _, _, scale in _scaled(source):
        if not isinstance(scale, ast.Name | ast.Attribute):
            yield scale


@operator("scale-dropped", "scale-missing")
def dropped(source: Source) -> Iterator[Edit]:
    """Leave out the scale where it is used: `q @ k.mT * self.scale` becomes `q @ k.mT`."""
    for node, array, _ in _scaled(source):
        yield Edit(node, f"({source.code(array)})")
    for node in source.walk(ast.AugAssign):
        if is_scale(node.value) and isinstance(node.op, ast.Mult | ast.Div) and source.attends(node):
            yield Edit(node, "pass")


@operator("scale-one", "scale-missing")
def one(source: Source) -> Iterator[Edit]:
    """Set the scale to 1 where it is defined, or where it is passed to a function that computes attention."""
    for node in source.walk(ast.Assign):
        if is_scale(node.targets[0]) and is_scale(node.value) and _of_attention(source, node):
            yield Edit(node.value, "1.0")
    for call in source.walk(ast.Call):
        for each in call.keywords:
            if each.arg == "scale" and "attention" in called(call) and not isinstance(each.value, ast.Constant):
                yield Edit(each.value, "1.0")


@operator("scale-without-root", "scale-without-root")
def without_root(source: Source) -> Iterator[Edit]:
    """Leave the root out: `d ** -0.5` becomes `d ** -1.0`, and `math.sqrt(d)` becomes `d`."""
    for scale in _definitions(source):
        for node in ast.walk(scale):
            if _power(node) is not None:
                base, exponent = _base(node), _power(node)
                yield Edit(node, f"(float({source.code(base)}) ** {2 * (exponent or 0)})")
            elif called(node) == "sqrt" and node.args:  # type: ignore[attr-defined]
                yield Edit(node, f"({source.code(node.args[0])})")  # type: ignore[attr-defined]


def _base(node: ast.AST) -> ast.expr:
    return node.left if isinstance(node, ast.BinOp) else node.args[0]  # type: ignore[attr-defined]


@operator("scale-multiplied", "scale-multiplied")
def multiplied(source: Source) -> Iterator[Edit]:
    """Multiply by the root instead of dividing by it."""
    for scale in _definitions(source):
        for node in ast.walk(scale):
            if _power(node) == -0.5:
                yield Edit(node, f"({source.part(_base(node))} ** 0.5)")
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.left, ast.Constant):
                yield Edit(node, f"({source.code(node.right)})")
            elif called(node) == "rsqrt":
                yield Edit(node.func, source.code(node.func).replace("rsqrt", "sqrt"))  # type: ignore[attr-defined]
    for node, array, scale in _scaled(source):
        quotient = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if quotient or called(node) in ("divide", "truediv", "div", "true_divide"):
            yield Edit(node, f"({source.part(array)} * {source.part(scale)})")


@operator("scale-of-all-heads", "scale-all-heads", "scale-features")
def of_all_heads(source: Source) -> Iterator[Edit]:
    """Scale by the width of all heads: `dim_head ** -0.5` becomes `(dim_head * heads) ** -0.5`."""
    for scale in _definitions(source):
        heads = _heads(source, scale)
        for node in ast.walk(scale) if heads else ():
            parent = source.parents.get(node)
            called_as = isinstance(parent, ast.Call) and parent.func is node
            name = set(words(name_of(node)))
            is_size = SIZES & name and not {*ROOTS, "inverse", "inv"} & name
            if isinstance(node, ast.Name | ast.Attribute) and not called_as and is_size:
                yield Edit(node, f"({source.code(node)} * {heads})")
                break


def _heads(source: Source, node: ast.AST) -> str:
    """Return the expression for the number of heads in the function around a node, or ""."""
    function = source.around(node, ast.FunctionDef)
    if function is None:
        return ""
    names = [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]
    names += [each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    local = [name for name in HEADS if name in names]
    owned = [each.attr for each in ast.walk(source.home(node)) if isinstance(each, ast.Attribute)]
    own = [f"self.{name}" for name in (*HEADS, *(f"_{each}" for each in HEADS)) if name in owned]
    return next(iter(local + own), "")


@operator("scale-of-length", "scale-queries", "scale-keys", "scale-heads")
def of_length(source: Source) -> Iterator[Edit]:
    """Take the size of another axis for the scale: `sqrt(q.size(-1))` becomes `sqrt(q.size(-2))`."""
    for scale in _definitions(source):
        for node in ast.walk(scale):
            axis = _axis(source, node)
            if axis is not None:
                yield Edit(axis, "-2")
    for node in source.walk(ast.Assign):
        # d_k = q.size(-1), which a later line takes the root of.
        axis = _axis(source, node.value)
        if axis is not None and name_of(node.targets[0]) and _of_attention(source, node):
            yield Edit(axis, "-2")


def _axis(source: Source, node: ast.AST) -> ast.expr | None:
    """Return the axis of `q.shape[-1]` or `q.size(-1)`, or `None`."""
    axis: ast.expr | None = None
    if isinstance(node, ast.Subscript) and name_of(node.value) == "shape":
        axis = node.slice
    elif isinstance(node, ast.Call) and called(node) == "size" and node.args:
        axis = node.args[-1]
    return axis if axis is not None and source.code(axis) == "-1" else None
