import numpy as np
import pytest

from kmha.interchange import axes
from kmha.interchange.errors import LayoutError

SIZES = {"P": 2, "H": 3, "O": 4, "I": 5}


@pytest.mark.parametrize(
    ("pattern", "shape", "expected"),
    [
        ("(H O) I -> H I O", (12, 5), lambda x, h, i, o: x[4 * h + o, i]),
        ("(O H) I -> H I O", (12, 5), lambda x, h, i, o: x[3 * o + h, i]),
        ("I (H O) -> H I O", (5, 12), lambda x, h, i, o: x[i, 4 * h + o]),
        ("() I H O -> H I O", (1, 5, 3, 4), lambda x, h, i, o: x[0, i, h, o]),
    ],
)
def test_every_element_goes_where_the_pattern_says(pattern, shape, expected):
    x = np.random.default_rng(0).normal(size=shape)
    parsed = axes.parse(pattern)
    actual = parsed.to_canonical(x, SIZES)
    assert actual.shape == (3, 5, 4)
    for h, i, o in np.ndindex(actual.shape):
        assert actual[h, i, o] == expected(x, h, i, o)
    assert np.array_equal(parsed.to_foreign(actual, SIZES), x)


def test_packed_roles_come_first():
    x = np.arange(2 * 3 * 4 * 5).reshape(24, 5)
    actual = axes.parse("(P H O) I -> P H I O").to_canonical(x, SIZES)
    assert np.array_equal(actual[1], axes.parse("(H O) I -> H I O").to_canonical(x[12:], SIZES))


def test_axes_at_the_end_that_stay():
    x = np.random.default_rng(0).normal(size=(12, 7, 2))
    sizes = axes.solve([axes.Fact("x", axes.parse_side("(H O) ..."), x.shape)], {"H": 3})
    pattern = axes.parse("(H O) ... -> O H ...")
    actual = pattern.to_canonical(x, sizes)
    assert np.array_equal(actual, x.reshape(3, 4, 7, 2).transpose(1, 0, 2, 3))
    assert np.array_equal(pattern.to_foreign(actual, sizes), x)


@pytest.mark.parametrize("pattern", ["H I -> H O", "H I", "H H -> H H", "(H I -> I H", "H, I -> I H"])
def test_patterns_that_are_none(pattern):
    with pytest.raises(ValueError, match="Received"):
        axes.parse(pattern)


def test_shapes_tell_sizes_in_any_order():
    facts = [
        axes.Fact("kernel", axes.parse_side("(H O) I"), (12, 5)),
        axes.Fact("bias", axes.parse_side("H O"), (3, 4)),
    ]
    assert axes.solve(facts, {}) == {"H": 3, "O": 4, "I": 5}


def test_what_shapes_leave_open():
    facts = [axes.Fact("kernel", axes.parse_side("(H O) I"), (12, 5))]
    assert axes.unsolved(facts, axes.solve(facts, {})) == ["H", "O"]


@pytest.mark.parametrize(
    ("side", "shape", "known"),
    [
        ("(H O) I", (12, 5, 2), {}),
        ("(H O) I", (12, 5), {"H": 5}),
        ("H O", (3, 4), {"H": 4}),
        ("H ...", (3,), {}),
        ("H ...", (3, 5), {"...": (7,)}),
    ],
)
def test_shapes_that_do_not_fit(side, shape, known):
    with pytest.raises(LayoutError, match=r"`kernel` has the shape .* which does not fit the axes"):
        axes.solve([axes.Fact("kernel", axes.parse_side(side), shape)], known)


def test_text_is_what_was_parsed():
    assert axes.text(axes.parse_side("(P H O) () I ...")) == "(P H O) () I ..."
