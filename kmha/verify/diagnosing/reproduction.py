"""Write a script that calls a candidate and prints the candidate's result beside the right result."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.matching import TrialResult, relative_difference

SEED = 0  # seed of the weights that a script draws
_TENSORS = {
    "numpy": ("", "{}"),
    "keras": ("", "{}"),
    "tensorflow": ("import tensorflow as tf", "tf.constant({})"),
    "torch": ("import torch", "torch.tensor({})"),
    "jax": ("import jax", "jax.numpy.asarray({})"),
}


def literal(array: Any) -> str:
    """Return an array as Python code, with all its numbers.

    >>> literal(np.array([[1.25, -2.0]]))
    'np.array([[1.25, -2.0]])'
    """
    array = np.asarray(array)
    if array.dtype.kind != "f" or array.dtype == np.float64:
        return f"np.array({array.tolist()!r})"
    # Use the shortest decimals that give the same numbers.
    decimals = np.reshape([float(str(number)) for number in array.ravel()], array.shape)
    return f"np.array({decimals.tolist()!r}, dtype={str(array.dtype)!r})"


def imports(thing: Any, framework: str, source: str, name: str) -> list[str]:
    """Return the first lines of a script that uses `thing` as `name`.

    Args:
        thing: Class, function or object to import.
        framework: Framework of the arrays that `thing` takes.
        source: Where `thing` is defined, as MODULE:NAME. By default, the module and name that `thing` states.
        name: Name of `thing` in the script.
    """
    lines = ["import keras"] if framework == "keras" else []
    lines += ["import numpy as np"]
    if _TENSORS[framework][0]:
        lines.append(_TENSORS[framework][0])
    if framework == "jax":
        lines.append('jax.config.update("jax_enable_x64", True)')
    module, home = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "<locals>")
    if source:
        module, _, home = source.partition(":")
    if "<" in home or module in ("__main__", "builtins", "", None):
        return [*lines, f"# {name}: the candidate that was diagnosed", ""]
    home = home.split(".")[0] if "." in name else home
    renamed = "" if home in (name, name.split(".")[0]) else f" as {name}"
    return [*lines, f"from {module} import {home}{renamed}", ""]


def as_dtype(arguments: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Return arguments with NumPy arrays of a dtype in place of tensors of floats, in lists and dicts too.

    >>> as_dtype({"x": np.zeros(2), "both": [np.ones(1)], "training": False}, "float16")
    {'x': array([0., 0.], dtype=float16), 'both': [array([1.], dtype=float16)], 'training': False}
    """

    def cast(value: Any) -> Any:
        if isinstance(value, dict):
            return as_dtype(value, dtype)
        if isinstance(value, list | tuple):
            return type(value)(map(cast, value))
        array = frameworks.to_numpy(value) if hasattr(value, "shape") else None
        return array.astype(dtype) if array is not None and array.dtype.kind == "f" else value

    return {name: cast(value) for name, value in arguments.items()}


def assignments(
    arguments: Mapping[str, Any], framework: str, places: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Return a line that defines each array, and the text of each argument in the call. `places` are passed first."""
    lines, given = [], []
    for name, value in arguments.items():
        if isinstance(value, dict):
            items = [f"{key!r}: {_part(array, framework)}" for key, array in value.items()]
            lines.append(f"{name} = {{{', '.join(items)}}}")
        elif isinstance(value, list):
            lines.append(f"{name} = [{', '.join(_part(array, framework) for array in value)}]")
        elif hasattr(value, "shape"):
            lines.append(f"{name} = {_tensor(value, framework)}")
        else:
            given.append(f"{name}={value!r}")
            continue
        given.append(f"{name}={name}")
    first = [text.partition("=")[2] for name in places for text in given if text.startswith(f"{name}=")]
    return lines, [*first, *(text for text in given if text.partition("=")[0] not in places)]


def _part(value: Any, framework: str) -> str:
    return _tensor(value, framework) if hasattr(value, "shape") else repr(value)


def _tensor(tensor: Any, framework: str) -> str:
    return _TENSORS[framework][1].format(literal(frameworks.to_numpy(tensor)))


def script(result: TrialResult, lines: list[str]) -> str:
    """Return a script of the candidate's `lines`, the last of which sets `result`, and of the right result."""
    configured = any("SimpleNamespace(" in line for line in lines)
    head = ["from types import SimpleNamespace", ""] if configured else []
    alone = result.answer.scores_alone
    shown = [*head, *lines, "print(result)", f"# right: {_rounded(result.right['returned' if alone else 'output'])}"]
    scores = None if alone else result.answer.scores
    if scores is not None and relative_difference(result.answer.output, result.right["output"]) <= result.limit:
        shown.append(f"# right scores: {_rounded(result.right['returned'])}")
    return "\n".join(shown) + "\n"


def _rounded(array: Any) -> list[Any]:
    return np.round(np.asarray(array, "float64"), 6).tolist()
