"""Find the line of the candidate's code that makes a mistake which the numbers have named.

Each mistake belongs to a step, and a step has a few usual forms in code: a call of a softmax, a product, a call of a
projection. The line is given only if the code has exactly one line of the step's form, because no line is better than a
wrong line.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kmha.verify.diagnosing import naming
from kmha.verify.diagnosing.calling import METHODS
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.evidence.source_text import SourceFunction, called, functions_of
from kmha.verify.diagnosing.verdicts import SourceLine
from kmha.verify.mistakes import Mistake

PRODUCTS = ("matmul", "bmm", "einsum", "dot", "batch_dot", "baddbmm", "tensordot", "dot_general")
FUSED = ("scaled_dot_product_attention", "dot_product_attention", "memory_efficient_attention")
MOVES = ("reshape", "view", "transpose", "permute", "rearrange", "swapaxes", "unflatten", "flatten", "moveaxis")
JOINS = ("cat", "concat", "concatenate", "stack", "rearrange", "reshape", "view", "flatten", "transpose", "permute")
FILLS = ("masked_fill", "masked_fill_", "where", "select", "masked_fill_with")
PAST = ("tril", "triu", "band_part", "tril_", "triu_", "tri")
ACTIVATIONS = ("relu", "gelu", "silu", "swish", "tanh", "sigmoid", "elu", "ReLU", "GELU", "SiLU", "Activation")
ROOT = re.compile(r"sqrt|\*\*\s*\(?-?\s*\(?(?:0?\.5|1\s*/\s*2)|inverse_sqrt")
SCALE = re.compile(r"scal|temper|norm_factor|\bfactor|multiplier")
FILL = re.compile(r"1e-?\d+|inf\b|finfo|\bmin\b|\*\s*-?\s*1?0{3,}|-\s*\d{4,}")
ROLES = "query|key|value"

Line = tuple[SourceFunction, int]
Finder = Callable[[Sequence[SourceFunction], Mistake], list[Line]]


def line_of(candidate: Candidate, mistake: Mistake) -> SourceLine | None:
    """Return the line that makes the mistake, or `None` if the code cannot be read or several lines could."""
    finder = next((finder for pattern, finder in FINDERS if re.match(pattern, mistake.id)), None)
    if finder is None:
        return None
    found = list(dict.fromkeys(finder(functions_of(candidate), mistake)))
    if len({(function.path, function.first + number) for function, number in found}) != 1:
        return None
    function, number = found[0]
    return SourceLine(function.path, function.first + number - 1, function.lines[number - 1].strip())


def _nodes(function: SourceFunction, *kinds: type[ast.AST]) -> Iterator[Any]:
    """Yield the nodes of these kinds."""
    return (node for node in ast.walk(function.tree) if isinstance(node, kinds or (ast.AST,)))


def _calls(function: SourceFunction, names: Sequence[str]) -> set[int]:
    """Return the lines with calls of these functions or methods."""
    return {node.func.end_lineno or node.lineno for node in _nodes(function, ast.Call) if called(node) in names}


def _text(function: SourceFunction, pattern: re.Pattern[str]) -> set[int]:
    """Return the lines of code in which the pattern occurs outside of comments and of the first line."""
    code = {node.lineno for node in ast.walk(function.tree) if isinstance(node, ast.expr)}
    return {n for n in code if pattern.search(function.lines[n - 1].partition("#")[0]) and not _is_text(function, n)}


def _is_text(function: SourceFunction, number: int) -> bool:
    """Return whether a line is inside a docstring or in the signature."""
    if any(node.lineno <= number < node.body[0].lineno for node in _nodes(function, ast.FunctionDef)):
        return True
    texts = [node for node in _nodes(function, ast.Expr) if isinstance(node.value, ast.Constant)]
    return any(node.lineno <= number <= (node.end_lineno or node.lineno) for node in texts)


def _softmaxes(function: SourceFunction) -> set[int]:
    lines = set()
    for node in _nodes(function, ast.Call):
        name = called(node).lower()
        if "softmax" in name or name in ("exp", "attend"):
            lines.add(node.func.end_lineno or node.lineno)
    return lines


def _products(function: SourceFunction) -> set[int]:
    lines = {node.lineno for node in _nodes(function, ast.BinOp) if isinstance(node.op, ast.MatMult)}
    return lines | _calls(function, PRODUCTS)


def _core(functions: Sequence[SourceFunction]) -> list[tuple[SourceFunction, int, int, int]]:
    """Return the functions that compute attention, with the lines of product, softmax and mix."""
    found = []
    for function in functions:
        products, softmaxes = sorted(_products(function)), sorted(_softmaxes(function))
        if not softmaxes or not products:
            continue
        earlier = [line for line in products if line < softmaxes[0]]
        later = [line for line in products if line > softmaxes[-1]]
        same = [line for line in products if line in softmaxes]
        # A product in the softmax's own line is of query and key, unless no other line is left for the values.
        product = same if same and (later or not earlier) else earlier
        mix = later or same
        if product and mix:
            found.append((function, product[-1], softmaxes[0], mix[0]))
    return found


def _fused(functions: Sequence[SourceFunction]) -> list[Line]:
    return [(function, line) for function in functions for line in _calls(function, FUSED)]


def _product(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    return _fused(functions) + product_lines(functions, "logits")


def _mix(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    return _fused(functions) + product_lines(functions, "mix")


def _scale(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    """Return the line that computes the number, or else the lines that use it."""
    roots = [(function, line) for function in functions for line in _text(function, ROOT)]
    if roots and mistake.id != "scale-missing":
        return roots
    used = [(function, line) for function in functions if function.name in METHODS for line in _text(function, SCALE)]
    return used or _product(functions, mistake)


def _softmax(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    made = [
        (function, node.lineno)
        for function in functions
        for node in _nodes(function, ast.Call)
        if called(node) == "Softmax"
    ]
    lines = [(function, line) for function in functions for line in _softmaxes(function)]
    if "-over-" in mistake.id and made:
        return made
    axes = re.compile(r"(?:dim|axis)\s*=|softmax\(.*,\s*-?\d\s*\)|softmax\(\s*-?\d\s*\)", re.IGNORECASE)
    with_axis = [(function, line) for function, line in lines if axes.search(function.lines[line - 1])]
    return (with_axis if "-over-" in mistake.id and with_axis else lines) or _product(functions, mistake)


def _mask(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    found = []
    for function in functions:
        filled = {line for line in _calls(function, FILLS) if "mask" in _statement(function, line)}
        added = {line for line in _text(function, re.compile("mask")) if FILL.search(function.lines[line - 1])}
        found += [(function, line) for line in filled | added]
    return found


def _statement(function: SourceFunction, number: int) -> str:
    """Return the text of the statement around a line."""
    around = [node for node in _nodes(function, ast.stmt) if node.lineno <= number <= (node.end_lineno or 0)]
    small = min(around, key=lambda node: (node.end_lineno or 0) - node.lineno, default=None)
    return "\n".join(function.lines[small.lineno - 1 : small.end_lineno]) if small else function.lines[number - 1]


def _causal(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    return [(function, line) for function in functions for line in _calls(function, PAST)]


def _split(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    """Return the lines that move axes before the product, those of one role if the mistake is one of a role."""
    role = re.search(ROLES, mistake.id)
    found = []
    core = {id(function): product for function, product, _, _ in _core(functions)}
    for function in functions:
        last = core.get(id(function), 10**6 if "split" in function.name or "transpose_for" in function.name else 0)
        lines = {line for line in _calls(function, MOVES) if line < last}
        if role and len(lines) > 1:
            lines = {line for line in lines if target_role(function, line) == role[0]}
        found += [(function, line) for line in lines]
    return found


def product_lines(functions: Sequence[SourceFunction], step: str) -> list[Line]:
    """Return the lines with the product of query and key (step "logits"), or of scores and value (step "mix")."""
    return [(function, product if step == "logits" else mix) for function, product, _, mix in _core(functions)]


def projection_lines(functions: Sequence[SourceFunction], role: str) -> list[Line]:
    """Return the lines that call a role's projection."""
    found = []
    for function in functions:
        calls = [node for node in _nodes(function, ast.Call) if function.name != "__init__" and called(node)]
        named = [node for node in calls if called(node) not in (*PRODUCTS, *MOVES)]
        found += [(function, node.lineno) for node in named if naming.weight(called(node))[0] == role]
    return found


def target_role(function: SourceFunction, number: int) -> str | None:
    """Return the role of the variable that a line assigns, or `None` if its name stands for none."""
    target = re.match(r"\s*(?:self\.)?(\w+)\s*=", function.lines[number - 1])
    return naming.weight(target[1])[0] or naming.argument(target[1]) if target else None


def _merge(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    found = []
    for function, _, _, mix in _core(functions):
        found += [(function, line) for line in _calls(function, JOINS) if line >= mix]
    return found


def _of_role(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    """Return the line of the projection whose input, kernel or bias is wrong."""
    words = re.findall(f"{ROLES}|output|all", mistake.id)
    if mistake.id.endswith("swapped") or not words or words[-1] == "all" or len(words) > 2:
        return []
    role = words[-1] if mistake.id.startswith(("kernels", "projection-", "kernel-", "bias")) else words[0]
    return projection_lines(functions, {"output": "attention_output"}.get(role, role))


def _output(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    return projection_lines(functions, "attention_output")


def _dropout(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    found = []
    for function in functions:
        if function.name != "__init__":
            calls = [node for node in _nodes(function, ast.Call) if "drop" in called(node).lower()]
            found += [(function, node.lineno) for node in calls]
    return found


def _returned(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    run = next((function for function in functions if function.name in METHODS), functions[0] if functions else None)
    return [] if run is None else [(run, node.lineno) for node in _nodes(run, ast.Return)]


def _changed(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    """Return the lines that change an argument in place."""
    found = []
    for function in functions:
        names = {node.arg for node in _nodes(function, ast.arg)}
        changes = [node for node in _nodes(function, ast.AugAssign) if isinstance(node.target, ast.Name)]
        found += [(function, node.lineno) for node in changes if node.target.id in names]
    return found


def _activation(functions: Sequence[SourceFunction], mistake: Mistake) -> list[Line]:
    return [(function, line) for function in functions for line in _calls(function, ACTIVATIONS)]


def _containing(pattern: str) -> Finder:
    compiled = re.compile(pattern)
    return lambda functions, _: [(function, line) for function in functions for line in _text(function, compiled)]


FINDERS: tuple[tuple[str, Finder], ...] = (
    (r"scale-after-softmax|scale-kernel", lambda functions, mistake: []),
    (r"scale-", _scale),
    (r"softmax-", _softmax),
    (r"logits-", _product),
    (r"mix-key-value-swapped", lambda functions, mistake: []),
    (r"mix-", _mix),
    (r"causal-", _causal),
    (r"(mask|padding)-", _mask),
    (r"heads-", _split),
    (r"merge-(projection|kernel|bias|rectified)", _output),
    (r"merge-", _merge),
    (r"(inputs|kernels?|projections?|bias)-", _of_role),
    (r"dropout-", _dropout),
    (r"returned-", _returned),
    (r"input-", _changed),
    (r"feed-forward-activation", _activation),
    (r"norm-epsilon", _containing(r"\beps")),
    (
        r"norm-(unbiased|variance|without-root|squared|not-divided|multiplied)",
        _containing(r"\.(?:std|var)\(|_std\(|variance\("),
    ),
    (r"norm-(not-centred|root)", _containing(r"mean\(")),
    (r"positions-(sine|cosine|halves)", _containing(r"\b(?:sin|cos)\(")),
    (r"positions-(exponent|base)", _containing(r"10000|1e4|10_000")),
    (r"positions-(missing|twice|multiplied|subtracted|alone)", _containing(r"pos\w*(?:\(|\[).*[+*-]|[+*-].*pos\w*")),
    (r"embedding-(unscaled|scaled|divided)", _containing(r"sqrt|\*\*\s*0?\.5")),
)
