"""Errors that a candidate raises: the line of its code, and whether the error is the code's own slip.

A misspelt name raises an error whatever the code is called with. Other errors may come from the way kmha calls it.
"""

import ast
import difflib
import linecache
import traceback
from types import ModuleType
from typing import Any

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.verdicts import SourceLine
from kmha.verify.wording import ended, error_lines

SIMILAR = 0.75  # smallest similarity of a name to the one that was meant


def error_line(error: BaseException) -> str:
    """Return an error's type and message on one line, with the name that was probably meant.

    >>> import math
    >>> try:
    ...     math.sqroot(2)
    ... except AttributeError as error:
    ...     print(error_line(error))
    AttributeError: module 'math' has no attribute 'sqroot'. Did you mean `sqrt`?
    """
    text = f"{type(error).__name__}: {(error_lines(error) or [''])[0]}"
    meant = meant_name(error)
    return f"{ended(text)} Did you mean `{meant}`?" if meant else text


def meant_name(error: BaseException) -> str:
    """Return the attribute that a misspelt one was meant to be, or ""."""
    if not isinstance(error, AttributeError) or error.obj is None or not isinstance(error.name, str):
        return ""
    try:
        names = [name for name in dir(error.obj) if name.startswith("_") == error.name.startswith("_")]
    except Exception:  # the `__dir__` of an untrusted object may itself raise
        return ""
    return next(iter(difflib.get_close_matches(error.name, names, 1, SIMILAR)), "")


def place_of_nested(method: str, code: str) -> str:
    """Return the name of the function inside of which a class defines a method, by wrong indentation, or "".

    >>> place_of_nested("call", "class A:\\n def __init__(self):\\n  def call(self, x): pass")
    '__init__'
    """
    outer = (each for each in ast.walk(frameworks.syntax_of(code)) if isinstance(each, ast.FunctionDef))
    return next((each.name for each in outer if any(_is_function(part, method) for part in each.body)), "")


def _is_function(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def is_slip(error: BaseException, module: str) -> bool:
    """Return whether an error is the code's own, whatever it was called with.

    Args:
        error: Error that the candidate raised.
        module: Name of the module that defines the candidate.
    """
    if isinstance(error, NameError):
        return True
    if not isinstance(error, AttributeError) or error.obj is None:
        return False
    owner: Any = error.obj if isinstance(error.obj, ModuleType) else type(error.obj)
    return bool(meant_name(error)) or getattr(owner, "__module__", "") == module


def line_of_error(error: BaseException, module: str) -> SourceLine | None:
    """Return the innermost line of the module's code that an error passed, or `None` if it passed none."""
    found = [
        (frame.f_code.co_filename, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == module
    ]
    text = linecache.getline(*found[-1]).strip() if found else ""
    return SourceLine(*found[-1], text) if text else None
