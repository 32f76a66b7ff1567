"""Functions that several commands share: the backend, missing packages, loading of candidates, the console."""

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

WIDTH = 118  # width of a table if there is no terminal
TRAINING_BACKENDS = "tensorflow", "jax", "torch"
INTERRUPTED = 130  # exit status with which shells report Ctrl-C


def choose_backend(backend: str) -> None:
    """Make Keras compute with `backend`. Call this before Keras is imported."""
    check_backend(backend)
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("JAX_ENABLE_X64", "1")  # otherwise JAX turns float64 into float32
    with _silent_stderr():
        importlib.import_module("keras")


def choose_backend_of_environment() -> None:
    """Make Keras compute with the backend in KERAS_BACKEND, and import TensorFlow, which reads data and searches."""
    choose_backend(backend_of_environment())
    with _silent_stderr():
        importlib.import_module("tensorflow")


def backend_of_environment() -> str:
    """Return the backend in KERAS_BACKEND, by default TensorFlow, if models of `kmha train` run on it."""
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend not in TRAINING_BACKENDS:
        raise click.ClickException(f"KERAS_BACKEND must be one of {', '.join(TRAINING_BACKENDS)}. Received: {backend}.")
    return backend


def check_backend(backend: str) -> None:
    """Raise an error if the backend is not installed."""
    extra = {"tensorflow": "", "jax": "[jax]", "torch": "[torch]"}[backend]
    if importlib.util.find_spec(backend) is None:
        raise not_installed(f"the backend {backend}", extra)


def screen() -> Console:
    """Return standard output, as wide as its terminal, or `WIDTH` for a file or a pipe. `:key:` is not an emoji."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, emoji=False)


def not_installed(what: str, extra: str) -> click.ClickException:
    """Return an error that says what is missing, and how to install it."""
    return click.ClickException(f"{what} is not installed. Run: pip install 'kmha{extra}'")


def describe_os_error(error: OSError) -> str:
    """Return the file and the reason of an error of the operating system, in one line."""
    reason = (error.strerror or str(error) or type(error).__name__).splitlines()[0]
    return f"{error.filename}: {reason}." if error.filename else f"{reason}."


def load(name: str) -> Any:
    """Return the object that `MODULE:NAME` names. The module can be in the current folder.

    Raises:
        click.ClickException: The object does not exist, or importing the module fails.
    """
    module_name, path = split_name(name)
    found: Any = _import(module_name)
    for part in path.split("."):
        if not hasattr(found, part):
            callables = [key for key, value in vars(found).items() if callable(value) and not key.startswith("_")]
            near = ", ".join(difflib.get_close_matches(part, callables, n=3, cutoff=0.4) or callables[:3])
            raise click.ClickException(f"{module_name} does not have {path}. It has: {near or 'nothing callable'}.")
        found = getattr(found, part)
    return found


def split_name(name: str) -> tuple[str, str]:
    """Return the module and the path in `MODULE:NAME`.

    Raises:
        click.BadParameter: `name` is something else.
    """
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise click.BadParameter(f"expected MODULE:NAME, such as my_module:MyAttention. Received: {name!r}.")
    if module_name.endswith(".py") or path.endswith(".py"):
        raise click.BadParameter(f"name the module without .py. Received: {name!r}.")
    if "/" in module_name or os.sep in module_name:
        dotted = module_name.replace(os.sep, ".").replace("/", ".").strip(".")
        raise click.BadParameter(f"name the module as Python imports it, {dotted}:{path}. Received: {name!r}.")
    return module_name, path


def _import(name: str) -> Any:
    """Import a module, and look for it in the current folder first."""
    folder = os.getcwd()
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # the module's output must not mix with ours
            module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # importing runs other people's code, which can raise anything
        if isinstance(error, SystemExit):
            why = "it ends the program: put that below `if __name__ == '__main__':`"
        else:
            why = f"{type(error).__name__}: {error}"
        raise click.ClickException(f"cannot import {name}: {why}{_location(error, folder)}") from None
    here = os.path.join(folder, *name.split(".")) + ".py"
    if os.path.isfile(here) and not os.path.samefile(here, getattr(module, "__file__", None) or folder):
        raise click.ClickException(f"Python has its own module {name} and ignores {here}: rename the file.")
    return module


def _location(error: BaseException, folder: str) -> str:
    """Return the last line in the current folder that led to an error, or else the last line outside the import."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)[1:] if "importlib" not in frame.filename]
    mine = [frame for frame in frames if frame.filename.startswith(folder)] or frames
    return f" ({mine[-1].filename}, line {mine[-1].lineno})" if mine else ""


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Drop what the backend's C++ writes to standard error about the machine. Errors arrive as exceptions."""
    if sys.stderr is None:  # it was closed before Python started
        yield
        return
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
