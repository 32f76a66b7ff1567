import itertools
import math

import numpy as np
import pytest

from kmha import show
from kmha.show import logit_scaling


def _softmax(logits):
    powers = [math.exp(logit) for logit in logits]
    return np.array(powers) / math.fsum(powers)


def _by_definition(queries, keys, divide):
    """The three numbers in loops, with derivatives as differences of the softmax."""
    logits, largest, derivatives = [], [], []
    for item_queries, item_keys in zip(queries, keys, strict=True):
        for query in item_queries:
            row = np.array([sum(a * b for a, b in zip(query, key, strict=True)) for key in item_keys])
            row = row / len(query) ** 0.5 if divide else row
            logits.extend(row)
            largest.append(max(_softmax(row)))
            steps = 1e-5 * np.eye(len(row))
            derivatives.append(sum(np.abs(_softmax(row + step) - _softmax(row - step)).sum() / 2e-5 for step in steps))
    return np.std(logits), np.mean(largest), np.mean(derivatives)


@pytest.mark.parametrize("divide", [False, True])
def test_the_statistics_by_definition(divide):
    generator = np.random.default_rng(5)
    queries, keys = generator.normal(size=(2, 3, 7)), generator.normal(size=(2, 5, 7))
    found = logit_scaling.statistics(queries, keys, divide)
    np.testing.assert_allclose(found, _by_definition(queries, keys, divide), rtol=1e-7)


def test_large_logits_give_no_overflow():
    large = np.full((1, 1, 4), 1e3), np.array([[[1e3] * 4, [-1e3] * 4, [0.0] * 4]])
    np.testing.assert_allclose(logit_scaling.statistics(*large, divide=False)[1:], [1, 0], atol=1e-300)


def test_the_numbers_that_are_drawn():
    """The draws are those of NumPy's generator, and both lines have the same."""
    figure = show.scaling((3, 10), keys=5, seed=8)
    generator = np.random.default_rng(8)
    for index, size in enumerate((3, 10)):
        queries, keys = generator.normal(size=(64, 32, size)), generator.normal(size=(64, 5, size))
        for line, divide in enumerate((False, True)):
            expected = logit_scaling.statistics(queries, keys, divide)
            drawn = [axes.lines[line].get_ydata()[index] for axes in figure.axes]
            np.testing.assert_allclose(drawn, expected, rtol=1e-12)
    assert all(list(line.get_xdata()) == [3, 10] for axes in figure.axes for line in axes.lines)


def test_what_the_division_does():
    """The theory: the spread is the square root of d_k without it and 1 with it, for each head size and seed."""
    sizes = [4, 16, 64, 256]
    for seed in range(3):
        spread, largest, gradient = ([line.get_ydata() for line in axes.lines] for axes in show.scaling(seed=seed).axes)
        np.testing.assert_allclose(spread, [np.sqrt(sizes), np.ones(4)], rtol=0.05)
        assert (np.diff(largest[0]) > 0.05).all()
        assert (np.diff(gradient[0]) < -0.1).all()
        assert np.ptp(largest[1]) < 0.03
        assert np.ptp(gradient[1]) < 0.03


def test_labels():
    figure = show.scaling(title="a $title_")
    assert figure.get_suptitle() == "a $title_"
    assert [axes.get_title() for axes in figure.axes] == [
        "spread of the logits",
        "largest probability",
        "gradient of the softmax",
    ]
    assert {axes.get_xlabel() for axes in figure.axes} == {"head size (d_k)"}
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "standard deviation",
        "mean over all queries",
        "sum of |∂ probability / ∂ logit|",
    ]
    for axes in figure.axes:
        assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "16", "64", "256"]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "logits = query · key",
        "logits = query · key / √d_k",
    ]
    for entry, line in zip(legend.get_lines(), figure.axes[2].lines, strict=True):
        assert entry.get_color() == line.get_color()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("sizes", [(64,), (4, 16, 64, 256), (1, 2, 4, 8, 16, 32, 64, 128)])
@pytest.mark.parametrize("scaled", [[False], [True], [True, False]])
@pytest.mark.parametrize("title", [None, "a long title " * 15])
def test_no_texts_overlap(check_texts, sizes, scaled, title):
    figure = show.scaling(sizes, scaled, title=title)
    assert check_texts(figure) >= 3 * len(sizes) + len(scaled) + 9
    assert [len(axes.lines) for axes in figure.axes] == [len(scaled)] * 3
    legend = figure.legends[0].get_window_extent()
    assert not any(legend.overlaps(axes.get_tightbbox()) for axes in figure.axes)
    assert not any(one.bbox.overlaps(other.get_tightbbox()) for one, other in itertools.permutations(figure.axes, 2))


def test_sizes_are_sorted_and_drawn_once():
    line = show.scaling(np.array([9, 4, 9]), [True, True]).axes[0].lines[0]
    np.testing.assert_array_equal(line.get_xdata(), [4, 9])


def test_saved_the_same_each_time(tmp_path):
    for suffix in ("png", "svg"):
        one, two = tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"
        figure = show.scaling((4, 8), title="题")
        show.save(figure, one)
        show.save(figure, two)
        assert one.read_bytes() == two.read_bytes()
        show.save(show.scaling((4, 8), title="题"), two)
        assert one.read_bytes() == two.read_bytes()
        show.save(show.scaling((4, 8), title="题", seed=1), two)
        assert one.read_bytes() != two.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"head_sizes": ()}, r"scaling, head_sizes: expected a list of head sizes, .* Received: \(\)"),
        ({"head_sizes": 64}, r"head_sizes: expected a list .* Received: 64"),
        ({"head_sizes": (4, 0)}, r"head_sizes: expected positive integers\. Received: 0"),
        ({"head_sizes": (4, 2.5)}, r"head_sizes: expected positive integers\. Received: 2\.5"),
        ({"head_sizes": (True,)}, r"head_sizes: expected positive integers\. Received: True"),
        ({"keys": 0}, r"scaling, keys: expected positive integers\. Received: 0"),
        ({"scaled": True}, r"scaling, scaled: expected a list of False and True, .* Received: True"),
        ({"scaled": (1,)}, r"scaling, scaled: expected False, True or both\. Received: \[1\]"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        show.scaling(**arguments)
