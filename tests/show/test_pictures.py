import itertools
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from kmha import show
from kmha.show import drawing

GENERATOR = np.random.default_rng(4)


def _scores(*shape):
    values = GENERATOR.uniform(0.1, 1, shape)
    return values / values.sum(-1, keepdims=True)


def _labels(axes):
    return [[label.get_text() for label in labels] for labels in (axes.get_yticklabels(), axes.get_xticklabels())]


def _data(axes):
    return np.asarray(axes.images[0].get_array())


def test_heatmap():
    scores = _scores(2, 3)
    figure = show.heatmap(scores, rows=["a", "dog"], columns=["ein", "Hund", "."], title="a title")
    axes, bar = figure.axes
    assert isinstance(figure, Figure)
    np.testing.assert_array_equal(_data(axes), scores)
    assert _labels(axes) == [["a", "dog"], ["ein", "Hund", "."]]
    assert axes.images[0].origin == "upper"
    assert (axes.images[0].norm.vmin, axes.images[0].norm.vmax) == (0, scores.max())
    assert bar.get_ylim() == (0, scores.max())
    assert figure.get_suptitle() == "a title"
    assert (figure.get_supylabel(), figure.get_supxlabel()) == ("query tokens (T)", "key tokens (S)")


def test_the_first_row_is_on_top_and_the_first_column_at_the_left():
    axes = show.heatmap(_scores(2, 3)).axes[0]
    (first, second), (left, middle, _) = axes.get_yticks(), axes.get_xticks()
    first, second = (axes.transData.transform((0, place))[1] for place in (first, second))
    left, middle = (axes.transData.transform((place, 0))[0] for place in (left, middle))
    assert first > second
    assert left < middle


def test_positions_without_tokens():
    figure = show.heatmap(_scores(2, 3))
    assert _labels(figure.axes[0]) == [["0", "1"], ["0", "1", "2"]]
    assert (figure.get_supylabel(), figure.get_supxlabel()) == ("query positions (T)", "key positions (S)")


def test_padding_is_not_shown_and_does_not_count():
    scores = _scores(5, 7)
    scores[2:] = np.nan
    scores[:, 3:] = 0.99
    axes = show.heatmap(scores, rows=["a", "dog"], columns=["x", "y", "z"]).axes[0]
    np.testing.assert_array_equal(_data(axes), scores[:2, :3])
    assert axes.images[0].norm.vmax == scores[:2, :3].max()


@pytest.mark.parametrize("count", [1, 4, 7, 8, 12, 16])
def test_all_heads_on_one_scale(count):
    scores = _scores(count, 5, 6)
    figure = show.heads(scores, rows=list("abcde"), columns=list("uvwxyz"), title="layer")
    *panels, bar = figure.axes
    assert [axes.get_title() for axes in panels] == [f"head {number}" for number in range(1, count + 1)]
    for axes, head in zip(panels, scores, strict=True):
        np.testing.assert_array_equal(_data(axes), head)
        assert axes.images[0].norm is panels[0].images[0].norm
    assert panels[0].images[0].norm.vmax == scores.max()
    assert bar.get_ylim() == (0, scores.max())
    assert _labels(panels[0])[0] == list("abcde")
    assert _labels(panels[-1])[1] == list("uvwxyz")
    figure.draw_without_rendering()


def _boxes(figure):
    """The bounding boxes of all axes with their labels, and of all other texts, in pixels."""
    renderer = figure.canvas.get_renderer()
    texts = [text.get_window_extent(renderer) for text in figure.texts]
    return texts + [axes.get_tightbbox(renderer) for axes in figure.axes]


def _check_boxes(figure):
    boxes = _boxes(figure)
    for i, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.width
        assert box.y1 <= figure.bbox.height
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


WORDS = ["Donaudampfschiff", "fahrtsgesellscha", "WWWWWWWWWWWWWWWW"]


def _words(count):
    return [WORDS[index % 3] for index in range(count)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", [5, 60])
@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("count", [1, 5, 8])
def test_no_texts_overlap_in_heads(check_texts, size, tokens, count):
    labels = (_words(size), _words(size + 1)) if tokens else (None, None)
    figure = show.heads(_scores(count, size, size + 1), *labels, title="decoder layer 1")
    assert check_texts(figure) >= 2 * min(size, 7) + count + 3


@pytest.mark.parametrize("size", [5, 60])
def test_no_texts_overlap_in_layers_and_in_one_head(check_texts, size):
    scores = {name: _scores(8, size, size + 1) for name in ("decoder_layer1_block2_decenc_att", "another")}
    scores["encoder_layer1_self_att"] = _scores(8, size + 1, size + 1)
    assert check_texts(show.layers(scores, _words(size), _words(size + 1), title="a model")) > 24
    assert check_texts(show.heatmap(_scores(size, size + 1), _words(size), _words(size + 1))) > 2 * min(size, 7)


@pytest.mark.parametrize("limits", [(0, 3e-12), (-2.5e-7, 0), (-1e6, 1e6), (1000, 1000.5), (-0.00075, 0.0005)])
def test_the_numbers_of_the_colour_bar_have_room_and_differ(check_texts, limits):
    figure = show.heatmap(np.linspace(*limits, 30).reshape(5, 6), vmin=limits[0], vmax=limits[1])
    check_texts(figure)
    bar = figure.axes[-1]
    shown = [
        (float(label.get_text()), place) for label, place in zip(bar.get_yticklabels(), bar.get_yticks(), strict=True)
    ]
    np.testing.assert_allclose(*zip(*shown, strict=True), atol=1e-6 * max(map(abs, limits)))
    assert len({number for number, _ in shown}) == len(shown) >= 2


def _check_bar(figure):
    *panels, bar = [axes.get_position() for axes in figure.axes]
    np.testing.assert_allclose([bar.y0, bar.y1], [min(box.y0 for box in panels), max(box.y1 for box in panels)])
    assert bar.x0 > max(box.x1 for box in panels)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (1, 5), (1, 60), (8, 5), (8, 60), (16, 30)])
def test_the_colour_bar_is_as_tall_as_all_panels(count, size):
    _check_bar(show.heads(_scores(count, size, size + 2), _words(size)))
    _check_bar(show.layers(_scores(3, count, size, size + 2), title="a model"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("heads", "rows", "columns"), [(1, 5, 7), (7, 9, 11), (8, 30, 28), (12, 60, 60), (5, 3, 40)])
@pytest.mark.parametrize("word", ["word", "Donaudampfschifffahrt"])
def test_nothing_drawn_overlaps_or_is_cut_off(heads, rows, columns, word):
    figure = show.heads(_scores(heads, rows, columns), [word] * rows, [word] * columns, title="title")
    assert len(_boxes(figure)) == heads + 4
    _check_boxes(figure)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((1, 1), {}),
        ((1, 3), {"rows": ["a"], "columns": ["Donaudampfschiff", "b", "c"]}),
        (
            (3, 2),
            {"columns": ["b", "Donaudampfschiff"], "title": "a title that is much longer than its picture is wide"},
        ),
    ],
)
def test_a_small_picture_has_room_for_its_labels(shape, options):
    figure = show.heatmap(_scores(*shape), **options)
    _check_boxes(figure)


def test_a_long_heading_has_room():
    _check_boxes(show.layers({"a name of a layer that is much longer than its heads are wide": _scores(2, 3, 4)}))


def test_labels_that_are_drawn_do_not_overlap():
    axes = show.heads(_scores(4, 40, 50), ["token"] * 40, ["token"] * 50).axes[2]
    renderer = axes.figure.canvas.get_renderer()
    for labels in (axes.get_yticklabels(), axes.get_xticklabels()):
        boxes = [label.get_window_extent(renderer) for label in labels]
        assert len(boxes) >= 10
        assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))


def test_thinned_labels_stand_at_their_own_cells():
    names = [f"t{index}" for index in range(120)]
    axes = show.heads(_scores(16, 110, 120), names[:110], names).axes[12]
    assert 10 < len(axes.get_xticks()) < 120
    assert _labels(axes)[1] == [names[int(place)] for place in axes.get_xticks()]
    assert _labels(axes)[0] == [names[int(place)] for place in axes.get_yticks()]


def test_a_batch_of_one_and_an_item_of_several():
    scores = _scores(2, 3, 5, 7)
    np.testing.assert_array_equal(_data(show.heads(scores[1:]).axes[2]), scores[1, 2])
    np.testing.assert_array_equal(_data(show.heads(scores, item=1).axes[2]), scores[1, 2])


def test_heads_side_by_side_as_asked():
    lefts = [axes.get_position().x0 for axes in show.heads(_scores(6, 3, 4), across=3).axes[:-1]]
    assert lefts[:3] == lefts[3:]
    assert lefts[0] < lefts[1] < lefts[2]
    for wrong in (0, True, 1.5):
        with pytest.raises(
            ValueError, match=r"heads: expected across \(heads side by side\) to be a positive integer\. Received: "
        ):
            show.heads(_scores(6, 3, 4), across=wrong)


MODEL = {
    "encoder_layer1_self_att": (2, 3, 7, 7),
    "decoder_layer1_block1_self_att": (2, 3, 5, 5),
    "decoder_layer1_block2_decenc_att": (2, 3, 5, 7),
}


def test_the_scores_of_a_model():
    scores = {name: _scores(*shape) for name, shape in MODEL.items()}
    target, source = list("abcd"), list("uvwxyz")
    figure = show.layers(scores, rows=target, columns=source, item=1)
    panels = figure.axes[:-1]
    sizes = [(6, 6), (4, 4), (4, 6)]
    for index, (array, (rows, columns)) in enumerate(zip(scores.values(), sizes, strict=True)):
        for head in range(3):
            np.testing.assert_array_equal(_data(panels[3 * index + head]), array[1, head, :rows, :columns])
    assert len({id(axes.images[0].norm) for axes in panels}) == 1
    assert [_labels(panels[index]) for index in (0, 3, 6)] == [[source, source], [target, target], [target, source]]
    assert [text.get_text() for text in figure.texts[:3]] == [
        "encoder layer 1: self-attention",
        "decoder layer 1: self-attention",
        "decoder layer 1: encoder–decoder attention",
    ]
    _check_boxes(figure)


def test_layers_in_a_list_and_in_an_array():
    scores = _scores(2, 3, 5, 7)
    for given in (scores, list(scores)):
        figure = show.layers(given, rows=["a", "b"])
        assert [text.get_text() for text in figure.texts[:2]] == ["layer 1", "layer 2"]
        np.testing.assert_array_equal(_data(figure.axes[4]), scores[1, 1, :2])


def test_layers_with_different_heads():
    figure = show.layers([_scores(2, 4, 5), _scores(3, 4, 5)])
    assert [axes.get_title() for axes in figure.axes[:-1]] == ["head 1", "head 2", "head 1", "head 2", "head 3"]


def test_an_error_names_the_layer():
    scores = {name: _scores(*shape) for name, shape in MODEL.items()}
    with pytest.raises(ValueError, match=r"layers, 'decoder_layer1_block1_self_att': rows: expected at most 5 query"):
        show.layers(scores, rows=["a"] * 6, columns=["x"] * 7, item=0)


def test_logits_need_a_scale():
    with pytest.raises(ValueError, match="between 0 and 1"):
        show.heads(np.array([[[-3.0, 5.0]]]))
    image = show.heads(np.array([[[-3.0, 5.0]]]), vmin=-5, vmax=5, colours="RdBu").axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax, image.cmap.name) == (-5, 5, "RdBu")


def test_saved_by_the_suffix_and_the_same_each_time(tmp_path):
    scores = _scores(3, 5, 7)
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".SVG", b"<?xml")):
        one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
        figure = show.heads(scores)
        show.save(figure, one)
        show.save(figure, str(two))
        assert one.read_bytes().startswith(start)
        assert one.read_bytes() == two.read_bytes()
        show.save(show.heads(scores), two)
        assert one.read_bytes() == two.read_bytes()
    assert b"dc:date" not in one.read_bytes()
    assert len(list(tmp_path.iterdir())) == 6


def test_the_resolution(tmp_path):
    figure = show.heatmap(_scores(3, 5))
    for dpi in (50, 200):
        show.save(figure, tmp_path / "a.png", dpi=dpi)
        width = int.from_bytes((tmp_path / "a.png").read_bytes()[16:20], "big")
        assert abs(width - dpi * figure.get_figwidth()) <= 1


def test_a_file_that_cannot_be_saved(tmp_path):
    figure = show.heatmap(_scores(2, 3))
    with pytest.raises(ValueError, match=r"expects a path that ends in \.png or \.svg\. Received: 'attention\.jpg'"):
        show.save(figure, "attention.jpg")
    with pytest.raises(FileNotFoundError, match=r"the folder '.*missing' does not exist; create it first"):
        show.save(figure, tmp_path / "missing" / "a.png")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_text("before")

    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr(drawing, "encoded", fail)
    with pytest.raises(RuntimeError):
        show.save(show.heatmap(_scores(2, 3)), path)
    assert path.read_text() == "before"


def test_without_matplotlib_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shapes = {show.heatmap: (2, 3), show.heads: (2, 3, 5), show.layers: (2, 3, 5, 7), show.positions: (2, 3)}
    for function, shape in shapes.items():
        with pytest.raises(ImportError, match=r"^matplotlib is not installed\. Run: pip install 'kmha\[plot\]'$"):
            function(_scores(*shape))
    with pytest.raises(ImportError, match=r"^matplotlib is not installed\."):
        show.scaling()
    assert "rows: query positions" in show.terminal(_scores(2, 3), width=40, colour=False)


def test_the_import_costs_neither_keras_nor_matplotlib_and_a_picture_no_pyplot():
    code = (
        "import sys, kmha.show",
        "print({'keras', 'tensorflow', 'matplotlib'} & set(sys.modules))",
        "kmha.show.heatmap([[0.5]])",
        "print({'keras', 'tensorflow', 'matplotlib.pyplot'} & set(sys.modules))",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\nset()\n"


def test_no_picture_is_kept():
    import matplotlib.pyplot

    before = matplotlib.pyplot.get_fignums()
    show.heatmap(_scores(2, 3))
    assert matplotlib.pyplot.get_fignums() == before


def test_pictures_of_a_capture():
    scores = _scores(2, 3, 4, 5)
    captured = {"decoder_layer2_block1_self_att": scores, "other": _scores(2, 3, 6, 7)}
    figure = show.heatmap(captured, layer="decoder_layer2_block1_self_att", item=1, head=2)
    np.testing.assert_array_equal(_data(figure.axes[0]), scores[1, 2])
    assert figure.get_suptitle() == "decoder layer 2: self-attention, head 3"
    np.testing.assert_array_equal(_data(show.heatmap(scores, item=1, head=-3).axes[0]), scores[1, 0])
    figure = show.heads(captured, layer="other", item=0)
    np.testing.assert_array_equal(_data(figure.axes[1]), captured["other"][0, 1])
    assert figure.get_suptitle() == "other"
    assert show.heads({"one": scores}, item=1, title="mine").get_suptitle() == "mine"
    with pytest.raises(
        ValueError, match=r"heads: expected the name of one layer, layer=….*layer2_block1_self_att, oth"
    ):
        show.heads(captured, item=0)
    with pytest.raises(
        ValueError, match=r"heatmap: expected the name of one layer, layer=…, and of a head, head=….*page\(scores\)"
    ):
        show.heatmap(captured)
    with pytest.raises(ValueError, match=r"heatmap shows one head.*heatmap\(scores, layer='other', item=0, head=0\)"):
        show.heatmap(captured, layer="other")
    with pytest.raises(ValueError, match=r"\(H, T, S\) = \(3, 4, 5\) of 'one'.*\(scores, layer='one', head=0\)"):
        show.heatmap({"one": scores[0]})
    assert show.heatmap({"one": scores[0, 0]}).get_suptitle() == "one"
