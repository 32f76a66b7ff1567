"""What every contender of a benchmark gets, and what it must give.

All get the same weights, input and upstream gradient, and give the same results by the same names, so that a benchmark
of wrong numbers does not come about.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.bench.cases import AttentionRow
from kmha.verify import tolerance

Arrays = dict[str, np.ndarray]


class ContendersDisagree(ValueError):
    """Two contenders give different results for the same numbers."""


@dataclasses.dataclass(frozen=True)
class AttentionInputs:
    """What all contenders of a row get.

    Args:
        x: query, key and value, (B, T, I).
        upstream: the gradient with respect to the output, (B, T, E).
        weights: in the canonical layout; the biases of the projections into heads are zero, for Addons had none.
    """

    x: np.ndarray
    upstream: np.ndarray
    weights: Arrays


@dataclasses.dataclass(frozen=True)
class Contender:
    """One who runs.

    Args:
        name: of `BUILTIN`, `OURS` and `PEERS`.
        run: one pass; returns the output, and in a step the gradients with respect to the input and all weights.
        results: what `run` returned, as arrays by name, in the canonical layout.
    """

    name: str
    run: Callable[[], list[Any]]
    results: Callable[[list[Any]], Arrays]


def draw_inputs(row: AttentionRow, seed: int = 0) -> AttentionInputs:
    """Drawn at random; the same for the same row and seed."""
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
    """(B, S), True means attend: the last quarter of each row's keys is hidden."""
    visible = row.length - row.length // 4
    return np.tile(np.arange(row.length) < visible, (row.batch, 1))


def named(output: np.ndarray, of_input: np.ndarray, of_weights: Mapping[str, np.ndarray]) -> Arrays:
    """The results of a step by name."""
    return {"output": output, "d input": of_input, **{f"d {name}": array for name, array in of_weights.items()}}


def check_agreement(row: Any, name: str, results: Arrays, against: str, expected: Arrays) -> None:
    """Raises `ContendersDisagree` if a result that both have differs; a gradient is relative to the largest of all."""
    gradients = [float(np.max(np.abs(array))) for key, array in expected.items() if key.startswith("d ")]
    for key in sorted((key for key in results if key in expected), key=lambda key: key.startswith("d ")):
        largest = max(gradients) if key.startswith("d ") else None
        _, relative = tolerance.difference(results[key], expected[key], largest)
        if not relative <= tolerance.relative("float32"):
            raise ContendersDisagree(
                f"{row}: `{key}` of {name} differs from that of {against} by {relative:.2g} of its largest element, "
                f"and {tolerance.relative('float32'):.0e} is allowed. Times of wrong numbers mean nothing; "
                "`kmha compare` shows what is wrong."
            )
