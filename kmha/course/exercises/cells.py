"""Extract one answer from many cells: the definition of a name, and everything that it uses, in any cell.

>>> cells = ["import math\\nx = 1", "def area(r):\\n    return circle * r**2", "circle = math.pi"]
>>> print(gather(cells, "area"), end="")
import math
circle = math.pi
def area(r):
    return circle * r**2
"""

import ast
import builtins
import collections
import dataclasses
import importlib
import itertools
import json
import re
import symtable
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kmha.bounded_json import PartsError, from_json

# Python takes more characters for letters than `\w`, none of them ASCII.
_DOTTED = re.compile(r"(?<![\w\x80-\U0010ffff])(?:[\w\x80-\U0010ffff]++[\s\\]*+\.[\s\\]*+)+")
_F_STRING = re.compile(r"(?i)\b(?:f|fr|rf)['\"]")
EFFORT = 10**8  # maximum `effort` of parsing a text, which takes a tenth of a second
_MARK = 100  # Python sorts the marks of a name up to 60 times, since its parser tries one rule after the other
TOO_SLOW = (
    "its code has too many dots, braces or combining marks: Python would take long to read it. Remove what the answers "
    "do not need."
)
# Since 3.12, Python prints a warning for each odd escape in a text, with the text's characters.
warnings.filterwarnings("ignore", category=SyntaxWarning, module="<(answer|cell)>")
# Methods that change a list, a set, a dict or an array.
_CHANGES = ("add", "append", "extend", "fill", "insert", "pop", "remove", "reverse", "setdefault", "sort", "update")
NAMES = 10**6  # maximum product of the numbers of names and scopes in a statement, and their sum: a second or two
SCOPES = 200  # maximum number of scopes directly inside another scope: `symtable` is slow with many


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement of a cell, with the module-level names that it defines, uses, and changes the values of."""

    text: str
    defines: frozenset[str]
    uses: frozenset[str]
    changes: frozenset[str] = frozenset()
    imports: bool = False


ParsedCells = Mapping[str, Sequence[Statement]]


def parse(cells: Iterable[str], limit: float = float("inf")) -> ParsedCells:
    """Return the statements that define something, keyed by the cell's text. An unparsable cell has no statements.

    Raises:
        ValueError: There are more than `limit` statements, or a statement has more than 200 functions side by side, or
            parsing the cells would take long.
    """
    found: dict[str, Sequence[ast.stmt]] = {}
    count, efforts, names = 0, 0, 0
    for cell in cells:
        if cell not in found:
            efforts += effort(cell)
            if efforts > 2 * EFFORT:
                raise ValueError(TOO_SLOW)
            tree = syntax_tree(cell)
            body = tree.body if tree else []
            count += len(body)
            if count > limit:
                raise ValueError(f"it has more than {limit:,} statements.")
            names += sum(map(_scoped_names, body))
            if names > NAMES:
                raise ValueError(
                    f"its statements have {names:,} pairs of a name and a function, at most {NAMES:,} are allowed. "
                    "Remove what does not belong to the answers."
                )
            found[cell] = body
    return {cell: tuple(_statements(cell, body)) for cell, body in found.items()}


# Python writes no whole number of more than 4,300 digits, but reads one that is not decimal.
_LONG_NUMBER = re.compile(r"(?<!\w)0[xob][0-9a-f_]{3000}", re.IGNORECASE)


def effort(code: str) -> int:
    """Return a measure of the time that Python takes to parse a text, if its author makes that as long as possible.

    Python copies what it has of an imported name at each dot, sorts the marks of a letter by insertion, also those that
    a character is made of, and until 3.12 searches an f-string from its start for each field. One file of 250 KB took
    it a minute, in which nothing else ran.
    """
    found = sum(len(chain[0]) * chain[0].count(".") for chain in _DOTTED.finditer(code))
    if not code.isascii():
        alone = "".join(unicodedata.normalize("NFKD", letter) for letter in code)  # all at once would take as long
        runs = itertools.groupby(map(bool, map(unicodedata.combining, alone)))
        found += _MARK * sum(sum(run) ** 2 for is_mark, run in runs if is_mark)
    if sys.version_info < (3, 12) and _F_STRING.search(code):
        found += len(code) * code.count("{")
    return found


def syntax_tree(code: str) -> ast.Module | None:
    """Return the syntax tree of a text, or `None` if it cannot be parsed, or not be written as text again."""
    if effort(code) > EFFORT or _LONG_NUMBER.search(code):
        return None
    try:
        return ast.parse(code, "<answer>")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def gather(cells: Sequence[str], name: str, *more: str, parsed: ParsedCells | None = None) -> str | None:
    """Return the last definition of a name, preceded by the last definitions of all names that it uses.

    Imports come first, because the last import of a name may stand below its use. The definition of the name comes
    last. Otherwise the statements keep their order.

    Args:
        cells: Texts of the cells, in order.
        name: Name whose definition to return.
        more: Other names to include, if they are defined, such as those of the starter (`defined_names`).
        parsed: The statements of the cells, if they are parsed already (`parse`).

    Returns:
        The code, or `None` if no cell defines the name.
    """
    parsed = parse(cells) if parsed is None else parsed
    statements = [statement for cell in cells for statement in parsed[cell]]
    imported = {each for statement in statements if statement.imports for each in statement.defines}
    places: dict[str, list[int]] = {}
    for index, statement in enumerate(statements):
        # np.append(x, 1) does not change np, and a list of results comes after what gives them.
        own = name not in statement.uses or name in statement.changes
        changes = statement.changes - imported if own else frozenset()
        for each in statement.defines | changes:
            places.setdefault(each, []).append(index)
    wanted, names, done = set(), [name, *more], set()
    while names:
        sought = names.pop()
        if sought in done:
            continue
        done.add(sought)
        for index in reversed(places.get(sought, [])):
            if index not in wanted:
                wanted.add(index)
                names.extend(statements[index].uses)
            if sought not in statements[index].uses and sought not in statements[index].changes:
                break  # else an earlier value counts too: x += 1
    last = [index for index in places.get(name, []) if index in wanted]
    if not last:
        return None
    first = [index for index in sorted(wanted - {*last}) if statements[index].imports]
    order = [*first, *sorted(wanted - {*first, *last}), *last]
    used = {each for index in wanted for each in statements[index].uses}.difference(places)
    stars = dict.fromkeys(each.text for each in statements if each.imports and not each.defines)
    chosen = [star for text in stars if (star := _of_star(text, used))]
    return "\n".join([*chosen, *(statements[index].text for index in order)]) + "\n"


def _of_star(text: str, used: set[str]) -> str:
    """Return a star import with only the names that are used, or "" if none is.

    Not all that NumPy offers can be imported in the sandbox, and of other libraries, the names are not known.
    """
    found = re.match(r"\s*from\s+(numpy|math)\s+import\s*\*", text)
    if found is None:
        return text if used.difference(dir(builtins)) else ""
    names = sorted(used & {*dir(importlib.import_module(found[1]))})
    return f"from {found[1]} import {', '.join(names)}" if names else ""


def defined_names(code: str) -> list[str]:
    """Return the names that a text defines, in order.

    >>> defined_names("import numpy as np\\n\\ndef f(x):\\n    y = x\\n")
    ['np', 'f']
    """
    return list(dict.fromkeys(name for statement in parse([code])[code] for name in sorted(statement.defines)))


def replace_cell(text: str, name: str, starter: str) -> str:
    """Return a notebook's text with the starter in the cell of an exercise.

    Raises:
        ValueError: The text is not a notebook, or has no such cell.
    """
    notebook = load_notebook(text)
    found = [cell for cell in notebook["cells"] if grade_id(cell) == name and cell.get("cell_type") == "code"]
    if not found:
        raise ValueError(f"it has no cell for {name}.")
    for cell in found:
        cell.update(source=starter.rstrip("\n").splitlines(keepends=True), outputs=[], execution_count=None)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _statements(cell: str, body: Sequence[ast.stmt]) -> Iterator[Statement]:
    """Yield the statements of a cell that define something."""
    lines = re.split(r"\r\n?|\n", cell)  # only the line ends that Python knows; `splitlines` knows more
    firsts = [min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]) for node in body]
    ends = [node.end_lineno or node.lineno for node in body]
    for node, first, end, before, after in zip(
        body, firsts, ends, [0, *ends], [*firsts[1:], len(lines) + 1], strict=False
    ):
        shared = before >= first or after <= end
        try:
            text = ast.unparse(node) if shared else "\n".join(lines[first - 1 : end])
            table = symtable.symtable(text, "<cell>", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # such as `return` outside a function
            continue
        defines = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
        changes = frozenset(_changed(node))
        imports = isinstance(node, ast.Import | ast.ImportFrom)
        if defines or changes or imports:
            yield Statement(text, frozenset(defines), frozenset(_used(table)), changes, imports)


def _changed(node: ast.stmt) -> Iterator[str]:
    """Yield the names whose values a statement changes, which must exist before: x += 1, x[0] = 1, x.append(1)."""
    pending: list[ast.AST] = [node]
    while pending:
        found: list[ast.expr] = []
        match current := pending.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue  # it changes its own
            case ast.AugAssign():
                found = [current.target]
            case ast.Assign(targets=targets):
                targets = [part for each in targets for part in getattr(each, "elts", [each])]
                found = [each for each in targets if isinstance(each, ast.Subscript | ast.Attribute)]
            case ast.Call(func=ast.Attribute(attr=name)) if name in _CHANGES:
                found = [current.func]
        for target in found:
            while isinstance(target, ast.Subscript | ast.Attribute):
                target = target.value
            if isinstance(target, ast.Name):
                yield target.id
        pending.extend(ast.iter_child_nodes(current))


_SCOPE = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def _scoped_names(node: ast.stmt) -> int:
    """Return the product of a statement's names and functions: Python copies the names for each function inside."""
    names = scopes = 0
    inside: collections.Counter[int] = collections.Counter()  # number of scopes directly in each scope, by its id
    pending: list[tuple[ast.AST, int]] = [(node, 0)]
    while pending:
        each, owner = pending.pop()
        names += _number_of_names(each)
        if isinstance(each, _SCOPE):
            scopes += 1
            inside[owner] += 1
            owner = id(each)
        pending.extend((child, owner) for child in ast.iter_child_nodes(each))
    if names * scopes > NAMES:
        raise ValueError(f"a statement in it has {names:,} names and {scopes:,} functions.")
    if max(inside.values(), default=0) > SCOPES:
        raise ValueError(f"a statement in it has more than {SCOPES} functions side by side.")
    return names * scopes


def _number_of_names(node: ast.AST) -> int:
    """Return how many names a node binds or declares, which Python may keep as texts outside of `ast.Name`."""
    if isinstance(node, ast.Name):
        return not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Constant | ast.Attribute | ast.keyword):
        return 0
    values = [value for _, value in ast.iter_fields(node)]
    return sum(isinstance(value, str) for each in values for value in (each if isinstance(each, list) else [each]))


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that a statement, or a function in it, takes from the module."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _used(child)


def nested(value: Any, *keys: str) -> Any:
    """Return the value under these keys of nested dicts, or `None`."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def grade_id(cell: Any) -> Any:
    """Return the id that nbgrader gave a cell, if it has one."""
    return nested(cell, "metadata", "nbgrader", "grade_id")


def notebook_json(text: str) -> Any:
    """Parse the JSON of a notebook.

    Raises:
        ValueError: The text is not JSON, or takes long to parse.
    """
    try:
        return from_json(text)
    except PartsError as error:
        raise ValueError(f"{error} Clear its outputs, and save it again.") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is damaged or incomplete: {error}.") from None


def load_notebook(text: str) -> Any:
    """Parse the text of a notebook.

    Raises:
        ValueError: The text is not a notebook.
    """
    found = notebook_json(text)
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError("it is not a notebook: it has no cells.")
    return found
