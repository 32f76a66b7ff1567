import io

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb

from kmha import show
from kmha.show import alignments

GENERATOR = np.random.default_rng(6)
LAYER = "decoder_layer2_block2_decenc_att"


def _scores(*shape):
    values = GENERATOR.uniform(0.1, 1, shape) ** 4
    return values / values.sum(-1, keepdims=True)


def _lines(figure):
    """The lines as a dict: (query, key) to (width, opacity, colour), in the order in which they are drawn."""
    axes = figure.axes[0]
    (drawn,) = [collection for collection in axes.collections if isinstance(collection, PathCollection)]
    keys, queries = (np.array(side.get_yticks()) for side in figure.axes)
    found = {}
    for path, width, colour in zip(drawn.get_paths(), drawn.get_linewidths(), drawn.get_edgecolors(), strict=True):
        start, end = path.vertices[0], path.vertices[-1]
        assert (start[0], end[0]) == (0, 1)
        key, query = np.argmin(np.abs(keys - start[1])), np.argmin(np.abs(queries - end[1]))
        np.testing.assert_allclose([keys[key], queries[query]], [start[1], end[1]])
        found[int(query), int(key)] = float(width), float(colour[3]), tuple(colour[:3])
    return found


def _labels(figure):
    return [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]


def test_each_line_has_the_width_and_opacity_of_its_score():
    scores = _scores(4, 5)
    lines = _lines(show.alignment(scores))
    largest = scores.max()
    assert set(lines) == {(i, j) for i, j in np.ndindex(4, 5) if scores[i, j] >= 0.03 * largest}
    assert 0 < len(lines) < 20
    for (i, j), (width, opacity, colour) in lines.items():
        assert width == pytest.approx(alignments.WIDEST * scores[i, j] / largest)
        assert opacity == pytest.approx(0.15 + 0.75 * scores[i, j] / largest)
        strongest = j == scores[i].argmax()
        np.testing.assert_allclose(colour, to_rgb(alignments.STRONGEST if strongest else alignments.LINES))
    widths = [width for width, *_ in lines.values()]
    assert widths == sorted(widths)  # the strongest is drawn last, and lies on top


def test_keys_are_at_the_left_from_top_to_bottom():
    figure = show.alignment(_scores(2, 3), rows=["a", "▁dog"], columns=["ein", "▁Hund", "."], title="a title")
    figure.draw_without_rendering()
    assert _labels(figure) == [["ein", "Hund", "."], ["a", "dog"]]
    keys, queries = figure.axes
    for axes, count in ((keys, 3), (queries, 2)):
        heights = axes.transData.transform([(0, place) for place in axes.get_yticks()])[:, 1]
        assert len(heights) == count
        assert (np.diff(heights) < 0).all()
    assert keys.get_yticklabels()[0].get_window_extent().x1 < keys.bbox.x0
    assert queries.get_yticklabels()[0].get_window_extent().x0 > keys.bbox.x1
    assert figure.get_suptitle() == "a title"
    assert {"key tokens (S)", "query tokens (T)"} <= {text.get_text() for text in figure.texts}


def test_the_scale_can_be_given():
    scores = np.array([[0.5, 0.25, 0.25]])
    half, whole = (_lines(show.alignment(scores, vmax=vmax))[0, 0] for vmax in (1.0, 0.5))
    assert half[0] == pytest.approx(whole[0] / 2)
    legend = show.alignment(scores, vmax=1.0).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["1", "0.5", "0.1"]


def test_scores_above_the_scale_are_no_wider():
    assert _lines(show.alignment([[0.9, 0.1]], vmax=0.5))[0, 0][0] == alignments.WIDEST


def test_heads_and_items():
    scores = _scores(2, 3, 4, 5)
    for arguments, expected in (
        ({"item": 1, "head": 2}, scores[1, 2]),
        ({"item": 0, "head": -1}, scores[0, 2]),
        ({"item": 1}, scores[1].mean(0)),
    ):
        assert _lines(show.alignment(scores, **arguments)) == _lines(show.alignment(expected))
    captured = {LAYER: scores, "other": _scores(2, 3, 6, 7)}
    figure = show.alignment(captured, layer=LAYER, item=1, head=2)
    assert _lines(figure) == _lines(show.alignment(scores[1, 2]))
    assert figure.get_suptitle() == "decoder layer 2: encoder–decoder attention, head 3"
    mean = show.alignment({"one": scores[:1]})
    assert mean.get_suptitle() == "one, mean of 3 heads"
    assert _lines(mean) == _lines(show.alignment(scores[0].mean(0)))


def test_padding_is_not_shown():
    scores = _scores(5, 7)
    scores[2:], scores[:, 3:] = np.nan, 0.9
    assert _lines(show.alignment(scores, ["a", "b"], ["x", "y", "z"])) == _lines(show.alignment(scores[:2, :3]))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 9), (5, 4), (60, 51), (51, 60)])
@pytest.mark.parametrize("tokens", ["{}", "a long token {}", "日本語{}", None])
@pytest.mark.parametrize("title", [None, "a long title " * 8])
def test_no_text_overlaps_or_is_cut_off(rows, columns, tokens, title, check_texts):
    texts = [None if tokens is None else [tokens.format(index) for index in range(size)] for size in (rows, columns)]
    figure = show.alignment(_scores(rows, columns), *texts, title=title)
    assert check_texts(figure) >= 2 + 2 + 4
    if tokens:
        assert [len(labels) for labels in _labels(figure)] == [columns, rows]


def test_many_positions(check_texts):
    figure = show.alignment(_scores(300, 280))
    check_texts(figure)
    assert figure.get_figheight() < 17


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_it_is_saved(tmp_path, suffix):
    path = tmp_path / f"alignment.{suffix}"
    show.save(show.alignment(_scores(4, 3), list("abcd"), list("xyz")), path)
    assert path.read_bytes().startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    figure = show.alignment(np.zeros((2, 3)))
    figure.savefig(io.BytesIO(), format=suffix)


@pytest.mark.parametrize(
    ("scores", "arguments", "message"),
    [
        (np.zeros((2, 3, 4, 5)), {}, r"one item of a batch.*item=0"),
        (np.zeros((3, 4, 5)), {"head": 3}, r"alignment: expected a head from 0 to 2, as H is 3\. Received: 3"),
        (np.zeros((4, 5)), {"head": 1}, r"expected \(H, T, S\)"),
        (np.zeros((4, 5)), {"layer": "a"}, r"layer='a' is for scores by name.*Leave `layer` out"),
        ({"a": 1, "b": 2}, {}, r"expected the name of one layer, layer=…\. Received: None\. The names are: a, b"),
        ({"a": 1, "b": 2}, {"layer": "c"}, r"Received: 'c'\. The names are: a, b"),
        (np.full((2, 3), -1.0), {}, r"expected scores between 0 and 1"),
        (np.full((2, 3), np.nan), {}, r"are NaN"),
    ],
)
def test_wrong_arguments(scores, arguments, message):
    with pytest.raises(ValueError, match=message):
        show.alignment(scores, **arguments)
