import numpy as np
import pytest

from kmha.show import tokens
from kmha.show.tokens import Labels


def test_padding_at_the_end_is_cut():
    array = np.arange(2 * 3 * 5).reshape(2, 3, 5)
    shown, rows, columns = tokens.cut(array, ["a", "dog"], ["ein", "Hund", "läuft", "."])
    np.testing.assert_array_equal(shown, array[:, :2, :4])
    assert rows == Labels(("a", "dog"), True)
    assert columns == Labels(("ein", "Hund", "läuft", "."), True)


def test_positions_where_there_are_no_tokens():
    shown, rows, columns = tokens.cut(np.zeros((2, 3)), None, None)
    assert shown.shape == (2, 3)
    assert rows == Labels(("0", "1"), False)
    assert columns == Labels(("0", "1", "2"), False)


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (["a"] * 3, None, r"rows: expected at most 2 query tokens, because T is 2 .* Received 3: a a a\."),
        (None, ["a"] * 6, r"columns: expected at most 5 key tokens, because S is 5 .* Received 6"),
        ([], None, "rows: expected at least one token"),
        (None, "ein Hund", r"columns: expected a list of key tokens, .*split\(\)\. Received: 'ein Hund'"),
        (b"a", None, "Received: b'a'"),
        (7, None, "Received: 7"),
    ],
)
def test_lists_that_do_not_fit(rows, columns, message):
    with pytest.raises(ValueError, match=message):
        tokens.cut(np.zeros((2, 5)), rows, columns)


def test_a_long_list_of_surplus_tokens_is_shortened():
    with pytest.raises(ValueError, match=r"Received 500: (word ){11}word… ?\."):
        tokens.cut(np.zeros((2, 5)), ["word"] * 500, None)


@pytest.mark.parametrize("of", [list, tuple, np.array, iter])
def test_any_list_of_tokens(of):
    assert Labels.of("rows", of(["a", "dog"]), 3).texts == ("a", "dog")


@pytest.mark.tensorflow
def test_tokens_of_tensorflow_are_bytes():
    import tensorflow

    assert Labels.of("rows", tensorflow.constant(["Mädchen", "a"]), 3).texts == ("Mädchen", "a")


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("dog", "dog"),
        (" dog", " dog"),
        ("", ""),
        ("  ", "␣␣"),
        ("\n", "\\n"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202eabc", "\\u202eabc"),
        ("\ud800", "\\ud800"),
        ("\u2028", "\\u2028"),
        ("$x_", "$x_"),
        ("日本", "日本"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        (17, "17"),
        (b"M\xe4", "M\ufffd"),
    ],
)
def test_every_character_can_be_seen(token, shown):
    assert tokens.readable(token) == shown


def test_a_long_token_is_shortened_at_the_limit_and_not_before():
    assert tokens.shorten("abcdefg", 7) == "abcdefg"
    assert tokens.shorten("abcdefgh", 7) == "abcdef…"
