"""The values in the expression of untrusted code that raised an error: their shapes tell most about it."""

import linecache
import re
from types import ModuleType, TracebackType
from typing import Any

MOST, LONGEST = 6, 40  # values that are described, and characters of a short value
_NAMES = re.compile(r"(?<![\w.\"'])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?![\w(\"'])")
_STRINGS = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")


def describe(error: BaseException, folder: str) -> str:
    """Return the names in the expression that raised an error, each with the shape or the short value behind it.

    Args:
        error: The error.
        folder: Folder of the untrusted code.

    Returns:
        A text such as "query (2, 3), num_heads = 4", or "" if there is nothing to say.
    """
    try:
        found = _last(error.__traceback__, folder)
        return "" if found is None else ", ".join(_described(found))
    except BaseException:  # untrusted values can raise anything
        return ""


def _last(trace: TracebackType | None, folder: str) -> TracebackType | None:
    """Return the last entry of a traceback in the untrusted code."""
    last = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(folder):
            last = trace
        trace = trace.tb_next
    return last


def _described(trace: TracebackType) -> list[str]:
    frame, found = trace.tb_frame, []
    for name in dict.fromkeys(_NAMES.findall(_STRINGS.sub("", _expression(trace)))):
        first, *rest = name.split(".")
        scope = frame.f_locals if first in frame.f_locals else frame.f_globals
        if first not in scope:
            continue
        value = scope[first]
        for part in rest:
            value = getattr(value, part, _described)
        if text := _text(value):
            found.append(f"{name} {text}")
    return found[:MOST]


def _expression(trace: TracebackType) -> str:
    """Return the expression that raised the error, without the rest of its line."""
    code = trace.tb_frame.f_code
    positions = list(code.co_positions())[trace.tb_lasti // 2]
    line, end, column, end_column = positions
    lines = linecache.getlines(code.co_filename)
    if line is None or end is None or column is None or end_column is None:
        return lines[trace.tb_lineno - 1] if trace.tb_lineno <= len(lines) else ""
    wanted = [each.encode() for each in lines[line - 1 : end]]
    wanted[-1] = wanted[-1][:end_column]
    wanted[0] = wanted[0][column:]
    return b"".join(wanted).decode()


def _text(value: Any) -> str:
    """Return the shape of an array or tensor, or a short value, or "" for anything else."""
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type | ModuleType):
        sizes = tuple(value.shape)
        return str(sizes) if all(size is None or isinstance(size, int) for size in sizes) and sizes else ""
    if value is None or isinstance(value, bool | int | float | str):
        return f"= {value!r}" if len(repr(value)) <= LONGEST else ""
    if isinstance(value, list | tuple):
        plain = all(each is None or isinstance(each, int | float) for each in value) and len(repr(value)) <= LONGEST
        return f"= {value!r}" if plain else f"= a {type(value).__name__} of {len(value)}"
    return ""
