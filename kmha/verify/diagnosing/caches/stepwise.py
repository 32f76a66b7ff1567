"""A layer that takes one position in each call, with its cache, as a function of a whole sequence.

Such a layer has no call without a cache to compare with, so that kmha diagnoses what it gives for position after
position as attention that is causal.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.caches import arrays

Step = Callable[[Any, Any, int, int], tuple[Any, Any]]  # (tokens, cache, position, length) to (result, new cache)


def as_function(layer: Any, run: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a function of a sequence (B, T, I) that refers to the layer, so that kmha finds its weights.

    Args:
        layer: Layer that takes one position in each call.
        run: Function that calls a layer, or a copy of one, on all positions of a sequence, one after another.
    """

    def position_by_position(x: Any) -> Any:
        return run(layer, x)

    return position_by_position


def run_steps(x: Any, start: Callable[[int, int], Any], step: Step) -> Any:
    """Return the outputs (B, T, E) for a sequence (B, T, I), in calls that bring one position each."""
    length = x.shape[1]
    cache, outputs = start(x.shape[0], length), []
    for position in range(length):
        result, cache = step(x[:, position : position + 1], cache, position, length)
        outputs.append(arrays.output_of(result))
    return joined(outputs)


def joined(parts: Sequence[Any], axis: int = 1) -> Any:
    """Return arrays of any framework, one after another along an axis."""
    framework = frameworks.likely_frameworks(type(parts[0]))[0]
    if framework == "torch":
        import torch

        return torch.cat(list(parts), axis)
    if framework in ("numpy", "jax"):
        namespace = np if framework == "numpy" else importlib.import_module("jax.numpy")
        return namespace.concatenate(parts, axis)
    import keras

    return keras.ops.concatenate(parts, axis)
