"""What the commands share: the backend, what is not installed, the exit status of Ctrl-C."""

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator

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
