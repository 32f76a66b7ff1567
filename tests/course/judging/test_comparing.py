import numpy as np
import pytest

from kmha.course.judging.comparing import difference, same, where

ARRAY = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ARRAY, ARRAY.copy()),
        (ARRAY.astype(np.float32), ARRAY),
        (ARRAY.tolist(), ARRAY),
        (ARRAY + 4e-5, ARRAY),
        (np.array([np.nan, np.inf]), np.array([np.nan, np.inf])),
        ((ARRAY, 3), [ARRAY, 3]),
        (np.stack([ARRAY, ARRAY + 1]), (ARRAY, ARRAY + 1)),  # whoever unpacks it gets the right arrays
        ({"a": np.stack([ARRAY, ARRAY + 1])}, {"a": [ARRAY, ARRAY + 1]}),
        ({"a": ARRAY, "b": "text"}, {"a": ARRAY, "b": "text"}),
        (None, None),
        (3.0, 3),
        (np.zeros((0, 4)), np.zeros((0, 4))),
        ({"a": [{"b": (None, "x")}]}, {"a": [{"b": (None, "x")}]}),
    ],
)
def test_equal_results(result, expected):
    assert difference(result, expected, 1e-5) is None


@pytest.mark.parametrize(
    ("result", "expected", "says"),
    [
        (ARRAY + 1e-4, ARRAY, "6 of 6 elements differ, the first at [0, 0]: yours is 0.0001."),
        (np.where(ARRAY == 4, 9, ARRAY), ARRAY, "1 of 6 elements differ, the first at [1, 1]: yours is 9."),
        (ARRAY.T, ARRAY, "your result has the shape (3, 2), expected (2, 3)."),
        (np.where(ARRAY == 5, np.nan, ARRAY), ARRAY, "1 of 6 elements differ, the first at [1, 2]: yours is NaN."),
        (None, ARRAY, "your code returned nothing (None). Is a `return` missing?"),
        (ARRAY, None, "your result is an array of shape (2, 3), expected None."),
        ("text", ARRAY, "your result is 'text', expected an array of shape (2, 3)."),
        (
            [[1.0], [2.0, 3.0]],
            ARRAY,
            "your result is a list of 2, which is not an array. Expected an array of shape (2, 3).",
        ),
        (ARRAY > 2, ARRAY, "your result contains booleans, expected floats."),
        (ARRAY + 0.5, ARRAY.astype(int), "your result contains floats, expected integers."),
        (2.5, 2.0, "your result is 2.5, which is wrong."),
        ((ARRAY,), (ARRAY, ARRAY), "your result is a tuple of 1, expected a tuple of 2."),
        (np.stack([ARRAY, ARRAY]), (ARRAY,), "your result is an array of shape (2, 2, 3), expected a tuple of 1."),
        (
            np.stack([ARRAY.T, ARRAY.T]),
            (ARRAY, ARRAY),
            "your result is an array of shape (2, 3, 2), expected a tuple of 2.",
        ),
        (np.array([2, 3]), (2, 3), "your result is an array of shape (2,), expected a tuple of 2."),
        (
            (ARRAY, ARRAY),
            np.stack([ARRAY, ARRAY + 1]),
            "6 of 12 elements differ, the first at [1, 0, 0]: yours is 0. All of them are at index 1 of axis 0.",
        ),
        (
            np.stack([ARRAY, ARRAY + 1]),
            (ARRAY, ARRAY),
            "6 of 6 elements differ in result[1], the first at [0, 0]: yours is 1.",
        ),
        ((ARRAY, ARRAY + 1), (ARRAY, ARRAY), "6 of 6 elements differ in result[1], the first at [0, 0]: yours is 1."),
        ((ARRAY, ARRAY.T), (ARRAY, ARRAY), "result[1] has the shape (3, 2), expected (2, 3)."),
        ({"a": 1}, {"b": 1}, "your result is a dict with 'a', expected a dict with 'b'."),
        ({"a": 1}, {"a": 2}, "result['a'] is wrong: yours is 1."),
        ("yes", "no", "your result is 'yes', expected another string."),
        ({}, ARRAY, "your result is a dict, expected an array of shape (2, 3)."),
        ({"a": (1, "x")}, {"a": (1, "y")}, "result['a'][1] is 'x', expected another string."),
    ],
)
def test_differences(result, expected, says):
    assert difference(result, expected, 1e-5) == says


def test_whole_floats_are_right_numbers_but_no_integers():
    """A shape with 20.0 cannot be used as one. Full points were given for it where a text promises integers."""
    for result, expected in ((3.0, 3), (ARRAY, ARRAY.astype(int)), ([2.0, 3.0], (2, 3)), ({"a": 2.0}, {"a": 2})):
        assert difference(result, expected, 1e-5) is None
        says = str(difference(result, expected, 1e-5, form_only=True))
        assert says.endswith(" contains floats, expected integers.")
        assert difference(expected, expected, 1e-5, form_only=True) is None
    assert difference(3, 3.0, 1e-5, form_only=True) is None


def test_the_expected_numbers_are_never_said():
    rng = np.random.default_rng(3)
    for _ in range(20):
        expected = rng.normal(size=(3, 4))
        said = difference(rng.normal(size=(3, 4)), expected, 1e-5)
        assert not any(f"{abs(value):.4g}" in said for value in expected.flat)


@pytest.mark.parametrize(("tolerance", "right"), [(1e-3, True), (1e-5, False)])
def test_the_tolerance_is_relative_to_the_largest_element(tolerance, right):
    expected = np.array([1e6, 1.0])
    assert (difference(expected + np.array([0, 500.0]), expected, tolerance) is None) == right


def test_form_only():
    assert difference(ARRAY + 1, ARRAY, 1e-5, form_only=True) is None
    assert difference("b", "a", 1e-5, form_only=True) is None
    assert difference(ARRAY.T, ARRAY, 1e-5, form_only=True) is not None


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), True),
        (np.array([np.inf, 1.0]), np.array([-np.inf, 1.0]), False),
        ([1, (2, "a")], [1, (2, "a")], True),
        (ARRAY, ARRAY.T, False),
        (ARRAY, ARRAY * (1 + 1e-8), True),
        (ARRAY, ARRAY * (1 + 1e-4), False),
    ],
)
def test_same(one, other, equal):
    assert same(one, other) == equal


@pytest.mark.parametrize("expected", [[0.0, 1.0], [0.0, 0.0]])
def test_zeros_leave_room_for_rounding(expected):
    assert difference(np.array(expected) + 1e-17, np.array(expected), 1e-5) is None
    assert difference(np.array(expected) + 1e-4, np.array(expected), 1e-5)


def test_common_index_of_wrong_elements():
    wrong = np.zeros((2, 3, 4))
    wrong[:, 1] = 1
    said = difference(wrong, np.zeros((2, 3, 4)), 1e-5)
    assert said.endswith("yours is 1. All of them are at index 1 of axis 1.")


def test_where_a_matrix_differs():
    expected = {"a": np.zeros((2, 3, 4)), "b": (np.zeros(3), np.zeros((3, 2)))}
    result = {"a": np.ones((2, 3, 4)), "b": (np.ones(3), np.eye(3, 2))}
    name, wrong = where(result, expected, 1e-5)  # not where all differ: that says nothing
    assert name == "result['b'][1]"
    np.testing.assert_array_equal(wrong, np.eye(3, 2, dtype=bool))
    result["a"][1, 2, 3] = 0
    name, wrong = where(result, expected, 1e-5)
    assert name == "result['a'][1]"
    assert np.argwhere(~wrong).tolist() == [[2, 3]]
    assert where(expected, expected, 1e-5) is None
    assert where(np.zeros((3, 2)), np.zeros((2, 3)), 1e-5) is None


def test_a_list_with_a_long_text_is_not_made_an_array(monkeypatch):
    """Every element would take as much memory as the longest text."""
    result = ["x" * 2_000, np.zeros(()), *["a"] * 2_000]
    sizes = []
    asarray = np.asarray
    monkeypatch.setattr(np, "asarray", lambda value: sizes.append((made := asarray(value)).nbytes) or made)
    assert difference([result], [ARRAY], 1e-5) == "result[0] is a list of 2002, expected an array of shape (2, 3)."
    assert max(sizes) < 1_000


def test_counts_are_right_or_wrong():
    assert difference(47_000_001, 47_000_000, 1e-5) is not None
    assert difference(47_000_000.0, 47_000_000, 1e-5) is None
    assert difference(np.array([3, 10**9 + 1]), np.array([3, 10**9]), 1e-5).startswith("1 of 2 elements")
