"""What the commands share: the backend, what is not installed, the exit status of Ctrl-C."""

import contextlib
import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import click

INTERRUPTED = 130  # as shells report Ctrl-C


def choose_backend(backend: str) -> None:
    """Has Keras compute with `backend`, which must be settled before Keras is imported."""
    extra = {"tensorflow": "", "jax": "[jax]", "torch": "[torch]"}[backend]
    if importlib.util.find_spec(backend) is None:
        raise not_installed(f"the backend {backend}", extra)
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("JAX_ENABLE_X64", "1")  # float64, which JAX otherwise makes float32
    with _without_notes():
        importlib.import_module("keras")


def not_installed(what: str, extra: str) -> click.ClickException:
    """Says what is missing, and how to get it."""
    return click.ClickException(f"{what} is not installed. Run: pip install 'kmha{extra}'")


def load(name: str) -> Any:
    """What `MODULE:NAME` names; modules in the current folder are found."""
    module_name, colon, thing_name = name.partition(":")
    if not (module_name and colon and thing_name):
        raise click.BadParameter(f"expected MODULE:NAME, such as my_module:MyAttention. Received: {name!r}.")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # importing runs a stranger's code, which may raise anything
        last = traceback.extract_tb(error.__traceback__)[-1]
        if module_name.endswith(".py") or thing_name.endswith(".py"):
            raise click.BadParameter(f"name the module without .py. Received: {name!r}.") from None
        where = "" if "importlib" in last.filename else f" ({last.filename}, line {last.lineno})"
        raise click.ClickException(f"cannot import {module_name}: {type(error).__name__}: {error}{where}") from None
    if not hasattr(module, thing_name):
        callables = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        near = ", ".join(difflib.get_close_matches(thing_name, callables, n=3, cutoff=0.4) or callables[:3])
        raise click.ClickException(
            f"{module_name} has no {thing_name}. It has: {near or 'nothing that can be called'}."
        )
    return getattr(module, thing_name)


@contextlib.contextmanager
def _without_notes() -> Iterator[None]:
    """Drops what the backend's C++ writes to standard error about the machine; its errors come as exceptions."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
