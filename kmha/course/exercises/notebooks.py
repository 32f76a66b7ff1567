"""Make the notebook of an assignment, and extract the answers from a notebook that a learner returns.

The cells of an exercise are its text, its code and its check. Their metadata tells nbgrader which cell is a solution,
which is a test with points, and which must not be changed (https://nbgrader.readthedocs.io, schema 3). nbgrader gives
the points that the test's cell ends with, so a cell must end with a number or raise an error. In a returned
notebook, an editor may have dropped the metadata, and the learner may have added cells, magics and second tries. What
counts is the state of a kernel after it runs the cells in order: the last definition of the exercise's name among its
cells, and everything that this definition uses.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kmha.course.exercises import cells, extras
from kmha.course.exercises.content import Assignment, Item

SCHEMA = 3  # version of nbgrader's metadata
CODE, STATEMENTS = 256 << 10, 5_000  # limits for all code cells: characters, and top-level statements
CELL_MAGICS = 5  # maximum number of magics, one below the other, at the top of a cell
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_DEFINED = re.compile(r"^(?:def|class) (\w+)", re.M)
_MAGIC = re.compile(r"^([ \t]*)(?:[%!?].*|\w+[ \t]*=[ \t]*[%!].*|[\w.]+\?{1,2})$", re.M)


def student(assignment: Assignment) -> Any:
    """Return the notebook that a learner gets, with the starters.

    Raises:
        MissingPackageError: nbformat is not installed.
    """
    return _notebook(assignment, {item.name: item.master.starter for item in assignment.items})


def solved(assignment: Assignment) -> Any:
    """Return the notebook with the solutions."""
    return _notebook(assignment, {item.name: item.master.solution for item in assignment.items})


def answers(
    notebook: Mapping[str, Any], assignment: Assignment, take: Callable[[str], None] = lambda code: None
) -> dict[str, str]:
    """Return the answers in a notebook, keyed by the names of the exercises.

    Args:
        notebook: Parsed JSON of the notebook, which is untrusted.
        assignment: The assignment whose exercises to look for.
        take: Function that is called with the text of each code cell before anything parses it. It may raise an error.

    Raises:
        ValueError: The notebook is invalid, or its code is too long, or would take long to parse.
    """
    _check_code(notebook)
    titles = {item.master.title: item.name for item in assignment.items}
    names = {item.name for item in assignment.items}
    own: dict[str, list[str]] = {}
    every: list[tuple[str | None, str]] = []
    current = None
    for kind, id, source in _cells(notebook):
        if kind != "code":
            current = next((titles[title] for title in _headings(source) if title in titles), current)
            continue
        take(source)
        current = id if id in names else current
        code = _without_magics(source)
        every.append((current, code))
        if current is not None:
            own.setdefault(current, []).append(code)
    parsed = cells.parse((code for _, code in every), STATEMENTS)
    found = {}
    for item in assignment.items:
        name, wanted = item.name, cells.defined_names(item.master.starter)
        others = [code for of, code in every if of != name]
        answer = cells.gather([*others, *own.get(name, [])], name, *wanted, parsed=parsed)
        if answer is None:  # running this code shows the error
            broken = (code for _, code in every if re.search(rf"^(def|class) {re.escape(name)}\b", code, re.M))
            answer = own[name][0] if name in own else next(broken, None)
        if answer is not None:
            found[name] = answer
    return found


def unread(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells that define something but are not read, keyed by what they define.

    Raises:
        ValueError: The notebook is invalid.
    """
    found: dict[str, str] = {}
    for kind, _, source in _cells(notebook):
        first = source.lstrip().partition("\n")[0]
        in_magic = kind == "code" and first.startswith("%%") and not _without_magics(source)
        if kind == "raw" or in_magic:
            cell = f"a cell that begins with {first.split()[0]}" if in_magic else "a raw cell"
            found |= dict.fromkeys(_DEFINED.findall(source), cell)
    return found


def _notebook(assignment: Assignment, codes: Mapping[str, str]) -> Any:
    v4 = extras.load("nbformat").v4
    opening = v4.new_markdown_cell(assignment.text.rstrip("\n"), id="opening", metadata=_locked("opening"))
    parts = [cell for item in assignment.items for cell in _of_item(v4, item, codes[item.name])]
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}, "kmha": {"assignment": assignment.id}}
    return v4.new_notebook(cells=[opening, *parts], metadata=metadata)


def _of_item(v4: Any, item: Item, code: str) -> Iterator[Any]:
    number = item.name.replace("_", "-")[:50]  # with fixed ids, the same masters give the same file
    yield v4.new_markdown_cell(item.master.text, id=f"text-{number}", metadata=_locked(f"text-{item.name}"))
    code = _without_imports(code, item)
    solution = _marked(item.name, solution=True, cell_type="code")
    yield v4.new_code_cell(code.rstrip("\n"), id=f"code-{number}", metadata=solution)
    check = f'from kmha.course import check\n\ncheck("{item.id}").show()'
    test = _marked(f"check-{item.name}", grade=True, locked=True, cell_type="code", points=item.all_points)
    yield v4.new_code_cell(check, id=f"check-{number}", metadata=test)


def _locked(id: str) -> dict[str, Any]:
    return _marked(id, locked=True, cell_type="markdown")


def _marked(
    id: str, *, grade: bool = False, solution: bool = False, locked: bool = False, **more: Any
) -> dict[str, Any]:
    about = {"grade": grade, "grade_id": id, "locked": locked, "schema_version": SCHEMA, "solution": solution}
    return {"nbgrader": {**about, "task": False, **more}}


def _without_imports(code: str, item: Item) -> str:
    """Replace imports of other exercises, which are in earlier cells of the notebook, not in files."""
    for name in item.spec.needs:
        code = re.sub(rf"^from {name} import ({name})\b.*$", rf"# {name}: as you wrote it above", code, flags=re.M)
    return code


def _cells(notebook: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the nbgrader id and the text of each cell."""
    found = notebook.get("cells") if isinstance(notebook, Mapping) else None
    if not isinstance(found, list):
        raise ValueError("it has no cells. Open it in Jupyter, and save it again.")
    for cell in found:
        if not isinstance(cell, Mapping):
            continue
        source, marked = cell.get("source"), cells.grade_id(cell)
        if isinstance(source, list):
            source = "".join(line for line in source if isinstance(line, str))
        if isinstance(source, str):
            # A notebook can contain half of a surrogate pair, but a UTF-8 file cannot.
            text = source.encode(errors="replace").decode()
            yield str(cell.get("cell_type")), marked if isinstance(marked, str) else "", text


def _check_code(notebook: Mapping[str, Any]) -> None:
    """Raise a ValueError if the code is too long, or takes long to parse. To remove the magics of a cell parses it."""
    size, efforts = 0, 0
    for kind, _, source in _cells(notebook):
        if kind != "code":
            continue
        size += len(source)
        if size > CODE:
            raise ValueError(f"its code cells contain more than {CODE >> 10} KiB.")
        efforts += cells.effort(source)
        if efforts > 2 * cells.EFFORT:
            raise ValueError(cells.TOO_SLOW)


def _headings(markdown: str) -> list[str]:
    return [line.lstrip("# ").strip() for line in markdown.splitlines() if line.startswith("#")]


def _without_magics(source: str) -> str:
    """Return a cell without the syntax that only IPython understands, or "" if the cell is in another language."""
    for _ in range(CELL_MAGICS):
        if cells.syntax_tree(source):
            return source
        first, _, rest = source.lstrip().partition("\n")
        if not first.startswith("%%"):
            # In a block, a statement must stay.
            return _MAGIC.sub(lambda found: f"{found[1]}pass" if found[1] else "", source)
        magic, *arguments = first.split()
        written = magic in ("%%writefile", "%%file") and arguments and arguments[-1].strip("'\"").endswith(".py")
        if not written and magic not in ("%%time", "%%timeit", "%%capture"):
            return ""
        source = rest
    return ""
