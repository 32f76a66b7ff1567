"""Operators that change the projections: the kernel that a role uses, its input, or whether it is used at all."""

import ast
import re
from collections.abc import Iterator

from kmha.verify.bank.zoo.operators.operator import operator
from kmha.verify.bank.zoo.operators.source import (
    FUNCTIONS,
    ROLES,
    Edit,
    Source,
    called,
    name_of,
    of_self,
    role_of_name,
    words,
)

# Names of output projections, in code that computes attention.
OUTPUTS = {"to_out", "out_proj", "proj", "fc_out", "o_proj", "wo", "w_o", "output", "dense", "c_proj", "out", "fc"}
OUTPUTS |= {"_output_dense", "output_dense", "out_projection", "proj_out", "o", "output_projection", "out_lin", "Wo"}
OUTPUTS |= {"linear_out", "output_linear", "to_o", "attn_out", "out_linear", "combine_heads", "W_o", "unifyheads"}
OUTPUTS |= {"dense_out"}


def projections(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Yield each call of a projection of one role, such as `self.to_q(x)`, with the role."""
    for call in source.walk(ast.Call):
        if of_self(call.func) and call.args:
            role = role_of_name(called(call))
            method = source.home(call)
            methods = {each.name for each in getattr(method, "body", ()) if isinstance(each, FUNCTIONS)}
            if role and called(call) not in methods and not {"cache", "mask"} & set(words(called(call))):
                yield call, role


def _by_role(source: Source) -> Iterator[tuple[ast.AST, dict[str, ast.Call]]]:
    """Yield each function in which roles are projected, with the first projection of each role."""
    found: dict[ast.AST, dict[str, ast.Call]] = {}
    for call, role in projections(source):
        found.setdefault(source.around(call, *FUNCTIONS), {}).setdefault(role, call)
    yield from found.items()


# What the kernel of another role is too, if both project one input: (kernel, role).
SAME_INPUT = {
    ("query", "key"): "logits-query-query",
    ("key", "query"): "logits-key-key",
    ("value", "key"): "logits-query-value",
    ("key", "value"): "mix-key",
}


@operator("kernel-of-other-role")
def kernel_of_other_role(source: Source) -> Iterator[Edit]:
    """Project one role with the kernel of another: `self.to_k(x)` becomes `self.to_q(x)`."""
    known = (("query", "key"), ("query", "value"), ("key", "value"), ("key", "query"), ("value", "key"))
    for _, calls in _by_role(source):
        for used, role in known:
            if {used, role} <= calls.keys():
                yield Edit(calls[role].func, source.code(calls[used].func), _shared_ids(source, calls, used, role))


def _shared_ids(source: Source, calls: dict[str, ast.Call], used: str, role: str) -> tuple[str, ...]:
    """Return the ids for one role's kernel that is used for another one, too."""
    inputs = {source.code(calls[each].args[0]) if each in calls else each for each in (used, role)}
    same = SAME_INPUT.get((used, role), "") if len(inputs) == 1 or source.kind == "encoder" else ""
    return tuple(filter(None, (f"kernels-{used}-for-{role}", same)))


@operator("kernels-swapped")
def kernels_swapped(source: Source) -> Iterator[Edit]:
    """Swap the names of the parts of one fused projection: `q, k, v = …` becomes `q, v, k = …`."""
    for one, other in (("key", "value"), ("query", "key"), ("query", "value")):
        for target in _targets(source):
            names = {role_of_name(name_of(each)): each for each in target.elts}
            if {one, other} <= names.keys() and len(names) == len(target.elts):
                swapped = {one: source.code(names[other]), other: source.code(names[one])}
                parts = [swapped.get(role_of_name(name_of(each)), source.code(each)) for each in target.elts]
                ids = {"key value": ("mix-key-value-swapped",), "query key": ("logits-key-query",)}
                same = ids.get(f"{one} {other}", ())
                yield Edit(target, ", ".join(parts), (f"kernels-{one}-{other}-swapped", *same))


def _targets(source: Source) -> Iterator[ast.Tuple]:
    """Yield each tuple of variables that a fused projection is unpacked into."""
    for node in source.walk(ast.Assign):
        target, value = node.targets[0], node.value
        unpacked = called(value) in ("chunk", "split", "unbind", "unstack") or isinstance(
            value, ast.Name | ast.Subscript
        )
        if isinstance(target, ast.Tuple) and unpacked and all(isinstance(each, ast.Name) for each in target.elts):
            yield target


@operator("fused-part-twice")
def fused_part_twice(source: Source) -> Iterator[Edit]:
    """Use one part of a fused projection for two roles: `q, k, v = …` is followed by `v = k`."""
    for target in _targets(source):
        names = {role_of_name(name_of(each)): name_of(each) for each in target.elts}
        statement = source.statement(target)
        for used, role, same in (("key", "value", "mix-key"), ("query", "key", "logits-query-query")):
            if {used, role} <= names.keys() and statement.lineno == statement.end_lineno:
                new = f"{source.code(statement)}; {names[role]} = {names[used]}"
                yield Edit(statement, new, (f"kernels-{used}-for-{role}", same))


@operator("projection-shared")
def projection_shared(source: Source) -> Iterator[Edit]:
    """Make one module for two projections: `self.to_k = Linear(…)` becomes `self.to_k = self.to_q`."""
    made: dict[ast.AST, dict[str, ast.Assign]] = {}
    for node in source.walk(ast.Assign):
        target = node.targets[0]
        layer = re.search(r"linear|dense|conv|prepare", called(node.value), re.IGNORECASE)
        if isinstance(target, ast.Attribute) and layer and role_of_name(target.attr) and len(node.targets) == 1:
            made.setdefault(source.around(node, *FUNCTIONS), {}).setdefault(role_of_name(target.attr), node)
    projected: dict[ast.AST, dict[str, ast.Call]] = {}  # the first function of each class that projects
    for function, calls in _by_role(source):
        projected.setdefault(source.home(function), calls)
    for function, found in made.items():
        calls = projected.get(source.home(function), {})
        for used, role in (("query", "key"), ("key", "value"), ("query", "value")):
            if {used, role} <= found.keys() and found[used].lineno < found[role].lineno:
                ids = _shared_ids(source, calls, used, role)
                yield Edit(found[role].value, source.code(found[used].targets[0]), ids)


INPUTS = {
    ("key", "query"): ("inputs-key-from-query",),
    ("value", "query"): ("inputs-value-from-query",),
    ("value", "key"): ("inputs-value-is-key",),
    ("key", "value"): ("inputs-key-is-value",),
    ("query", "key"): ("inputs-all-key",),
}


@operator("input-of-other-role")
def input_of_other_role(source: Source) -> Iterator[Edit]:
    """Project the input of another role: `self.to_k(context)` becomes `self.to_k(x)`."""
    for function, calls in _by_role(source):
        for (role, used), ids in INPUTS.items():
            if not {role, used} <= calls.keys():
                continue
            old, new = calls[role].args[0], calls[used].args[0]
            if not isinstance(old, ast.Name) or not isinstance(new, ast.Name) or old.id == new.id:
                continue
            # Where key and value have one input, the mistake in one of them is not that of both.
            right = _projected_already(source, function, calls, used, role) or ids
            yield Edit(old, new.id, (*right, f"{role}-ignored"))


def _projected_already(
    source: Source, function: ast.AST, calls: dict[str, ast.Call], used: str, role: str
) -> tuple[str, ...]:
    """Return the ids for an input that is a projection already.

    The other role's input may have been overwritten by its own projection, as in `query = self.wq(query)`. Or the call
    only passes on what was projected before, as in `v = self.hook_v(v)` after `v = x @ self.w_v`.
    """
    old, new = name_of(calls[role].args[0]), name_of(calls[used].args[0])
    before: dict[str, list[ast.Assign]] = {old: [], new: []}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and node.lineno < calls[role].lineno:
            before.get(name_of(node.targets[0]), []).append(node)
    if any(re.search(r"einsum|matmul|@", source.code(node.value)) for node in before[old]):
        return (f"kernels-{used}-for-{role}",)
    chained = any(each is calls[used] for node in before[new] for each in ast.walk(node))
    return (f"projections-chained-{role}-from-{used}",) if chained else ()


@operator("context-ignored", "inputs-all-query", "context-ignored")
def context_ignored(source: Source) -> Iterator[Edit]:
    """Project the query's input to get both key and value, from one fused projection."""
    for function, calls in _by_role(source):
        if "query" not in calls or not isinstance(calls["query"].args[0], ast.Name):
            continue
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            fused = {"kv"} & set(words(called(call))) or re.search(r"_kv$|^kv", called(call))
            if (
                fused
                and call.args
                and isinstance(call.args[0], ast.Name)
                and call.args[0].id != calls["query"].args[0].id
            ):
                yield Edit(call.args[0], calls["query"].args[0].id)


@operator("projection-dropped")
def projection_dropped(source: Source) -> Iterator[Edit]:
    """Leave a projection out: `self.to_q(x)` becomes `x`."""
    for call, role in projections(source):
        if len(call.args) == 1 and isinstance(call.args[0], ast.Name):
            yield Edit(call, source.code(call.args[0]), (f"projection-missing-{role}",))


def outputs(source: Source) -> Iterator[ast.Call]:
    """Yield each call of an output projection in code that computes attention."""
    for call in source.walk(ast.Call):
        own = of_self(call.func) and len(call.args) == 1
        if own and called(call) in OUTPUTS and _attends_itself(source, call):
            yield call


def _attends_itself(source: Source, node: ast.AST) -> bool:
    """Return whether the class around a node has names for query, key and value, alone or fused."""
    names = {name_of(each) for each in ast.walk(source.home(node)) if isinstance(each, ast.Name | ast.Attribute)}
    roles = {role_of_name(name) for name in names}
    return set(ROLES) <= roles or any("qkv" in name.lower() for name in names)


# A module such as Sequential(Linear, Dropout) is left out with its dropout.
@operator("output-projection-dropped", "merge-projection-missing", "dropout-never")
def output_dropped(source: Source) -> Iterator[Edit]:
    """Return the concatenated heads. A projection that joins the heads itself cannot be left out."""
    for call in outputs(source):
        if not re.search("EinsumDense|DenseGeneral", source.text):
            yield Edit(call, f"({source.code(call.args[0])})")


@operator("output-rectified", "merge-rectified")
def output_rectified(source: Source) -> Iterator[Edit]:
    """Apply a relu after the output projection."""
    for call in outputs(source):
        yield Edit(call, f"(lambda output: (output + abs(output)) / 2)({source.code(call)})")


@operator("output-through-query")
def output_through_query(source: Source) -> Iterator[Edit]:
    """Project the output with the query's kernel, which some classes leave out by an identity."""
    queries = {source.home(call): call for call, role in projections(source) if role == "query"}
    for call in outputs(source):
        query = queries.get(source.home(call))
        if query is not None:
            # The query's projection may have no bias.
            found = ("kernels-query-for-output", "merge-projection-missing", "bias-missing-output")
            yield Edit(call.func, source.code(query.func), found)


@operator("bias-dropped")
def bias_dropped(source: Source) -> Iterator[Edit]:
    """Leave out a bias that is added to a projection: `x @ self.kernel + self.bias` becomes `x @ self.kernel`."""
    for node in source.walk(ast.BinOp):
        if isinstance(node.op, ast.Add) and name_of(node.right) and "bias" in words(name_of(node.right)):
            parts = {*words(name_of(node.right)), *words(name_of(node.left))}
            if parts & {"attn", "attention", "rel", "pos", "position", "relative", "mask", "logits", "scores"}:
                continue
            if source.attends(node) and source.kind != "embedding":
                yield Edit(node, f"({source.code(node.left)})", BIASES)


BIASES = tuple(f"bias-missing-{name}" for name in ("query", "value", "output", "query-key-value", "all"))
