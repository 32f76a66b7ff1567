"""Read what a candidate's docstrings and comments say about its call: the first axis, and what True in a mask means."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.calling import METHODS

_BATCHES, _POSITIONS = r"(batch(_?size)?|bsz?|bs|n)", r"(time|seq\w*|tokens?|length|len|positions?|l|t)"
BATCH_FIRST = rf"batch[- ]first|[\[(]\s*{_BATCHES}\s*,\s*{_POSITIONS}\b"
TIME_FIRST = rf"batch_first|(sequence|time|length)[- ]first|[\[(]\s*{_POSITIONS}\s*,\s*{_BATCHES}\b"
TRUE, FALSE = r"\b(?:true|1s?|ones?)\b(?!\.)", r"\b(?:false|0s?|zeros?)\b(?!\.)"
PADDING = r"pad(s|ded|ding)?\b"
HIDDEN = rf"\b({PADDING}|masked|hid(e|es|den)\b|ignored?\b|exclude|block(s|ed)?\b)"
VISIBLE = r"\b(attend|keeps?\b|kept\b|valid|real|allowed|visible|take part|takes part|included?\b|participat)"
ADDED = r"(?<![\w.])0(\.0)?\s*(/|or|and)\s*-\s*(inf|∞|[1-9])"  # the numbers of a mask that is added
BETWEEN = rf"(?:(?!{TRUE}|{FALSE}|\s\*\s)[^.,;|/\n]){{0,60}}?"  # not in a product
NOT = r"\b(not|never|no|cannot|can't)\b[^.,;]{0,12}$"


def says_batch_first(thing: Any) -> bool:
    """Return whether the docstring of a class, or of its call, says that the batch is the first axis of inputs."""
    text = "\n".join(_docstrings(thing)).lower() if isinstance(thing, type) else ""
    return bool(re.search(BATCH_FIRST, text)) and not re.search(TIME_FIRST, text)


def meanings_of_mask(thing: Any, name: str) -> tuple[str, ...]:
    """Return what a mask may mean by the docstrings and comments of a class's call or a function, as `stated` does."""
    return stated(_lines(thing), name)


def masks(thing: Any, names: Iterable[str]) -> dict[str, str]:
    """Return which of these arguments are masks, keyed by role, because docstrings or comments say what True means."""
    found: dict[str, str] = {}
    lines = _lines(thing)
    for name in names:
        if stated(lines, name) in (("attends",), ("hides",), ("adds",)):
            is_padding = any(re.search(rf"\b{re.escape(name)}\b.*\b{PADDING}", line.lower()) for line in lines)
            found.setdefault("padding" if is_padding else "mask", name)
    return found


def said(thing: Any) -> list[str]:
    """Return the lines of the docstrings of a class's call or a function, and its comments."""
    return [*_documented(thing), *(line.partition("#")[2] for line in _commented(thing))]


def _lines(thing: Any) -> list[str]:
    """Return the lines of docstrings, and those of code with a comment."""
    return [*_documented(thing), *_commented(thing)]


def _documented(thing: Any) -> list[str]:
    return "\n".join(_docstrings(thing)).splitlines()


def _calls(thing: Any) -> list[Any]:
    """Return the methods of a class that its call runs, or the function itself."""
    return [vars(thing)[each] for each in METHODS if each in vars(thing)] if isinstance(thing, type) else [thing]


def _commented(thing: Any) -> list[str]:
    """Return the lines of code with a comment."""
    code = "\n".join(map(frameworks.source_of, _calls(thing))).splitlines()
    return [line for line in code if "#" in line]


def stated(lines: Sequence[str], name: str) -> tuple[str, ...]:
    """Return what True means in a mask by the lines that name it, or nothing. Of code, only the comment counts.

    What is said of 1 and 0 may be meant for the caller of another layer, which makes a mask to add of them.

    >>> stated(["key_padding_mask: (B, S), True for pad tokens"], "key_padding_mask")
    ('hides',)
    >>> stated(["def call(self, x, mask=None):  # 1 = keep, 0 = padding"], "mask")
    ('attends', 'adds')
    >>> stated(["valid: (B, S), True for real tokens and False for padding"], "valid")
    ('attends',)
    >>> stated(["mask: which positions are padding"], "mask")
    ()
    >>> stated(["mask: (windows, N, N) of 0 and -inf"], "mask")
    ('adds',)
    """
    found, of_booleans = set(), False
    for number, line in enumerate(lines):
        if not re.search(rf"\b{re.escape(name)}\b", line):
            continue
        next_line = "".join(lines[number + 1 : number + 2])
        words = line.partition("#")[2] or line + (" " + next_line.strip() if ":" not in next_line else "")
        if re.search(ADDED, words.lower()):
            return ("adds",)
        for number_or_bool, is_true in ((TRUE, True), (FALSE, False)):
            for word, visible in ((HIDDEN, False), (VISIBLE, True)):
                for match in re.finditer(rf"{number_or_bool}({BETWEEN}){word}", words.lower()):
                    means_visible = visible != bool(re.search(NOT, match.group(1)))
                    found.add("attends" if means_visible == is_true else "hides")
                    of_booleans |= not re.search(r"\d|one|zero", match.group())
    return () if len(found) != 1 else (*found,) if of_booleans else (*found, "adds")


def _docstrings(thing: Any) -> list[str]:
    """Return the docstrings of a function, or of a class and its call."""
    owners = [thing, *_calls(thing)] if isinstance(thing, type) else [thing]
    return [text for each in owners if isinstance(text := getattr(each, "__doc__", None), str)]
