"""Packages that only the assignments need, and that may not be installed."""

import importlib
from types import ModuleType

from kmha.course.errors import CourseError


class MissingPackageError(CourseError, ImportError):
    """A package is not installed; the message says how to get it."""


def load(name: str) -> ModuleType:
    """The module of a package.

    Raises:
        MissingPackageError: it is not installed.

    >>> load("nbformat_of_3000")
    Traceback (most recent call last):
    kmha.course.exercises.extras.MissingPackageError: nbformat_of_3000 is not installed. Run: pip install 'kmha[course]'
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingPackageError(f"{name} is not installed. Run: pip install 'kmha[course]'") from None
