"""Tokens as labels of an axis with every character visible, and removal of padding, which has no tokens."""

import unicodedata
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

LONGEST = 16  # maximum number of characters of a label
JOINERS = "\u200c\u200d"  # format characters that belong to the spelling of Persian, Hindi, and emoji
NAMES = {"rows": ("query", "T"), "columns": ("key", "S")}


class Labels(NamedTuple):
    """The labels of one axis."""

    texts: tuple[str, ...]
    tokens: bool  # whether the texts are tokens instead of positions

    @classmethod
    def of(cls, name: str, tokens: Any, size: int) -> "Labels":
        """Return the labels of the axis `name` ("rows" or "columns"): the tokens, or positions from 0 for `None`.

        Tokens can be text, bytes or numbers. If there are fewer than `size` (T or S), the rest is padding.

        Raises:
            ValueError: `tokens` is not a list, is empty, or has more than `size` elements.

        >>> Labels.of("rows", ["a", "dog"], 3)
        Labels(texts=('a', 'dog'), tokens=True)
        """
        if tokens is None:
            return cls(tuple(map(str, range(size))), False)
        query, letter = NAMES[name]
        tokens = tokens.numpy() if hasattr(tokens, "numpy") else tokens
        if isinstance(tokens, str | bytes) or not isinstance(tokens, Iterable):
            raise ValueError(f"{name}: expected a list of {query} tokens, such as text.split(). Received: {tokens!r}.")
        texts = tuple(readable(token) for token in tokens)
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
    row_labels = Labels.of("rows", rows, array.shape[-2])
    column_labels = Labels.of("columns", columns, array.shape[-1])
    return array[..., : len(row_labels.texts), : len(column_labels.texts)], row_labels, column_labels


def readable(token: Any) -> str:
    """Return `token` as text on one line, with every character visible.

    >>> print(readable("a\\tb"), readable(b"M\\xc3\\xa4dchen"), readable(" "), readable(7))
    a\\tb Mädchen ␣ 7
    """
    text = token.decode("utf-8", "replace") if isinstance(token, bytes) else str(token)
    if not text.strip(" "):
        return "␣" * len(text)
    return "".join(_escaped(character) for character in text)


def shorten(text: str, longest: int = LONGEST) -> str:
    """Return `text`, cut to `longest` characters with an ellipsis if it is longer.

    >>> shorten("Donaudampfschifffahrtsgesellschaft", 12)
    'Donaudampfs…'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _escaped(character: str) -> str:
    # Control characters, lone surrogates and line separators cannot be drawn or written. Others reverse the text.
    hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character not in JOINERS
    return character.encode("unicode_escape").decode() if hidden else character
