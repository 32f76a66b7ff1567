"""What the commands share: the backend, what is not installed, the exit status of Ctrl-C, the screen."""

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
from rich.console import Console

WIDTH = 118  # of a table where there is no terminal
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


def screen() -> Console:
    """Standard output: as wide as its terminal, or `WIDTH` in a file or a pipe; `:key:` is no picture of one."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, emoji=False)


def not_installed(what: str, extra: str) -> click.ClickException:
    """Says what is missing, and how to get it."""
    return click.ClickException(f"{what} is not installed. Run: pip install 'kmha{extra}'")


def told(error: OSError) -> str:
    """What the system would not do with which file, in a line."""
    said = (error.strerror or str(error) or type(error).__name__).splitlines()[0]
    return f"{error.filename}: {said}." if error.filename else f"{said}."


def load(name: str) -> Any:
    """What `MODULE:NAME` names; modules in the current folder are found.

    Raises:
        click.ClickException: there is no such thing, or importing the module fails; it says where.
    """
    module_name, colon, thing_name = name.partition(":")
    if not (module_name and colon and thing_name):
        raise click.BadParameter(f"expected MODULE:NAME, such as my_module:MyAttention. Received: {name!r}.")
    if module_name.endswith(".py") or thing_name.endswith(".py"):
        raise click.BadParameter(f"name the module without .py. Received: {name!r}.")
    if "/" in module_name or os.sep in module_name:
        dotted = module_name.replace(os.sep, ".").replace("/", ".").strip(".")
        raise click.BadParameter(f"name the module as Python imports it, {dotted}:{thing_name}. Received: {name!r}.")
    found: Any = _imported(module_name)
    for part in thing_name.split("."):
        if not hasattr(found, part):
            callables = [key for key, value in vars(found).items() if callable(value) and not key.startswith("_")]
            near = ", ".join(difflib.get_close_matches(part, callables, n=3, cutoff=0.4) or callables[:3])
            raise click.ClickException(
                f"{module_name} has no {thing_name}. It has: {near or 'nothing that can be called'}."
            )
        found = getattr(found, part)
    return found


def _imported(name: str) -> Any:
    """The module, of the current folder first."""
    folder = os.getcwd()
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a stranger's module prints is not what we print
            module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # importing runs a stranger's code, which may raise anything
        if isinstance(error, SystemExit):
            why = "it ends the program: put that below `if __name__ == '__main__':`"
        else:
            why = f"{type(error).__name__}: {error}"
        raise click.ClickException(f"cannot import {name}: {why}{_place(error, folder)}") from None
    here = os.path.join(folder, *name.split(".")) + ".py"
    if os.path.isfile(here) and not os.path.samefile(here, getattr(module, "__file__", None) or folder):
        raise click.ClickException(f"Python has a module {name} of its own, and does not look at {here}: rename it.")
    return module


def _place(error: BaseException, folder: str) -> str:
    """The last line in the current folder that led to an error, or the last of all but the import's own."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)[1:] if "importlib" not in frame.filename]
    mine = [frame for frame in frames if frame.filename.startswith(folder)] or frames
    return f" ({mine[-1].filename}, line {mine[-1].lineno})" if mine else ""


@contextlib.contextmanager
def _without_notes() -> Iterator[None]:
    """Drops what the backend's C++ writes to standard error about the machine; its errors come as exceptions."""
    if sys.stderr is None:  # it was closed before Python began
        yield
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
