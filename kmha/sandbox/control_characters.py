"""Control characters in texts of untrusted code and files. It imports little, so that every command can use it."""

import unicodedata


def visible(text: str) -> str:
    """Write out characters that a terminal or a browser would obey instead of showing them, except ends of lines.

    >>> print(visible("\\x1b[2J\\u202ereversed"))
    \\x1b[2J\\u202ereversed
    """
    return "".join(map(_visible, text.replace("\r\n", "\n")))


def _visible(letter: str) -> str:
    shown = letter.isprintable() or letter in "\n\t" or unicodedata.category(letter) == "Zs"
    return letter if shown else letter.encode("unicode_escape").decode("ascii")
