import io

import matplotlib
import numpy as np
import pytest

from kmha.show import drawing
from kmha.show.layout import Panel
from kmha.show.scores import Scale
from kmha.show.tokens import Labels


def _figure(values=((0.25, 0.5, 0.25),), rows=("a",), columns=("x", "y", "z"), scale=(0, 1, False, False), **kwargs):
    panel = Panel(np.array(values), Labels(tuple(rows), True), Labels(tuple(columns), True), "head 1")
    return drawing.figure([[panel]], Scale(*scale), **kwargs)


ALPHABETS = ["日本語", "한국어", "हिन्दी", "مرحبا", "שלום", "ไทย", "🙂", "\U0001f9d1\u200d\U0001f680", "\ue000", "Ωß"]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_any_alphabet_is_drawn_without_warnings(suffix):
    """Every warning is an error here, including the one about a character that no font has."""
    figure = _figure(np.eye(10), ALPHABETS, ALPHABETS, title="題", headings=["層"])
    assert drawing.encoded(figure, suffix, 50)
    figure.savefig(io.BytesIO(), format=suffix, bbox_inches="tight")
    figure.draw_without_rendering()


def test_an_svg_has_the_text_as_text():
    svg = drawing.encoded(_figure(np.eye(10), ALPHABETS, ALPHABETS), "svg", 50).decode()
    for token in ALPHABETS:
        assert f">{token}<" in svg


@pytest.mark.parametrize("token", ["$x_", "$x$", "\\frac", "a_b^c", "<b>&", "$\\undefined$"])
def test_mathematics_and_markup_are_literal(token):
    figure = _figure(np.eye(2), [token, "b"], ["c", token], title=token)
    figure.draw_without_rendering()
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [token, "b"]
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["c", token]
    escaped = token.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert drawing.encoded(figure, "svg", 50).decode().count(f">{escaped}<") == 3
    assert drawing.encoded(figure, "png", 50)


def test_infinite_values_have_the_colours_of_the_ends():
    image = _figure([[-np.inf, 0.0, np.inf]], scale=(-2, 2, True, True)).axes[0].images[0]
    rgba = image.cmap(image.norm(image.get_array()))
    np.testing.assert_allclose(rgba[0, 0], image.cmap(0.0))
    np.testing.assert_allclose(rgba[0, 2], image.cmap(1.0))
    assert not np.ma.is_masked(image.get_array())


@pytest.mark.parametrize(
    ("scale", "extend", "label"),
    [
        ((0, 0.5, False, False), "neither", "attention score"),
        ((0.1, 1, True, False), "min", "attention score"),
        ((0, 0.4, False, True), "max", "attention score"),
        ((-4, 4, True, True), "both", "value"),
    ],
)
def test_the_colour_bar_says_what_it_covers(scale, extend, label):
    figure = _figure(scale=scale)
    bar = figure.axes[-1]
    assert bar.get_ylabel() == label
    assert bar._colorbar.extend == extend
    assert bar.get_ylim() == scale[:2]


def test_style_sheets_and_settings_of_the_reader_are_left_alone():
    before = _figure()
    with matplotlib.rc_context({"axes.grid": True, "text.color": "red", "axes.titlesize": 40, "savefig.bbox": "tight"}):
        mine = dict(matplotlib.rcParams)
        after = _figure()
        assert dict(matplotlib.rcParams) == mine
        assert drawing.encoded(after, "png", 50) == drawing.encoded(before, "png", 50)


def test_another_font_provides_missing_characters(monkeypatch):
    class Entry:
        weight = 400

        def __init__(self, name):
            self.name, self.fname = name, name

    has = {"Own": {"a"}, "B Serif": {"b", "c"}, "Z Sans": {"b"}, "Last Resort": {"b", "c", "d"}, "cmsy10": {"d"}}
    monkeypatch.setattr(drawing, "_characters_in", lambda path: {ord(character) for character in has[path]})
    monkeypatch.setattr(drawing.font_manager, "findfont", lambda properties: "Own")
    monkeypatch.setattr(drawing.font_manager.fontManager, "ttflist", [Entry(name) for name in has if name != "Own"])
    families = drawing._families.__wrapped__
    assert families(frozenset("a"), ("own",)) == ["own"]
    assert families(frozenset("ab "), ("own",)) == ["own", "Z Sans"]
    assert families(frozenset("abcd"), ("own",)) == ["own", "Z Sans", "B Serif"]


def test_a_broken_font_is_passed_over(tmp_path):
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    assert drawing._characters_in(str(tmp_path / "broken.ttf")) == frozenset()


def test_a_notebook_shows_it():
    assert _figure()._repr_png_().startswith(b"\x89PNG")


def test_an_unknown_colour_map():
    with pytest.raises(ValueError, match=r"expected a colour map of matplotlib, such as .* Blues\. Received: 'blau'"):
        _figure(colours="blau")
