"""The source code that operators edit: its text, its syntax tree, and what its names stand for.

>>> source = Source("def attend(q, k, v):\\n    return (q @ k.T / 2) @ v\\n", ["attend"])
>>> product = next(source.walk(ast.Name))
>>> source.replaced(Edit(product, "k"))
'def attend(q, k, v):\\n    return (k @ k.T / 2) @ v\\n'
"""

import ast
import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ROLES = {
    "query": {"q", "qs", "query", "queries", "wq", "xq", "tq"},
    "key": {"k", "ks", "key", "keys", "wk", "xk", "tk"},
    "value": {"v", "vs", "value", "values", "wv", "xv", "tv", "vals"},
}
# Words in names that contain the letter or word of a role and mean something else.
OTHER = {"num", "dim", "size", "mask", "masks", "len", "length", "shape", "heads", "bias", "norm", "cache", "padding"}
# Calls that return their first argument with other axes or another dtype.
PASSING = {"reshape", "view", "transpose", "permute", "swapaxes", "rearrange", "contiguous", "cast", "float", "to"}
PASSING |= {"type_as", "expand", "repeat", "unsqueeze", "mT", "T", "matrix_transpose", "astype", "expand_dims"}


@dataclasses.dataclass(frozen=True)
class Edit:
    """One edit: the text that replaces a node.

    Attributes:
        node: First node of the replaced text.
        text: The new text.
        ids: Mistakes that the edit makes, any of which is a right answer. Empty for the operator's own.
        last: Last node of the replaced text, if it is not `node`.
    """

    node: ast.AST
    text: str
    ids: tuple[str, ...] = ()
    last: ast.AST | None = None

    @property
    def line(self) -> int:
        return self.node.lineno  # type: ignore[attr-defined]


class Source:
    """The source of a module, and the definitions in it that an entry uses.

    Attributes:
        text: The whole text.
        kind: Kind of the entry, one of `kmha.verify.bank.zoo.entry.KINDS`.
        lines: The lines of the text, as bytes, because the syntax tree counts columns in bytes.
        tree: The syntax tree.
    """

    def __init__(self, text: str, names: Iterable[str], kind: str = "attention") -> None:
        self.text, self.kind = text, kind
        self.lines = text.encode().splitlines(keepends=True)
        self.tree = ast.parse(text)
        self.definitions = _definitions(self.tree)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self._attending: dict[ast.AST, bool] = {}
        self.used = _closure(self.definitions, names)

    @property
    def transposition(self) -> str:
        """The call that exchanges the last two axes of an array."""
        return "transpose(-2, -1)" if "torch" in self.text else "swapaxes(-2, -1)"

    @functools.cached_property
    def functions(self) -> list[ast.FunctionDef]:
        """The outermost functions of all used definitions, with the methods of classes."""
        return [found for name in self.used for found in _outermost_functions(self.definitions[name])]

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes in the bodies of all used functions, in the order of the text."""
        return [node for function in self.functions for node in _nodes(function.body)]

    def walk(self, *types: type) -> Iterator[Any]:
        """Return an iterator over the nodes of these types, in the order of the text."""
        return (node for node in self.nodes if isinstance(node, types))

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls of functions or methods with these names, whatever object or module they are called on."""
        return (node for node in self.walk(ast.Call) if called(node) in names)

    def code(self, node: ast.AST) -> str:
        """Return the text of a node."""
        place: Any = node
        lines = self.lines[place.lineno - 1 : place.end_lineno]
        lines[-1] = lines[-1][: place.end_col_offset]
        lines[0] = lines[0][place.col_offset :]
        return b"".join(lines).decode()

    def part(self, node: ast.AST) -> str:
        """Return the text of an expression so that it can be a part of any other expression."""
        simple = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
        return self.code(node) if isinstance(node, simple) else f"({self.code(node)})"

    def renamed(self, call: ast.Call, name: str) -> Edit:
        """Return the edit that calls another function or method in the same place: `np.sin(x)` becomes `np.cos(x)`."""
        return Edit(call.func, self.code(call.func)[: -len(called(call))] + name)

    def around(self, node: ast.AST, *types: type) -> Any:
        """Return the innermost node of these types around a node, or `None`."""
        while (node := self.parents.get(node)) is not None:  # type: ignore[assignment]
            if isinstance(node, types):
                return node
        return None

    def home(self, node: ast.AST) -> ast.AST:
        """Return the class around a node, or else the outermost function around it."""
        found = self.around(node, ast.ClassDef)
        while found is None:
            above = self.around(node, *FUNCTIONS)
            if above is None:
                return node
            node, found = above, self.around(above, ast.ClassDef)
            if found is None and self.around(above, *FUNCTIONS) is None:
                return above
        return found

    def attends(self, node: ast.AST) -> bool:
        """Return whether the class or function around a node computes attention from a query and a key."""
        home = self.home(node)
        if home not in self._attending:
            names = {role(each) for each in ast.walk(home) if isinstance(each, ast.Name | ast.Attribute)}
            self._attending[home] = {"query", "key"} <= names or any(map(_is_softmax, ast.walk(home)))
        return self._attending[home]

    def replaced(self, edit: Edit) -> str:
        """Return the text with an edit. Empty lines take the place of lost lines, so later lines keep their numbers."""
        last: Any = edit.last or edit.node
        node: Any = edit.node
        start = sum(len(line) for line in self.lines[: node.lineno - 1]) + node.col_offset
        end = sum(len(line) for line in self.lines[: last.end_lineno - 1]) + last.end_col_offset
        raw, text = b"".join(self.lines), edit.text
        lost = "\n" * (raw[start:end].count(b"\n") - text.count("\n"))
        if lost:
            text = f"{text}{lost}" if isinstance(edit.node, ast.stmt) else f"({text}{lost})"
        return (raw[:start] + text.encode() + raw[end:]).decode()

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the statement around a node."""
        return node if isinstance(node, ast.stmt) else self.around(node, ast.stmt)

    def next_statement(self, statement: ast.stmt) -> ast.stmt | None:
        """Return the statement after a statement in the same block, or `None`."""
        return self._neighbour(statement, 1)

    def previous_statement(self, statement: ast.stmt) -> ast.stmt | None:
        """Return the statement before a statement in the same block, or `None`."""
        return self._neighbour(statement, -1)

    def _neighbour(self, statement: ast.stmt, step: int) -> ast.stmt | None:
        for _, block in ast.iter_fields(self.parents[statement]):
            if isinstance(block, list) and statement in block:
                place = block.index(statement) + step
                return block[place] if 0 <= place < len(block) else None
        return None


def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """Return the functions and classes at the top level of a module, also inside `if` and `try`."""
    found: dict[str, ast.stmt] = {}
    waiting: list[Any] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            waiting += [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
    return found


def _closure(definitions: dict[str, ast.stmt], names: Iterable[str]) -> list[str]:
    """Return the names of the definitions that `names` use, directly or through each other."""
    waiting, found = [name for name in names if name in definitions], []
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        found.append(name)
        waiting += [each.id for each in ast.walk(definitions[name]) if isinstance(each, ast.Name)]
        waiting = [each for each in waiting if each in definitions]
    return found


def _outermost_functions(node: ast.AST) -> Iterator[ast.FunctionDef]:
    if isinstance(node, FUNCTIONS):
        yield node  # type: ignore[misc]
        return
    for child in ast.iter_child_nodes(node):
        yield from _outermost_functions(child)


def _nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and the nodes in them, without docstrings, annotations, assertions, errors and formatted strings."""
    for node in body:
        if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr | ast.arg):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        fields = ((name, value) for name, value in ast.iter_fields(node) if name not in ("annotation", "returns"))
        for _, value in fields:
            inner = value if isinstance(value, list) else [value]
            yield from _nodes([each for each in inner if isinstance(each, ast.AST)])


def called(node: ast.AST) -> str:
    """Return the last name of what a call calls, or "".

    >>> called(ast.parse("torch.nn.functional.softmax(x)", mode="eval").body)
    'softmax'
    """
    return name_of(node.func) if isinstance(node, ast.Call) else ""


def name_of(node: ast.AST) -> str:
    """Return the name of a variable, or the last name of an attribute, or ""."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def words(name: str) -> list[str]:
    """Return the words of a name.

    >>> words("_query_dense"), words("toQKV2")
    (['query', 'dense'], ['to', 'qkv'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def of_self(node: ast.AST) -> bool:
    """Return whether an expression is an attribute of `self`, such as `self.norm1`."""
    return isinstance(node, ast.Attribute) and name_of(node.value) == "self"


def is_module(node: ast.AST) -> bool:
    """Return whether an expression is a module of functions, such as `np` or `torch`, by its usual name."""
    return name_of(node) in ("np", "jnp", "tf", "torch", "ops", "K", "keras", "numpy", "mx", "F")


def pattern_of(call: ast.Call) -> tuple[ast.expr | None, str]:
    """Return the first argument of a call that is a constant string, with the string, or `None` and ""."""
    found = next((each for each in call.args if text_of(each)), None)
    return found, "" if found is None else text_of(found)


def text_of(node: ast.AST) -> str:
    """Return the text of a constant string, or ""."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def role_of_name(name: str) -> str:
    """Return the role that a name stands for: "query", "key", "value", or "" for none or several.

    >>> role_of_name("to_q"), role_of_name("w_ks"), role_of_name("num_keys"), role_of_name("to_kv")
    ('query', 'key', '', '')
    """
    parts = set(words(name))
    found = [role for role, names in ROLES.items() if parts & names]
    return found[0] if len(found) == 1 and not parts & OTHER else ""


def role(node: ast.AST) -> str:
    """Return the role of an expression, by the name of the array that it reshapes, casts or transposes."""
    while True:
        if isinstance(node, ast.Call) and called(node) in PASSING:
            method = isinstance(node.func, ast.Attribute) and (role(node.func.value) or not node.args)
            node = node.func.value if method else node.args[0]  # type: ignore[attr-defined]
        elif (isinstance(node, ast.Attribute) and node.attr in PASSING) or isinstance(node, ast.Subscript):
            node = node.value
        else:
            return role_of_name(name_of(node))


def keyword(node: ast.Call, *names: str) -> ast.expr | None:
    """Return the value of the first of these keyword arguments that a call has, or `None`."""
    found = {each.arg: each.value for each in node.keywords}
    return next((found[name] for name in names if name in found), None)


def _is_softmax(node: ast.AST) -> bool:
    return "softmax" in called(node).lower()
