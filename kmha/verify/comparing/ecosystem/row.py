"""A row of the table "works with": a feature of the ecosystem, and a function that tries it with a layer class."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

Layer = Any  # a class with the built-in layer's arguments
Try = Callable[[Layer, Path], Any]

TENSORFLOW, JAX, TORCH = "tensorflow", "jax", "torch"


@dataclasses.dataclass(frozen=True)
class Row:
    """A feature, tried with the built-in layer and with kmha's.

    Attributes:
        feature: Name of the feature, in the words of its documentation.
        attempt: Function of a layer class and an empty folder. It uses the feature, raises an exception if that does
            not work, and returns arrays. From the same seed, both layers must give the same arrays.
        backends: Backends of Keras that have the feature.
        needs: Packages besides TensorFlow, each with the extra of kmha that installs it.
        apart: Each layer is tried in a process of its own, because one of them damages the process's memory.
        dtype: Dtype whose rounding the arrays have.
        differs: Why kmha's arrays are others, or why it does not work with kmha. Empty if it must work the same.
    """

    feature: str
    attempt: Try
    backends: tuple[str, ...] = (TENSORFLOW, JAX, TORCH)
    needs: tuple[tuple[str, str], ...] = ()
    differs: str = ""
    dtype: str = "float32"
    apart: bool = False


def row(
    feature: str, *backends: str, needs: dict[str, str] | None = None, differs: str = "", **more: Any
) -> Callable[[Try], Row]:
    """Make a function a row. Without `backends`, all of them have the feature."""

    def decorate(attempt: Try) -> Row:
        where = backends or (TENSORFLOW, JAX, TORCH)
        return Row(feature, attempt, where, tuple((needs or {}).items()), differs, **more)

    return decorate
