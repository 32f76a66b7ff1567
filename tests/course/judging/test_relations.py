import numpy as np
import pytest

from kmha.course.judging.relations import Case, relation


def _cases(function, draw=None, count=3):
    rng = np.random.default_rng(7)
    found = []
    for size in range(3, 3 + count):
        expected = rng.normal(size=(2, size, size)) if draw is None else draw(rng, size)
        x = rng.normal(size=(2, size + 4))
        found.append(Case({"x": x, "number": size + 9}, np.asarray(function(expected)), expected))
    return found


def _softmax(rng, size):
    powers = np.exp(rng.normal(size=(2, size, size)))
    return powers / powers.sum(-1, keepdims=True)


def _sparse(rng, size):
    return np.tril(rng.normal(size=(2, size, size)))


def _booleans(rng, size):
    return rng.random((2, size)) < 0.5


def _whole(rng, size):
    return rng.integers(0, 9, (2, size))


@pytest.mark.parametrize(
    ("function", "draw", "id"),
    [
        (lambda right: np.where(right > 0, np.nan, right), None, "result-nan"),
        (lambda right: np.where(right > 0, np.inf, right), None, "result-infinite"),
        (np.logical_not, _booleans, "result-inverted"),
        (np.zeros_like, None, "result-constant"),
        (np.negative, None, "result-negative"),
        (lambda right: right * np.sqrt(right.shape[-1] + 9), None, "result-scaled"),
        (lambda right: right * 3, None, "result-scaled"),
        (lambda right: right + 1, _whole, "result-offset"),
        (np.floor, None, "result-rounded-down"),
        (lambda right: right.astype(int), None, "result-cut-off"),
        (np.square, None, "result-squared"),
        (lambda right: right[..., ::-1], None, "result-reversed"),
        (lambda right: np.roll(right, 1, 1), None, "result-shifted"),
        (lambda right: np.swapaxes(right, 1, 2), None, "result-transposed"),
        (lambda right: np.sort(right.ravel()).reshape(right.shape), None, "result-elsewhere"),
        (lambda right: right[:, :1] + 0 * right, None, "result-same-along-axis"),
        (lambda right: np.exp(right) / np.exp(right).sum(1, keepdims=True), _softmax, "sums-along-wrong-axis"),
        (lambda right: right * right, _softmax, "result-squared"),
        (lambda right: right + np.tril(right) / 3, _softmax, "rows-do-not-sum-to-one"),
        (lambda right: np.where(right == 0, 0.5, right), _sparse, "should-be-zero"),
        (lambda right: np.tril(right), None, "should-not-be-zero"),
        (lambda right: right + 1e-3 * np.sin(right), None, "result-nearly-right"),
        (lambda right: right + np.random.default_rng(3).normal(size=right.shape), None, None),
        (lambda right: right * np.random.default_rng(3).random(right.shape), None, None),
    ],
)
def test_relations(function, draw, id):
    found = relation("your result", _cases(function, draw))
    assert (found and found[0]) == id


def test_a_factor_is_named_after_a_size():
    says = relation("result[0]", _cases(lambda right: right / np.sqrt(right.shape[-1] + 4)))[1]
    assert says == "`result[0]` is too small by the factor √7. 7 is the size of axis 1 of `x`."


def test_a_relation_holds_in_all_cases():
    cases = _cases(np.negative)
    broken = [*cases[:2], Case({}, cases[2].expected * 2, cases[2].expected)]
    assert relation("your result", broken) is None


def test_an_argument_that_is_returned():
    x = np.random.default_rng(3).normal(size=(2, 3))
    case = Case({"x": x}, x, np.sin(x))
    assert relation("your result", [case])[1] == "Your result is your argument `x`, unchanged."


@pytest.mark.parametrize(
    ("way", "says"),
    [
        (lambda right, bias: right - bias, "lacks `bias`, which must be added."),
        (lambda right, bias: right + bias, "has `bias` added once too often."),
        (lambda right, bias: right / bias, "lacks `bias` as a factor."),
        (lambda right, bias: right * bias, "has `bias` as a factor once too often."),
    ],
)
def test_an_argument_that_is_missing(way, says):
    rng = np.random.default_rng(3)
    right, bias = rng.normal(size=(4, 2, 3)), rng.normal(size=(2, 3))
    assert relation("your result", [Case({"bias": bias}, way(right, bias), right)])[1] == f"Your result {says}"


def test_known_factors():
    assert "radians" in relation("your result", _cases(np.degrees))[1]


def test_texts_have_no_relation():
    assert relation("your result", [Case({}, np.array(["a"]), np.array(["b"]))]) is None


def test_where_all_must_be_zero_nothing_is_said_of_the_rest():
    case = Case({}, np.array([3.0, -5.0, 0.0]), np.zeros(3))
    assert relation("your result", [case]) == (
        "should-all-be-zero",
        "Your result must be 0 everywhere here. Yours has -5, for example.",
    )


def test_a_sum_that_is_nearly_one_is_not_printed_as_one():
    right = np.array([[0.25, 0.75], [0.5, 0.5]])
    says = relation("your result", [Case({}, right - [[0, 2e-6], [0, 0]], right)])[1]
    assert says.endswith("Yours has a row with the sum 0.999998.")


@pytest.mark.parametrize(("order", "exchanged"), [((1, 0, 2), True), ((1, 2, 0), False)])
def test_only_two_axes_are_exchanged(order, exchanged):
    right = np.arange(27.0).reshape(3, 3, 3)
    id, says = relation("your result", [Case({}, right.transpose(order), right)])
    assert id == "result-transposed"
    assert ("axis 0 and axis 1 are exchanged" in says) == exchanged
    assert ("exchanged" in says) == exchanged


def test_what_is_nearly_right_has_no_scale():
    """A sum with 1e-6 added was "1 times what it should be, everywhere"."""
    (id, says) = relation("your result", _cases(lambda right: right * (1 - 4e-7)))
    assert id == "result-nearly-right"
    assert "4e-07" in says


def test_a_smaller_dtype_is_said():
    (id, says) = relation("your result", _cases(lambda right: right.astype("float32")))
    assert id == "result-less-precise"
    assert "float32" in says
    assert "float64" in says
