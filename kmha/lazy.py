"""Lazy packages: a public name is imported when it is first used."""

import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any


def attach(package: str, homes: Mapping[str, str]) -> None:
    """Give a package a `__getattr__`, and a `__dir__` that lists exactly the names in `__all__`.

    With the environment variable `EAGER_IMPORT`, every name is imported at once, for tools that read modules, such as
    `pdoc`.

    A type checker does not see them. A `__getattr__` in the package's code would make every name right for it.

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

    vars(sys.modules[package]).update(__getattr__=get, __dir__=lambda: sorted(sys.modules[package].__all__))
    if os.environ.get("EAGER_IMPORT"):
        vars(sys.modules[package]).update({name: get(name) for name in homes})
