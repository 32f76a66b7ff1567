import ml_dtypes
import numpy as np
import pytest

from kmha.show import scores
from kmha.show.scores import Scale


class Tensor:
    """Like a torch tensor with a gradient: NumPy can read it only after detach, cpu and float."""

    def __init__(self, array, steps=()):
        self.array, self.steps = array, steps

    def __getattr__(self, name):
        if name in ("detach", "cpu", "float"):
            return lambda: Tensor(self.array, (*self.steps, name))
        raise AttributeError(name)

    def __array__(self, dtype=None, copy=None):
        if self.steps != ("detach", "cpu", "float"):
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.array


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "bool", "int32"])
def test_any_dtype_of_numbers(dtype):
    given = np.array([[0, 1, 0], [1, 0, 0]], dtype)
    read = scores.one_head(given, "heatmap")
    assert read.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_array_equal(read, [[0, 1, 0], [1, 0, 0]])


@pytest.mark.tensorflow
def test_a_tensor_of_tensorflow():
    import tensorflow

    given = tensorflow.constant([[[0.25, 0.5, 0.25]], [[0.5, 0.25, 0.25]]], "bfloat16")
    assert given.numpy().dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(scores.all_heads(given, None), [[[0.25, 0.5, 0.25]], [[0.5, 0.25, 0.25]]])


def test_a_tensor_that_wants_a_gradient():
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(scores.one_head(Tensor(given), "heatmap"), given)


def test_a_symbolic_tensor_is_an_error():
    import keras

    with pytest.raises(ValueError, match=r"heatmap: expected an array of real numbers.* Received KerasTensor"):
        scores.one_head(keras.KerasTensor((2, 3)), "heatmap")


@pytest.mark.parametrize(
    "given", [None, "abc", [["a", "b"]], [[1, 2], [3]], np.ones((2, 3), complex), object(), [[None, 0.5]]]
)
def test_anything_but_an_array_of_numbers_is_an_error(given):
    with pytest.raises(ValueError, match=r"^heatmap: expected an array of real numbers, such as \(T, S\)"):
        scores.one_head(given, "heatmap")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3,), r"heatmap: expected \(T, S\)\. Received the shape \(3,\)\."),
        ((2, 3, 5), r"one head, \(T, S\)\. Received \(H, T, S\) = \(2, 3, 5\): choose a head, scores\[0\].*heads"),
        ((7, 2, 3, 5), r"Received \(B, H, T, S\) = \(7, 2, 3, 5\).*scores\[0, 0\].*heads\(scores, item=0\)"),
        ((0, 3), r"nothing to show\. Received the shape \(0, 3\)"),
    ],
)
def test_another_rank_than_one_head(shape, message):
    with pytest.raises(ValueError, match=message):
        scores.one_head(np.zeros(shape), "heatmap")


def test_the_item_is_chosen():
    given = np.arange(2 * 3 * 5 * 7).reshape(2, 3, 5, 7)
    np.testing.assert_array_equal(scores.all_heads(given, 1), given[1])
    np.testing.assert_array_equal(scores.all_heads(given, -2), given[0])
    np.testing.assert_array_equal(scores.all_heads(given, np.int64(1)), given[1])
    np.testing.assert_array_equal(scores.all_heads(given[1:], None), given[1])
    np.testing.assert_array_equal(scores.all_heads(given[0], None), given[0])


@pytest.mark.parametrize(
    ("shape", "item", "message"),
    [
        ((3, 5), None, r"heads: expected \(H, T, S\) or \(B, H, T, S\).*\(3, 5\).*heatmap\(scores\)"),
        ((2, 2, 3, 5, 7), None, r"\(2, 2, 3, 5, 7\)\. Use layers\(scores"),
        ((2, 3, 5, 7), None, r"shows one item of a batch.*choose one of the 2, for instance item=0"),
        ((2, 3, 5, 7), 2, r"an item from 0 to 1, as B is 2\. Received: 2"),
        ((2, 3, 5, 7), -3, "Received: -3"),
        ((2, 3, 5, 7), True, "Received: True"),
        ((2, 3, 5, 7), 0.5, "Received: 0.5"),
        ((3, 5, 7), 0, r"item=0 is for \(B, H, T, S\)\. Received \(H, T, S\) = \(3, 5, 7\)"),
        ((2, 0, 5, 7), 0, "nothing to show"),
    ],
)
def test_heads_that_cannot_be_chosen(shape, item, message):
    with pytest.raises(ValueError, match=message):
        scores.all_heads(np.zeros(shape), item)


def test_a_dict_is_no_layer():
    with pytest.raises(ValueError, match=r"^heads: .* by name \(a, b\): choose one, scores\[name\].*layers\(scores\)"):
        scores.all_heads({"a": 1, "b": 2}, None)


def test_layers_of_every_kind():
    given = np.arange(2 * 3 * 5 * 7 * 11).reshape(2, 3, 5, 7, 11)
    for what in (given, list(given), tuple(given), [Tensor(given[0]), given[1]]):
        read = scores.all_layers(what, 2)
        assert list(read) == ["layer 1", "layer 2"]
        np.testing.assert_array_equal(read["layer 2"], given[1, 2])
    np.testing.assert_array_equal(scores.all_layers(given[0], None)["layer 3"], given[0, 2])
    read = scores.all_layers({"b": given[1, 0], "a": given[0, 0, :, :, :4]}, None)
    assert {name: array.shape for name, array in read.items()} == {"b": (5, 7, 11), "a": (5, 7, 4)}
    assert list(read) == ["b", "a"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "there are no scores"),
        ([], r"expected \(L, H, T, S\) or \(L, B, H, T, S\)\. Received the shape \(0,\)"),
        (np.zeros((3, 5, 7)), r"Received the shape \(3, 5, 7\)\. Use heads\(scores\)"),
        ([np.zeros((5, 7)), np.zeros((5, 7))], r"expected \(L, H, T, S\).*\(2, 5, 7\)"),
        ({"a": np.zeros((5, 7))}, r"layers, 'a': expected \(H, T, S\) or \(B, H, T, S\)"),
        ({"a": np.zeros((2, 3, 5, 7))}, r"layers, 'a' shows one item.*item=0"),
        ([np.zeros((3, 5, 7)), None], "layers, 'layer 2': expected an array of real numbers.*NoneType"),
    ],
)
def test_layers_that_cannot_be_read(given, message):
    with pytest.raises(ValueError, match=message):
        scores.all_layers(given, None)


def test_one_scale_from_nothing_to_the_greatest_of_all():
    assert scores.scale([np.array([0.25, 0.5]), np.array([0.75])], None, None) == Scale(0, 0.75, False, False)


@pytest.mark.parametrize(
    ("values", "vmin", "vmax", "expected"),
    [
        ([0, 0], None, None, (0, 1, False, False)),
        ([0, 0.5], None, 1, (0, 1, False, False)),
        ([0.1, 0.5], 0.2, None, (0.2, 0.5, True, False)),
        ([0.1, 0.5], None, 0.4, (0, 0.4, False, True)),
        ([-3, 5], -4, 4, (-4, 4, False, True)),
        ([-3, 0.5], -3, None, (-3, 0.5, False, False)),
        ([-np.inf, 2], -4, 4, (-4, 4, True, False)),
        ([-7, -6], -5, None, (-5, -4, True, False)),
        ([0, 1.0078125], None, None, (0, 1.0078125, False, False)),  # a softmax in bfloat16
    ],
)
def test_the_scale_asked_for(values, vmin, vmax, expected):
    assert scores.scale([np.array(values)], vmin, vmax) == Scale(*expected)


@pytest.mark.parametrize(
    ("values", "vmin", "vmax", "message"),
    [
        ([0.5, np.nan], None, None, r"1 of 2 values are NaN, the first at \[1\] of \(2,\)"),
        ([-1.5, 2.25], None, None, r"between 0 and 1\. Received values from -1.5 to 2.25.*softmax.*vmin=-2, vmax=3"),
        ([-1.5, 2.25], -2, None, "vmin=-2, vmax=3"),
        ([-1.5, 2.25], None, 3, "vmin=-2, vmax=3"),
        ([-np.inf, 0.5], None, None, "an infinite value.*give vmin=…"),
        ([np.inf, 0.5], None, None, "an infinite value.*give vmax=…"),
        ([0.5], 1, 1, "vmin must be below vmax, both finite. Received: vmin=1, vmax=1"),
        ([0.5], 3, 2, "vmin=3, vmax=2"),
        ([0.5], 0, np.nan, "vmax=nan"),
        ([0.5], 0, np.inf, "vmax=inf"),
    ],
)
def test_values_without_a_scale(values, vmin, vmax, message):
    with pytest.raises(ValueError, match=message):
        scores.scale([np.array(values)], vmin, vmax)


def test_ever_darker():
    fractions = np.linspace(0, 1, 101)
    luminance = [np.dot(scores.colour(fraction), (0.2126, 0.7152, 0.0722)) for fraction in fractions]
    assert np.all(np.diff(luminance) < 0)


@pytest.mark.parametrize(
    ("fraction", "colour", "shade"),
    [(0, (255, 255, 255), "·"), (2 / 7, (183, 224, 203), "░"), (1, (13, 21, 71), "█"), (1.5, (13, 21, 71), "█")],
)
def test_colours_and_shades(fraction, colour, shade):
    assert scores.colour(fraction) == colour
    assert scores.shade(fraction) == shade


def test_values_below_the_scale_have_its_first_colour():
    assert scores.colour(-1) == scores.colour(0)
    assert scores.shade(-1) == scores.shade(0)


def test_between_two_anchors():
    assert scores.colour(0.5 / 7) == (242, 249, 236)
