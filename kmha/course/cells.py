"""Takes one answer out of many cells: the definition of a name, and everything that it uses, from wherever that is.

>>> cells = ["import math\\nx = 1", "def area(r):\\n    return circle * r**2", "circle = math.pi"]
>>> print(gathered(cells, "area"))
import math
circle = math.pi
def area(r):
    return circle * r**2
"""

import ast
import dataclasses
import json
import symtable
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard


@dataclasses.dataclass(frozen=True)
class _Statement:
    text: str
    defines: frozenset[str]
    uses: frozenset[str]


def gathered(cells: Sequence[str], name: str) -> str | None:
    """The text that defines a name: its last definition, with the last ones of all that it uses; `None` without any.

    Definitions come last, so that what they use is there; otherwise the order stays.
    """
    statements = [statement for cell in cells for statement in _statements(cell)]
    wanted, names, done = set(), [name], set()
    while names:
        sought = names.pop()
        if sought in done:
            continue
        done.add(sought)
        found = [index for index, statement in enumerate(statements) if sought in statement.defines]
        while found:
            index = found.pop()
            wanted.add(index)
            names.extend(statements[index].uses)
            if sought not in statements[index].uses:  # else it changes what was there before: x = x + 1
                break
    if not any(name in statements[index].defines for index in wanted):
        return None
    last = [index for index in sorted(wanted) if name in statements[index].defines]
    return "\n".join(statements[index].text for index in [*sorted(wanted - {*last}), *last]) + "\n"


def of_notebook(text: str, name: str) -> str:
    """The answer to an exercise in a notebook's file: the cell with its name, and what that uses from the others.

    Raises:
        ValueError: it is no notebook, or has no such cell.
    """
    cells = _code_cells(text)
    own = [source for cell, source in cells if _grade_id(cell) == name]
    if not own:
        raise ValueError(f"it has no cell for {name}. Start a folder anew and copy that cell from there.")
    # The exercise's own cell last, so that a second definition elsewhere does not count.
    others = [source for cell, source in cells if _grade_id(cell) != name]
    return gathered([*others, *own], name) or own[-1]


def replaced(text: str, name: str, starter: str) -> str:
    """A notebook's text with the starter in the cell of an exercise.

    Raises:
        ValueError: it is no notebook, or has no such cell.
    """
    notebook = _notebook(text)
    found = [cell for cell in notebook["cells"] if _grade_id(cell) == name and cell.get("cell_type") == "code"]
    if not found:
        raise ValueError(f"it has no cell for {name}.")
    for cell in found:
        cell.update(source=starter.rstrip("\n").splitlines(keepends=True), outputs=[], execution_count=None)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _statements(cell: str) -> Iterator[_Statement]:
    """The statements of a cell; none where it cannot be parsed."""
    try:
        body = ast.parse(cell).body
    except (SyntaxError, ValueError, RecursionError):
        return
    lines = cell.splitlines()
    for node in body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        text = "\n".join(lines[first - 1 : node.end_lineno])
        try:
            if len(ast.parse(text).body) > 1:  # several in a line
                text = ast.unparse(node)
            table = symtable.symtable(text, "<cell>", "exec")
        except SyntaxError:  # such as `return` outside of a function
            continue
        defines = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
        again = {each.target.id for each in ast.walk(node) if _adds(each)}  # x += 1 uses x
        if defines:
            yield _Statement(text, frozenset(defines), frozenset({*_used(table), *again}))


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


def _code_cells(text: str) -> list[tuple[Any, str]]:
    cells = [cell for cell in _notebook(text)["cells"] if cell.get("cell_type") == "code"]
    return [(cell, "".join(cell.get("source", ""))) for cell in cells]


def _grade_id(cell: Any) -> Any:
    metadata = cell.get("metadata", {})
    return metadata.get("nbgrader", {}).get("grade_id", metadata.get("grade_id"))


def _notebook(text: str) -> Any:
    try:
        notebook = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no notebook: {error}.") from None
    if not isinstance(notebook, dict) or not all(isinstance(cell, dict) for cell in notebook.get("cells", [None])):
        raise ValueError("it is no notebook: it has no cells.")
    return notebook
