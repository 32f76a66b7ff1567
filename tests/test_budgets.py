"""The line budgets of the design: functions of 40 lines, `call` of 25, without their docstrings."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "kmha").rglob("*.py"))
FUNCTION, CALL = 40, 25


def _functions(tree):
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                yield owner + child.name, child


def _lines(function):
    """From the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_there_are_files():
    assert len(FILES) > 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_budget(path):
    for name, function in _functions(ast.parse(path.read_text())):
        assert _lines(function) <= (CALL if name.endswith(".call") else FUNCTION), name


def test_no_assert_in_library_code():
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert)
    ]
    assert found == []


def test_the_package_imports_neither_assignments_nor_tests():
    for path in FILES:
        imported = {name.split(".")[0] for name in _imports(path)}
        assert not imported & {"assignments", "tests"}, path


def test_the_reference_imports_numpy_alone():
    assert _imports(ROOT / "kmha/verify/reference.py") == {"math", "typing", "numpy"}


def _imports(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return names
