"""Modules that are imported when they are first used, so that `kmha --help` does not wait for TensorFlow."""

import contextlib
import importlib
from typing import Any


class LazyModule:
    """A module that is imported when one of its attributes is first needed.

    >>> LazyModule("math").sqrt(9.0)
    3.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


np: Any = LazyModule("numpy")
tf: Any = LazyModule("tensorflow")


def leave_gpus() -> None:
    """Let TensorFlow, which then only reads data and keeps books, leave the GPUs to the backend of Keras."""
    with contextlib.suppress(RuntimeError):  # TensorFlow has started before
        tf.config.set_visible_devices([], "GPU")
