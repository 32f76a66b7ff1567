"""Takes one answer out of many cells: the definition of a name, and everything that it uses, from wherever that is.

>>> cells = ["import math\\nx = 1", "def area(r):\\n    return circle * r**2", "circle = math.pi"]
>>> print(gathered(cells, "area"), end="")
import math
circle = math.pi
def area(r):
    return circle * r**2
"""

import ast
import dataclasses
import json
import re
import symtable
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

SCOPES = 200  # functions, classes and the like, directly in another: what looks up names in them is slow over many


@dataclasses.dataclass(frozen=True)
class Statement:
    """One of a cell, with the names of the module that it defines and uses."""

    text: str
    defines: frozenset[str]
    uses: frozenset[str]
    imports: bool = False


Parsed = Mapping[str, Sequence[Statement]]


def parsed(cells: Iterable[str], most: float = float("inf")) -> Parsed:
    """The statements of cells that define something, by the cells' texts; none where one cannot be parsed.

    Raises:
        ValueError: there are more than `most` statements, or more than 200 functions side by side in one.
    """
    found: dict[str, Sequence[Statement]] = {}
    count = 0
    for cell in cells:
        if cell not in found:
            try:
                body = ast.parse(cell).body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                body = []
            count += len(body)
            if count > most:
                raise ValueError(f"it has more than {most:,} statements.")
            found[cell] = tuple(_statements(cell, body))
    return found


def gathered(cells: Sequence[str], name: str, *more: str, known: Parsed | None = None) -> str | None:
    """The text that defines a name: its last definition, with the last ones of all that it uses; `None` without any.

    `more` are names that are wanted too, where they are defined: those of the starter (`defined`). `known` are the
    cells' statements, where they are parsed already.
    Imports come first, for each cell has its own, and the last one of a name may stand below what uses it. The
    definition that is sought comes last, so that what it uses is there. Otherwise the order stays.
    """
    known = parsed(cells) if known is None else known
    statements = [statement for cell in cells for statement in known[cell]]
    places: dict[str, list[int]] = {}
    for index, statement in enumerate(statements):
        for each in statement.defines:
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
            if sought not in statements[index].uses:  # else it changes what was there before: x = x + 1
                break
    last = [index for index in places.get(name, []) if index in wanted]
    if not last:
        return None
    first = [index for index in sorted(wanted - {*last}) if statements[index].imports]
    order = [*first, *sorted(wanted - {*first, *last}), *last]
    return "\n".join(statements[index].text for index in order) + "\n"


def defined(code: str) -> list[str]:
    """The names that a text defines, in order.

    >>> defined("import numpy as np\\n\\ndef f(x):\\n    y = x\\n")
    ['np', 'f']
    """
    return list(dict.fromkeys(name for statement in parsed([code])[code] for name in sorted(statement.defines)))


def replaced(text: str, name: str, starter: str) -> str:
    """A notebook's text with the starter in the cell of an exercise.

    Raises:
        ValueError: it is no notebook, or has no such cell.
    """
    whole = notebook(text)
    found = [cell for cell in whole["cells"] if grade_id(cell) == name and cell.get("cell_type") == "code"]
    if not found:
        raise ValueError(f"it has no cell for {name}.")
    for cell in found:
        cell.update(source=starter.rstrip("\n").splitlines(keepends=True), outputs=[], execution_count=None)
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _statements(cell: str, body: Sequence[ast.stmt]) -> Iterator[Statement]:
    """Those of a cell that define something."""
    lines = re.split(r"\r\n?|\n", cell)  # what Python takes for the ends of lines, and nothing else
    firsts = [min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]) for node in body]
    ends = [node.end_lineno or node.lineno for node in body]
    for node, first, end, before, after in zip(
        body, firsts, ends, [0, *ends], [*firsts[1:], len(lines) + 1], strict=False
    ):
        shared = before >= first or after <= end
        try:
            text = ast.unparse(node) if shared else "\n".join(lines[first - 1 : end])
            table = symtable.symtable(text, "<cell>", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # such as `return` outside of a function
            continue
        _check_scopes(table)
        defines = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
        again = {each.target.id for each in ast.walk(node) if _adds(each)}  # x += 1 uses x
        if defines:
            imports = isinstance(node, ast.Import | ast.ImportFrom)
            yield Statement(text, frozenset(defines), frozenset({*_used(table), *again}), imports)


def _check_scopes(table: symtable.SymbolTable) -> None:
    children = table.get_children()
    if len(children) > SCOPES:
        raise ValueError(f"a statement in it has more than {SCOPES} functions side by side.")
    for child in children:
        _check_scopes(child)


def _adds(node: ast.AST) -> TypeGuard[Any]:
    return isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that a statement, or a function in it, takes from the module."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _used(child)


def grade_id(cell: Any) -> Any:
    """The name that nbgrader knows a cell by, if it has one."""
    for key in ("metadata", "nbgrader", "grade_id"):
        cell = cell.get(key) if isinstance(cell, dict) else None
    return cell


def notebook(text: str) -> Any:
    """A notebook's file as JSON has it.

    Raises:
        ValueError: it is none.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no notebook: {error}.") from None
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError("it is no notebook: it has no cells.")
    return found
