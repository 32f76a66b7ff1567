"""The line budgets of the design: files of 250 lines, functions of 40, `call` of 25, without their docstrings."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "kmha").rglob("*.py"))
FILE, FUNCTION, CALL = 250, 40, 25


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
    text = path.read_text()
    assert len(text.splitlines()) <= FILE
    for name, function in _functions(ast.parse(text)):
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


def test_the_tests_mirror_the_package():
    """Every module of the package has a test file in its place, or is tested through the one named here."""
    through = {
        "core/blocks.py": "core/test_rows.py",
        "core/looped.py": "core/test_blocked.py",
        "interchange/errors.py": "interchange/test_conversion.py",
        "interchange/reading.py": "interchange/test_conversion.py",
        "interchange/writing.py": "interchange/test_conversion.py",
        "cli/options.py": "cli/test_main.py",
        "cli/texts_given.py": "cli/test_translation.py",
        "cli/training_display.py": "cli/test_training.py",
        "interchange/file_errors.py": "interchange/test_files.py",
        "interchange/keras_files.py": "interchange/test_files.py",
        "interchange/keras_paths.py": "interchange/test_files.py",
        "interchange/torch_files.py": "interchange/test_files.py",
        "interchange/model_checks.py": "interchange/test_models.py",
        "layers/arguments.py": "layers/test_bad_input.py",
        "layers/calls.py": "layers/test_bad_input.py",
        "layers/attention_base.py": "layers/test_multi_head_attention.py",
        "layers/block.py": "layers/test_encoder.py",
        "layers/stack.py": "layers/test_encoder.py",
        "cli/checks.py": "cli/test_diagnosis.py",
        "cli/course_grading.py": "cli/test_teaching.py",
        "cli/course_releasing.py": "cli/test_teaching.py",
        "cli/course_checking.py": "cli/test_course.py",
        "cli/course_common.py": "cli/test_course.py",
        "cli/course_learning.py": "cli/test_course.py",
        "cli/course_report.py": "cli/test_course.py",
        "cli/course_verifying.py": "cli/test_course.py",
        "cli/course_watching.py": "cli/test_course.py",
        "verify/diagnosing/measuring.py": "verify/test_diagnosis.py",
        "verify/diagnosing/block_parts.py": "verify/diagnosing/test_subject_blocks.py",
        "verify/draw.py": "verify/test_cases.py",
        "verify/expected.py": "verify/test_comparison.py",
        "verify/running.py": "verify/test_comparison.py",
        "verify/run_tensorflow.py": "verify/test_comparison.py",
        "verify/run_jax.py": "verify/test_comparison.py",
        "verify/run_torch.py": "verify/test_comparison.py",
    }
    for path in FILES:
        module = str(path.relative_to(ROOT / "kmha"))
        if path.name != "__init__.py":
            test = through.get(module, str(Path(module).parent / f"test_{path.name}"))
            assert (ROOT / "tests" / test).is_file(), module
