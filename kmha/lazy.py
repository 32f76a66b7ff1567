"""Lazy packages: a public name is imported when it is first used."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def attributes(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package. `dir` then lists exactly the names in `__all__`.

    Args:
        package: Name of the package.
        homes: Module that defines each name, relative to the package. "" marks a name that is itself a module.
    """

    def get(name: str) -> Any:
        if name not in homes:
            public = ", ".join(sys.modules[package].__all__)
            raise AttributeError(f"module {package!r} has no attribute {name!r}. It has: {public}.")
        if not homes[name]:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return get, lambda: sorted(sys.modules[package].__all__)
