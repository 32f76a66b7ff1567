import matplotlib
import numpy as np
import pytest

from kmha import show
from kmha.core.positions import sinusoidal


def _images(figure):
    encoding, _, products, _ = figure.axes
    return encoding.images[0], products.images[0]


@pytest.mark.parametrize(("length", "features"), [(1, 1), (1, 4), (5, 3), (7, 12)])
def test_the_numbers_that_are_drawn(length, features):
    values = np.random.default_rng(3).normal(size=(length, features))
    encoding, products = _images(show.positions(values))
    np.testing.assert_array_equal(encoding.get_array(), values)
    for i in range(length):
        for j in range(length):
            expected = sum(values[i, feature] * values[j, feature] for feature in range(features))
            assert products.get_array()[i, j] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    for image in (encoding, products):
        assert image.norm.vmax == -image.norm.vmin == np.abs(image.get_array()).max()
        assert image.origin == "upper"


def test_0_is_white_and_equal_distances_from_it_have_equal_strength():
    encoding, _ = _images(show.positions([[-2.0, 0.0, 1.0]]))
    low, zero, _ = encoding.cmap(encoding.norm(encoding.get_array()))[0]
    assert min(zero[:3]) > 0.95
    np.testing.assert_allclose(low, encoding.cmap(0.0))
    assert float(encoding.norm(1.0)) == pytest.approx(1 - float(encoding.norm(-1.0)))


def test_near_positions_are_alike_in_the_sinusoidal_encoding():
    """The product depends on the distance alone, and is largest at distance 0."""
    _, products = _images(show.positions(sinusoidal(20, 64)))
    drawn = np.asarray(products.get_array())
    for distance in range(20):
        np.testing.assert_allclose(np.diagonal(drawn, distance), drawn[0, distance])
    assert (np.diff(drawn[0, :5]) < 0).all()
    assert drawn[0, 0] == pytest.approx(32)
    assert drawn[0, 1:].max() < drawn[0, 0]


def test_labels():
    figure = show.positions(sinusoidal(30, 12), title="a $title_")
    encoding, encoding_bar, products, products_bar = figure.axes
    assert figure.get_suptitle() == "a $title_"
    assert (encoding.get_title(), products.get_title()) == ("positional encoding", "dot products of positions")
    assert (encoding.get_xlabel(), encoding.get_ylabel()) == ("feature (D)", "position (T)")
    assert (products.get_xlabel(), products.get_ylabel()) == ("position (T)", "position (T)")
    assert (encoding_bar.get_ylabel(), products_bar.get_ylabel()) == ("value", "dot product")
    np.testing.assert_allclose(encoding_bar.get_ylim(), [-1, 1])
    np.testing.assert_allclose(products_bar.get_ylim(), [-6, 6])


@pytest.mark.parametrize(("length", "features"), [(1, 1), (2, 3), (5, 8), (60, 32), (1000, 129)])
@pytest.mark.parametrize("title", [None, "a long title " * 15])
def test_no_texts_overlap(check_texts, length, features, title):
    figure = show.positions(1e-7 * sinusoidal(length, features), title=title)
    assert check_texts(figure) >= 12
    for axes in (figure.axes[0], figure.axes[2]):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
            assert ticks == [int(tick) for tick in ticks]
            assert ticks


def test_any_array():
    values = np.arange(6.0).reshape(2, 3)
    for given in (values.tolist(), values[None], values.astype("float16"), values.astype(int)):
        np.testing.assert_array_equal(_images(show.positions(given))[0].get_array(), values)


def test_the_encoding_of_the_layers():
    from kmha.layers import positional_encoding

    encoding, _ = _images(show.positions(positional_encoding(9, 6)))
    np.testing.assert_allclose(encoding.get_array(), sinusoidal(9, 6), atol=1e-6)


def test_zeros_and_another_colour_map():
    encoding, products = _images(show.positions(np.zeros((3, 2)), colours="PiYG"))
    assert (encoding.norm.vmin, encoding.norm.vmax) == (products.norm.vmin, products.norm.vmax) == (-1, 1)
    assert encoding.cmap.name == products.cmap.name == "PiYG"


def test_saved_the_same_each_time_under_any_style(tmp_path):
    for suffix in ("png", "svg"):
        one, two = tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"
        figure = show.positions(sinusoidal(7, 4), title="题")
        show.save(figure, one)
        show.save(figure, two)
        assert one.read_bytes() == two.read_bytes()
        with matplotlib.rc_context({"axes.grid": True, "xtick.labelsize": 30}):
            show.save(show.positions(sinusoidal(7, 4), title="题"), two)
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (np.zeros(3), r"expected an encoding \(T, D\), .* Received the shape \(3,\)"),
        (np.zeros((2, 3, 5)), r"Received the shape \(2, 3, 5\)\. For one of a batch, give encoding\[0\]"),
        (np.zeros((0, 5)), r"Received the shape \(0, 5\)"),
        ([[0.0, 1.0], [2.0, np.nan]], r"expected finite numbers\. Received nan at position 1, feature 1\. .*\[:1\]"),
        ([[np.inf]], r"Received inf at position 0, feature 0"),
        (["a"], r"positions: expected an array of real numbers, such as \(T, D\)\. Received list"),
        ({"a": 1}, r"positions: expected an array"),
    ],
)
def test_errors(encoding, message):
    with pytest.raises(ValueError, match=message):
        show.positions(encoding)


def test_an_unknown_colour_map():
    with pytest.raises(ValueError, match=r"expected a colour map of matplotlib, .* Received: 'blau'"):
        show.positions([[1.0]], colours="blau")
