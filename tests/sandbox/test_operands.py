import importlib.util
import os

import numpy as np
import pytest

from kmha.sandbox import operands


def _described(folder, body, **inputs):
    path = folder / "answer.py"
    path.write_text(f"import numpy as np\n\n\ndef answer({', '.join(inputs)}):\n    {body}\n")
    spec = importlib.util.spec_from_file_location("answer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        module.answer(**inputs)
    except BaseException as error:
        return operands.describe(error, str(folder))
    raise AssertionError("no error")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return 1 + query @ key", "query (2, 3), key (4, 5)"),
        ("return query + (key @\n        query)", "key (4, 5), query (2, 3)"),
        ("return np.matmul(query, key.T)", "query (2, 3), key.T (5, 4)"),
        ("return query.reshape(size, -1)", "query (2, 3), size = 7"),
        ("return nothing + size", "nothing = None, size = 7"),
        ("return query @ 'size'", "query (2, 3)"),
    ],
)
def test_the_values_of_the_expression(tmp_path, body, says):
    given = {"query": np.zeros((2, 3)), "key": np.zeros((4, 5)), "size": 7, "nothing": None}
    assert _described(tmp_path, body, **given) == says


class Lies:
    def __getattr__(self, name):
        raise SystemExit(name)


def test_values_that_raise_errors(tmp_path):
    assert _described(tmp_path, "return lies + 1", lies=Lies()) == ""


def test_an_error_elsewhere(tmp_path):
    assert operands.describe(ValueError("raised nowhere"), os.fspath(tmp_path)) == ""
