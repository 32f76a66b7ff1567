"""Code to paste that makes one call of a candidate and prints it beside what is right."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.verify.chain import run
from kmha.verify.matching import Asked

_TENSORS = {
    "numpy": ("", "{}"),
    "keras": ("", "{}"),
    "tensorflow": ("import tensorflow as tf", "tf.constant({})"),
    "torch": ("import torch", "torch.tensor({})"),
    "jax": ("import jax", "jax.numpy.asarray({})"),
}


def literal(array: Any) -> str:
    """An array as Python writes it, whole.

    >>> literal(np.array([[1.25, -2.0]]))
    'np.array([[1.25, -2.0]])'
    """
    array = np.asarray(array)
    if array.dtype.kind != "f" or array.dtype == np.float64:
        return f"np.array({array.tolist()!r})"
    digits = np.finfo(array.dtype).precision
    return f"np.array({np.round(array.astype('float64'), digits).tolist()!r}, dtype={str(array.dtype)!r})"


def imports(thing: Any, framework: str) -> list[str]:
    """The first lines of a script that uses a class or function, or an object of the class."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    lines = ["import numpy as np"]
    if framework == "keras":
        lines.insert(0, "import keras")
    if _TENSORS[framework][0]:
        lines.append(_TENSORS[framework][0])
    if framework == "jax":
        lines.append('jax.config.update("jax_enable_x64", True)')
    if named.__module__ not in ("__main__", "builtins") and "<locals>" not in named.__qualname__:
        lines.append(f"from {named.__module__} import {named.__qualname__.split('.')[0]}")
    return [*lines, ""]


def assignments(arguments: Mapping[str, Any], framework: str) -> tuple[list[str], list[str]]:
    """A line for each array, and how each argument is written in the call."""
    from kmha.verify import frameworks

    lines, given = [], []
    for name, value in arguments.items():
        if isinstance(value, dict):
            items = ", ".join(f"{key!r}: {_tensor(frameworks.back(array), framework)}" for key, array in value.items())
            lines.append(f"{name} = {{{items}}}")
        elif hasattr(value, "shape"):
            lines.append(f"{name} = {_tensor(frameworks.back(value), framework)}")
        else:
            given.append(f"{name}={value!r}")
            continue
        given.append(f"{name}={name}")
    return lines, given


def _tensor(array: np.ndarray, framework: str) -> str:
    return _TENSORS[framework][1].format(literal(array))


def script(asked: Asked, lines: list[str]) -> str:
    """The subject's `lines`, whose last one leaves `result`, and what is right below."""
    state = run(asked.trial)
    right = np.round(state["output"], 6)
    shown = [*lines, "print(result)", f"# right: {right.tolist()}"]
    return "\n".join(shown) + "\n"
