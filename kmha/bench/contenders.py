"""The interface of a contender, its inputs, and the check that contenders agree.

All contenders get the same weights, input and upstream gradient. They must give the same results under the same names,
so that only correct computations are timed.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.bench.cases import AttentionRow
from kmha.verify import tolerance

Arrays = dict[str, np.ndarray]


class ContendersDisagree(ValueError):
    """Raised if two contenders give different results for the same inputs."""


@dataclasses.dataclass(frozen=True)
class AttentionInputs:
    """The arrays that all contenders of a row get."""

    x: np.ndarray  # query, key and value, (B, T, I)
    upstream: np.ndarray  # gradient with respect to the output, (B, T, E)
    weights: Arrays  # in the canonical layout; biases of input projections are zero, because Addons has no such biases


@dataclasses.dataclass(frozen=True)
class Contender:
    """An implementation to measure.

    Args:
        name: Name of the contender, such as `BUILTIN`.
        run: Function that runs one pass. It returns the output, and in a step the gradients of input and weights.
        results: Function that converts the return value of `run` to a dict of arrays in the canonical layout.
    """

    name: str
    run: Callable[[], list[Any]]
    results: Callable[[list[Any]], Arrays]


def draw_inputs(row: AttentionRow, seed: int = 0) -> AttentionInputs:
    """Return random inputs. The same row and seed always give the same inputs."""
    generator = np.random.default_rng(seed)

    def normal(shape: tuple[int, ...], scale: float = 1.0) -> np.ndarray:
        return scale * generator.standard_normal(shape, dtype="float32")

    width, heads, size = row.width, row.heads, row.head_size
    weights = {}
    for role in ("query", "key", "value"):
        weights[f"{role}/kernel"] = normal((heads, width, size), width**-0.5)
        weights[f"{role}/bias"] = np.zeros((heads, size), "float32")
    weights["attention_output/kernel"] = normal((heads, size, width), width**-0.5)
    weights["attention_output/bias"] = normal((width,))
    return AttentionInputs(normal(row.shape), normal(row.shape), weights)


def padding(row: AttentionRow) -> np.ndarray:
    """Return a mask (B, S), False at the last quarter of the keys, which it hides."""
    visible = row.length - row.length // 4
    return np.tile(np.arange(row.length) < visible, (row.batch, 1))


def named(tensors: list[Any], to_canonical: Callable[[list[np.ndarray]], Mapping[str, np.ndarray]]) -> Arrays:
    """Return the results of `run`, keyed by name. `to_canonical` names the gradients of the weights."""
    output, *gradients = [_array(tensor) for tensor in tensors]
    if not gradients:
        return {"output": output}
    of_weights = {f"d {name}": array for name, array in to_canonical(gradients[1:]).items()}
    return {"output": output, "d input": gradients[0], **of_weights}


def _array(tensor: Any) -> np.ndarray:
    """Return a tensor of TensorFlow, JAX or torch as an array of float32."""
    on_processor = tensor.detach().float().cpu() if hasattr(tensor, "detach") else tensor
    return np.asarray(on_processor, "float32")


def check_agreement(
    row: Any, name: str, results: Arrays, against: str, expected: Arrays, precision: str = "float32"
) -> None:
    """Raise `ContendersDisagree` if a shared result differs by more than the rounding of the dtype `precision`.

    Gradients are compared relative to the largest one.
    """
    allowed = tolerance.relative(precision)
    gradients = [float(np.max(np.abs(array))) for key, array in expected.items() if key.startswith("d ")]
    for key in sorted((key for key in results if key in expected), key=lambda key: key.startswith("d ")):
        largest = max(gradients) if key.startswith("d ") else None
        _, relative = tolerance.difference(results[key], expected[key], largest)
        if not relative <= allowed:
            raise ContendersDisagree(
                f"{row}: `{key}` of {name} differs from that of {against} by {relative:.2g} of its largest element, "
                f"and {allowed:.0e} is allowed. `kmha compare` shows what is wrong."
            )
