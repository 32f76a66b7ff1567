"""Import the packages that only the assignments need, which may not be installed."""

import importlib
from types import ModuleType

from kmha.course.errors import CourseError


class MissingPackageError(CourseError, ImportError):
    """A package is not installed. The message says how to install it."""


def load(name: str) -> ModuleType:
    """Import a package.

    Raises:
        MissingPackageError: The package is not installed.

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
