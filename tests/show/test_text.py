import numpy as np
import pytest
from rich.cells import cell_len
from rich.text import Text

from kmha.show import scores, text

SCORES = np.array([[0.0, 0.25, 0.5, 0.75, 1.0], [1.0, 0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]])


def test_tokens_side_by_side_where_they_fit():
    assert text.terminal(SCORES, ["a", "dog", "."], ["ein", "Hund", "läuft", "da", "."], 60, False).split("\n") == [
        "    ein   Hund  läuft da    .",
        "  a ····· ░░░░░ ▒▒▒▒▒ ▓▓▓▓▓ █████",
        "dog █████ ····· ····· ▒▒▒▒▒ ·····",
        "  . ····· ····· █████ ····· ·····",
        "",
        "rows: query tokens  columns: key tokens  0 ·░▒▓█ 1",
    ]


def test_vertical_tokens_where_they_do_not_fit():
    assert text.terminal(SCORES, ["a", "dog", "."], ["ein", "Hund", "läuft", "da", "."], 24, False).split("\n") == [
        "        l",
        "      H ä",
        "    e u u",
        "    i n f d",
        "    n d t a .",
        "  a ··░░▒▒▓▓██",
        "dog ██····▒▒··",
        "  . ····██····",
        "",
        "rows: query tokens",
        "columns: key tokens",
        "0 ·░▒▓█ 1",
    ]


def test_columns_that_do_not_fit_continue_below():
    values = np.eye(2, 15)[:, ::-1]
    assert text.terminal(values, width=16, colour=False).split("\n") == [
        "  0 1 2 3 4",
        "0 ··········",
        "1 ··········",
        "",
        "  5 6 7 8 9",
        "0 ··········",
        "1 ··········",
        "",
        "  1 1 1 1 1",
        "  0 1 2 3 4",
        "0 ········██",
        "1 ······██··",
        "",
        "rows: query positions",
        "columns: key positions",
        "0 ·░▒▓█ 1",
    ]


@pytest.mark.parametrize("width", [16, 23, 40, 80, 200])
@pytest.mark.parametrize("colour", [False, True])
def test_no_line_of_cells_is_wider_than_the_terminal(width, colour):
    rows = ["Donaudampfschifffahrt", "日本語の文字", "a"]
    columns = ["日本語", "Donaudampfschifffahrt", "e\u0301te\u0301", "b"] * 7
    lines = text.terminal(np.full((3, 28), 1 / 28), rows, columns, width, colour).split("\n")
    cells = [Text.from_ansi(line).cell_len for line in lines[: lines.index("")]]
    assert max(cells) <= width
    assert len(set(cells[-3:])) == 1  # every row ends where the others do


def test_wide_characters_stand_above_their_columns():
    lines = text.terminal(np.eye(3), ["a", "b", "c"], ["日本", "ab", "語"], 16, False).split("\n")
    assert lines[:2] == ["  日a", "  本b 語"]
    assert lines[2:5] == ["a ██····", "b ··██··", "c ····██"]


def test_wide_row_tokens_are_right_aligned_and_cut():
    lines = text.terminal(np.eye(3, 2), ["日本", "a", "日本語の文字"], ["x", "y"], 20, False).split("\n")
    assert lines[:4] == ["       x y", "  日本 █ ·", "     a · █", " 日本… · ·"]
    assert {cell_len(line) for line in lines[:4]} == {10}


def test_marks_stay_with_their_letters():
    lines = text.terminal(np.eye(2), ["a", "b"], ["e\u0301te\u0301", "xyzuvwr"], 16, False).split("\n")
    assert [line for line in lines if "\u0301" in line] == ["  e\u0301 v", "  e\u0301 r"]


def test_a_long_token_ends_in_an_ellipsis():
    lines = text.terminal(np.eye(2), ["a", "b"], ["a" * 30, "b"], 16, False).split("\n")
    assert [line.strip() for line in lines[: text.TALLEST]] == ["a"] * (text.TALLEST - 1) + ["⋮ b"]


def _backgrounds(line):
    return [span.style.bgcolor.triplet for span in Text.from_ansi(line).spans if span.style.bgcolor]


def test_colours_are_those_of_the_figure(monkeypatch):
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    lines = text.terminal(SCORES, ["a", "dog", "."], None, 60, True).split("\n")
    assert _backgrounds(lines[1]) == [scores.colour(fraction) for fraction in (0, 0.25, 0.5, 0.75, 1)]
    assert Text.from_ansi(lines[2]).plain.rstrip() == "dog"
    assert "█" not in "".join(lines)


def test_256_colours_where_the_terminal_has_no_more(monkeypatch):
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[48;5;" in text.terminal(SCORES, width=40, colour=True)
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert "\x1b[48;2;" in text.terminal(SCORES, width=40, colour=True)


def test_no_colours_where_the_output_is_no_terminal_unless_they_are_asked_for(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b" not in text.terminal(SCORES, width=40)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" in text.terminal(SCORES, width=40)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in text.terminal(SCORES, width=40)
    assert "\x1b" in text.terminal(SCORES, width=40, colour=True)


def test_the_width_is_the_terminals(monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    assert text.terminal(SCORES, colour=False) == text.terminal(SCORES, width=24, colour=False)
    assert text.terminal(SCORES, colour=False) != text.terminal(SCORES, width=80, colour=False)


def test_padding_is_cut_and_the_scale_is_that_of_what_is_shown():
    shown = text.terminal(SCORES[:2, :4], ["a"], ["x", "y", "z"], 60, False)
    assert shown == text.terminal(SCORES[:1, :3], ["a"], ["x", "y", "z"], 60, False)
    assert "·░▒▓█ 0.5" in shown


def test_logits_on_a_scale_asked_for():
    lines = text.terminal([[-np.inf, 0.0, 8.0]], width=40, colour=False, vmin=-4, vmax=4).split("\n")
    assert lines[1] == "0 · ▒ █"
    assert lines[-1].endswith("  -4 ·░▒▓█ 4")


def test_columns_may_have_another_name():
    """The legend is laid out with that name, which fits beside the rows where the usual one would not."""
    lines = text.terminal(np.eye(2, 3), width=40, colour=False, column_name="features").splitlines()
    assert "rows: query positions  columns: features" in lines


def test_tokens_cannot_write_to_the_terminal():
    assert "\x1b" not in text.terminal([[1.0]], ["\x1b[2J"], ["\x1b]0;x\x07"], 60, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 3, 5)),), r"terminal shows one head, \(T, S\)\. Received \(H, T, S\)"),
        ((SCORES, None, None, 15), "terminal: expected a width of at least 16 cells. Received: 15"),
        ((SCORES, ["a"] * 4), "rows: expected at most 3 query tokens"),
        ((-SCORES,), "between 0 and 1"),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        text.terminal(*arguments)
