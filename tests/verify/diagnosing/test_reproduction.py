import fractions

import numpy as np
import pytest

from kmha.verify.chains.attention import Trial, run
from kmha.verify.diagnosing import reproduction
from kmha.verify.diagnosing.matching import Answer, TrialResult


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.25, -2.0]]),
        np.array([[0.1, -2.33]], "float32"),
        np.array([0.5, 65504.0], "float16"),
        np.array([[True, False]]),
        np.array([[1, 0]], "int32"),
        np.array([[1.2345678e-9, 3.0e7]], "float32"),
    ],
)
def test_a_literal_is_the_array(array):
    again = eval(reproduction.literal(array), {"np": np})  # noqa: S307 - the line above
    np.testing.assert_array_equal(again, array)
    assert again.dtype.kind == array.dtype.kind
    assert again.dtype == array.dtype or array.dtype == "int32"


def test_numbers_of_two_decimals_are_short_in_every_dtype():
    assert reproduction.literal(np.array([0.19], "float32")) == "np.array([0.19], dtype='float32')"


class Local:
    pass


@pytest.mark.parametrize(
    ("thing", "source", "name", "last"),
    [
        (fractions.Fraction, "", "Fraction", "from fractions import Fraction"),
        (fractions.Fraction.limit_denominator, "", "Fraction.limit_denominator", "from fractions import Fraction"),
        (fractions.Fraction, "my.module:Mine", "Fraction", "from my.module import Mine as Fraction"),
        (fractions.Fraction(1, 2), "my_module:half", "layer", "from my_module import half as layer"),
        (fractions.Fraction(1, 2), "", "layer", "# layer: the candidate that was diagnosed"),
        (lambda: 0, "", "candidate", "# candidate: the candidate that was diagnosed"),
        (len, "", "len", "# len: the candidate that was diagnosed"),
    ],
)
def test_what_a_script_imports(thing, source, name, last):
    lines = reproduction.imports(thing, "numpy", source, name)
    assert lines == ["import numpy as np", last, ""]


@pytest.mark.parametrize(
    ("framework", "first"),
    [
        ("keras", "import keras"),
        ("tensorflow", "import tensorflow as tf"),
        ("torch", "import torch"),
        ("jax", "import jax"),
    ],
)
def test_a_framework_is_imported(framework, first):
    assert first in reproduction.imports(fractions.Fraction, framework, "", "Fraction")


def test_arguments_are_lines_and_what_is_given():
    arguments = {
        "q": np.ones((1, 2)),
        "inputs": [np.zeros(2), np.ones(1)],
        "weights": {"query/kernel": np.ones(1)},
        "mask": None,
        "causal": True,
        "name": "x",
    }
    lines, given = reproduction.assignments(arguments, "numpy")
    scope = {"np": np}
    exec("\n".join(lines), scope)  # noqa: S102 - the lines above
    np.testing.assert_array_equal(scope["q"], arguments["q"])
    np.testing.assert_array_equal(scope["inputs"][1], [1.0])
    np.testing.assert_array_equal(scope["weights"]["query/kernel"], [1.0])
    assert given == ["q=q", "inputs=inputs", "weights=weights", "mask=None", "causal=True", "name='x'"]


def test_tensors_are_made_of_arrays():
    torch = pytest.importorskip("torch")
    lines, _ = reproduction.assignments({"q": torch.ones((1, 2), dtype=torch.float64)}, "torch")
    assert lines == ["q = torch.tensor(np.array([[1.0, 1.0]]))"]


def _result(change):
    query = np.arange(6.0).reshape(1, 1, 2, 3) / 10
    trial = Trial("core", query, query, query)
    state = run(trial)
    return TrialResult(trial, Answer(*change(state["output"], state["scores"])))


def test_a_script_says_what_is_right():
    text = reproduction.script(_result(lambda output, scores: (output + 1, scores)), ["result = f(q)"])
    lines = text.splitlines()
    assert lines[:2] == ["result = f(q)", "print(result)"]
    right = eval(lines[2].removeprefix("# right: "))  # noqa: S307 - a list of numbers
    np.testing.assert_allclose(right, _result(lambda output, scores: (output, scores)).answer.output, atol=1e-6)
    assert len(lines) == 3


def test_scores_are_shown_if_the_output_is_right():
    text = reproduction.script(_result(lambda output, scores: (output, scores + 1)), ["result = f(q)"])
    assert text.splitlines()[-1].startswith("# right scores: [[[[")
