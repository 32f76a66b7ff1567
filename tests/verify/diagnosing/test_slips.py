"""Errors of a candidate's own code, and what untrusted code makes of them."""

import functools

import keras
import numpy as np
import pytest

from kmha.verify import diagnose
from kmha.verify.diagnosing.slips import error_line, is_slip, line_of_error, meant_name


class Hostile:
    def __dir__(self):
        raise RuntimeError

    def __str__(self):
        raise RuntimeError


def error_of(function):
    with pytest.raises(Exception) as raised:  # noqa: PT011 - of any kind
        function()
    return raised.value


@pytest.mark.parametrize(
    ("function", "meant", "is_own"),
    [
        (lambda: np.ones(2).tanspose(), "transpose", True),
        (lambda: np.lin_alg, "linalg", True),
        (lambda: np.ones(2).colour, "", False),
        (lambda: None.to, "", False),
        (lambda: Hostile().colour, "", True),  # of a class of this module
        (lambda: undefined, "", True),  # noqa: F821
        (lambda: np.ones(2) @ np.ones(3), "", False),
    ],
)
def test_a_misspelt_name_is_a_slip(function, meant, is_own):
    error = error_of(function)
    assert (meant_name(error), is_slip(error, __name__)) == (meant, is_own)
    assert error_line(error).endswith(f"Did you mean `{meant}`?") == bool(meant)
    assert "lambda" in line_of_error(error, __name__).text


def test_an_error_of_other_code_has_no_line():
    assert line_of_error(error_of(lambda: np.ones(2) @ np.ones(3)), "another.module") is None


class Core(keras.layers.Layer):
    """Attention without weights, which kmha calls as a function."""

    def call(self, query, key, value):
        assert len(query.shape) == 4
        return self.undefined


def attention(query, key, value, extra):
    return undefined  # noqa: F821


def weighted(x, w_q, w_k, w_v, w_o, num_heads):
    return undefined  # noqa: F821


@pytest.mark.parametrize("candidate", [Core, functools.partial(attention, extra=1), weighted])
def test_the_line_is_the_candidates_own(candidate):
    found = diagnose(candidate)
    assert found.verdict == "raises"
    assert found.line.path == __file__
    assert "undefined" in found.line.text


class Nested(keras.layers.Layer):
    """Its call is indented too far."""

    def __init__(self, units):
        super().__init__()
        self.dense = keras.layers.Dense(units)

        def call(self, query, key, value):
            return self.dense(query)


def test_a_method_inside_of_another_is_said_to_be_there():
    with pytest.raises(ValueError, match=r"Nested has no call\(\): `def call` stands inside of __init__\(\)"):
        diagnose(Nested)
