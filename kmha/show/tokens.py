"""Tokens as labels of an axis with every character visible, and removal of padding, which has no tokens."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

LONGEST = 16  # maximum number of characters of a label
JOINERS = "\u200c\u200d"  # format characters that belong to the spelling of Persian, Hindi, and emoji
NAMES = {"rows": ("query", "T"), "columns": ("key", "S")}

SPECIAL = re.compile(r"<.+>|\[.+\]")  # tokens such as <s> and [CLS], which contain no text
SPACE = "▁"  # what SentencePiece writes for a space
# GPT-2 writes a character for each byte: Ġ for a space, Ċ for a newline, and two characters for an ä.
PRINTED = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTED]
BYTES = {chr(byte): byte for byte in PRINTED} | {chr(256 + index): byte for index, byte in enumerate(OTHERS)}
# GPT-2 has no tokens with control characters, with a space after a word, or with a newline before one.
NOT_BYTES = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\S |\n\w")


class Labels(NamedTuple):
    """The labels of one axis."""

    texts: tuple[str, ...]
    tokens: bool  # whether the texts are tokens instead of positions

    @classmethod
    def of(cls, name: str, tokens: Any, size: int, others: Sequence[str] = ()) -> "Labels":
        """Return the labels of the axis `name` ("rows" or "columns"): the tokens, or positions from 0 for `None`.

        Tokens can be text, bytes or numbers. If there are fewer than `size` (T or S), the rest is padding. `others` are
        the tokens of the other axis, as in `readable`.

        Raises:
            ValueError: `tokens` is not a list, is empty, or has more than `size` elements.

        >>> Labels.of("rows", ["a", "dog"], 3)
        Labels(texts=('a', 'dog'), tokens=True)
        """
        if tokens is None:
            return cls(tuple(map(str, range(size))), False)
        query, letter = NAMES[name]
        texts = readable(_listed(name, tokens), others)
        if not texts:
            raise ValueError(f"{name}: expected at least one token. Leave {name} out to show positions.")
        if len(texts) > size:
            raise ValueError(
                f"{name}: expected at most {size} {query} tokens, because {letter} is {size} (with fewer, the rest is "
                f"padding). Received {len(texts)}: {shorten(' '.join(texts), 60)}. Were they tokenized as for the "
                "model, and are rows the queries and columns the keys?"
            )
        return cls(texts, True)


def cut(array: np.ndarray, rows: Any, columns: Any) -> tuple[np.ndarray, Labels, Labels]:
    """Return `array` (…, T, S) without padding at the end, and the labels of its rows and columns.

    >>> shown, row_labels, column_labels = cut(np.zeros((2, 3, 5)), ["a", "dog"], None)
    >>> shown.shape, row_labels.texts
    ((2, 2, 5), ('a', 'dog'))
    """
    rows, columns = (x if x is None else _listed(name, x) for name, x in (("rows", rows), ("columns", columns)))
    row_labels = Labels.of("rows", rows, array.shape[-2], columns or ())
    column_labels = Labels.of("columns", columns, array.shape[-1], rows or ())
    return array[..., : len(row_labels.texts), : len(column_labels.texts)], row_labels, column_labels


def readable(tokens: Iterable[Any], others: Sequence[str] = ()) -> tuple[str, ...]:
    """Return `tokens` as a person reads them, each on one line, with every character visible.

    A token that is only spaces is shown as ␣. SentencePiece writes ▁ for a space, and GPT-2 writes Ġ. They are left
    out before a word. Ġ is also a letter of Maltese: the list must be one that GPT-2 can write, and most of its words
    after the first must begin with Ġ, unless other letters show that they stand for bytes. A list that is too short to
    tell is judged together with `others`, the tokens of the other axis.

    >>> print(readable(["a\\tb", b"M\\xc3\\xa4dchen", " ", 7]))
    ('a\\\\tb', 'Mädchen', '␣', '7')
    >>> readable(["▁3", "▁mai", "▁", "1"]), readable(["3", "Ġmai", "Ċ", "##ing"])
    (('3', 'mai', '␣', '1'), ('3', 'mai', '\\\\n', '##ing'))
    >>> readable(["Ġmai"]), readable(["Ġmai"], ["on", "Ġ3", "ĠMay"])
    (('Ġmai',), ('mai',))
    """
    return tuple(map(visible, _with_spaces([_text(token) for token in tokens], others)))


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return `text`, cut to `longest` characters with an ellipsis if it is longer.

    >>> shorten("Donaudampfschifffahrtsgesellschaft", 12)
    'Donaudampfs…'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _listed(name: str, tokens: Any) -> list[str]:
    """Return the tokens of the axis `name` as a list of texts."""
    tokens = tokens.numpy() if hasattr(tokens, "numpy") else tokens
    if isinstance(tokens, str | bytes) or not isinstance(tokens, Iterable):
        query, _ = NAMES[name]
        raise ValueError(f"{name}: expected a list of {query} tokens, such as text.split(). Received: {tokens!r}.")
    return [_text(token) for token in tokens]


def _text(token: Any) -> str:
    return token.decode("utf-8", "replace") if isinstance(token, bytes) else str(token)


def _with_spaces(texts: Sequence[str], others: Sequence[str]) -> Sequence[str]:
    """Return `texts` with spaces instead of their marks, but without the space before a word."""
    words, other_words = ([text for text in each if not SPECIAL.fullmatch(text)] for each in (texts, others))
    if _are_bytes(words) or _are_bytes(words, other_words):
        plain = _from_bytes
    elif any(SPACE in text for text in words) and not any(SPACE in text.lstrip(SPACE) for text in words):
        plain = _from_sentencepiece
    else:
        return texts
    return [text if SPECIAL.fullmatch(text) else _without_space(plain(text)) for text in texts]


def _without_space(text: str) -> str:
    return text if text.isspace() else text.removeprefix(" ")


def _are_bytes(*lists: Sequence[str]) -> bool:
    """Return whether the characters of all `lists` are GPT-2's for bytes, instead of letters such as the Maltese Ġ."""
    joined = ["".join(texts) for texts in lists]
    characters = set().union(*joined)
    if "Ġ" not in characters or not characters <= BYTES.keys():
        return False
    decoded = [_from_bytes(text) for text in joined]
    tokens = [[_from_bytes(text) for text in texts] for texts in lists]
    if any("\ufffd" in text for text in decoded) or any(NOT_BYTES.search(token) for each in tokens for token in each):
        return False
    words = [token for each in tokens for token in each[1:] if token.isspace() or token.lstrip()[:1].isalnum()]
    return not all(map(str.isascii, decoded)) or 2 * sum(word[:1].isspace() for word in words) > len(words)


def _from_bytes(text: str) -> str:
    return bytes(BYTES[character] for character in text).decode("utf-8", "replace")


def _from_sentencepiece(text: str) -> str:
    return text.replace(SPACE, " ")


def visible(text: str) -> str:
    """Return a text on one line, with every character visible, so that it can be drawn and written to any file.

    >>> print(visible("a\\tb\\ud800"))
    a\\tb\\ud800
    """
    if not text.strip(" "):
        return "␣" * len(text)
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    # Control characters, lone surrogates and line separators cannot be drawn or written. Others reverse the text.
    hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character not in JOINERS
    hidden = hidden or character in "\ufffe\uffff"  # which XML forbids
    return character.encode("unicode_escape").decode() if hidden else character
