import numpy as np
import pytest

from kmha import show
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
    assert tokens.readable([token]) == (shown,)


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        ("▁3 ▁mai ▁ 1 9 </s>", "3 mai ␣ 1 9 </s>"),
        ("<s> ▁mai ▁▁ x", "<s> mai ␣␣ x"),
        ("3 Ġmai Ġ Ċ", "3 mai ␣ \\n"),
        ("<s> A Ġdog . ĊĊ ĠĠĠ Ġreturn </s>", "<s> A dog . \\n\\n ␣␣␣ return </s>"),
        ("<｜begin▁of▁sentence｜> A Ġdog", "<｜begin▁of▁sentence｜> A dog"),
        ("<｜begin▁of▁sentence｜> ▁A ▁dog", "<｜begin▁of▁sentence｜> A dog"),
        ("Don aud amp fer Ġist ĠMÃ¤d chen", "Don aud amp fer ist Mäd chen"),
        ("A Ġæ Ĺ ¥", "A \ufffd \ufffd \ufffd"),
        ("end .ĊĊ Ġ7", "end .\\n\\n 7"),
        ("play ##ing [SEP]", "play ##ing [SEP]"),
    ],
)
def test_marks_of_spaces_are_left_out(marked, shown):
    assert tokens.readable(marked.split()) == tuple(shown.split(" "))


def test_of_several_marks_before_a_word_one_is_left_out():
    assert tokens.readable(["a", "▁▁▁b"]) == ("a", "  b")
    assert tokens.readable(["a", "ĠĠĠb"]) == ("a", "  b")


@pytest.mark.parametrize(
    "text",
    [
        "Ġorġ",
        "Ġanni mar id-dar",
        "Il Ġanni u l Ġdida",
        "Il Ġorġ Ġorġ Ġorġ",
        "Fi Ġunju Ġużeppi Ġanni",
        "Fi Ċensu Ġanni Ġanni",
        "Fi Ġanni ĠanniĠ Ġanni",
        "日本 Ġanni Ġanni",
        "Ä Ġanni Ġanni",
        "Ġ a n n i",
        "a▁b ▁c",
        "Ģimene ēd",
    ],
)
def test_letters_and_other_characters_are_no_marks(text):
    assert tokens.readable(text.split()) == tuple(text.split())


TEXTS = "The dog slept.\n\n  Ein Mädchen sieht 3 Hunde, e\u0301te\u0301 und 日本 🙂", "un bon café\tnoir pour le bébé"


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [256, 300, 400])
def test_the_tokens_of_a_library(text, size):
    """Together, the labels are the text, where each token is a whole character or more."""
    library = pytest.importorskip("tokenizers")
    tokenizer = library.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator([text] * 9, vocab_size=size, min_frequency=1, show_progress=False)
    encoded = tokenizer.encode(text)
    assert set(tokens.BYTES) == set(library.pre_tokenizers.ByteLevel.alphabet())
    for token, label, (start, end) in zip(
        encoded.tokens, tokens.readable(encoded.tokens), encoded.offsets, strict=True
    ):
        piece = tokenizer.decode([tokenizer.token_to_id(token)])
        assert "\ufffd" in piece or piece == text[start:end]
        [expected] = tokens.readable([piece if piece.isspace() else piece.removeprefix(" ")])
        assert label == expected


@pytest.mark.parametrize(
    ("rows", "columns", "shown"),
    [
        (["Ġdog"], ["A", "Ġdog"], ["dog"]),
        (["Ġdog"], np.array(["MÃ¤d", "chen"]), ["dog"]),
        (["MÃ¤d", "chen"], ["<s>", "Ein", "ĠMÃ¤d", "chen"], ["Mäd", "chen"]),
        (["Ġdog"], ["▁A", "▁dog"], ["Ġdog"]),
        (["Ġdog"], None, ["Ġdog"]),
        (["Ġdog"], ["Ġcat"], ["Ġdog"]),
        (["Ġorġ"], ["A", "Ġdog"], ["Ġorġ"]),
        (["Mädchen"], ["A", "Ġdog"], ["Mädchen"]),
        (["A", "Ġdog"], ["Il", "Ġorġ"], ["A", "dog"]),
    ],
)
def test_tokens_of_both_axes_are_judged_together(rows, columns, shown):
    """A single token does not tell whether Ġ is a mark. The other axis can, if its tokens may be of the same kind."""
    columns = columns if columns is None else list(columns)
    _, labels, _ = tokens.cut(np.zeros((4, 5)), rows, columns if columns is None else iter(columns))
    assert list(labels.texts) == shown
    _, _, labels = tokens.cut(np.zeros((5, 4)), columns, rows)
    assert list(labels.texts) == shown


def test_marks_are_left_out_of_labels_in_figures_and_in_the_terminal():
    scores = np.eye(2, 3)
    rows, columns = ["▁3", "▁mai"], ["a", "Ġdog", "Ġ"]
    axes = show.heatmap(scores, rows, columns).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["3", "mai"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "dog", "␣"]
    assert show.terminal(scores, rows, columns, 60, False) == show.terminal(
        scores, ["3", "mai"], ["a", "dog", " "], 60, False
    )


def test_a_long_token_is_shortened_at_the_limit_and_not_before():
    assert tokens.shorten("abcdefg", 7) == "abcdefg"
    assert tokens.shorten("abcdefgh", 7) == "abcdef…"
