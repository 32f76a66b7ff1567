"""The weights of a layer that an answer defines, before training: what they are, and how they start."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def with_wide_kernel(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs of a layer whose kernel has many more features in the output than in the input.

    Then the initializers of Keras begin with numbers of different sizes.
    """
    heads, features, _ = inputs["kernel"].shape
    return {**inputs, "kernel": np.zeros((heads, features, 4 * features + 1))}


def right_weights(inputs: Any, result: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Compare what `kmha.sandbox.worker_api.new_weights` says of new layers, and describe the first difference."""
    for name in ("kernel", "bias"):
        if tuple(result[name]) != tuple(expected[name]):
            return f"`{name}` has the shape {tuple(result[name])}, expected {tuple(expected[name])}."
    for count, wanted, which in zip(result["trainable"], expected["trainable"], ("with", "without"), strict=True):
        if count != wanted:
            return f"{which} a bias {count} of its weights are trained, expected {wanted}."
    if np.any(result["bias at the start"]):
        return "`bias` does not start from zeros."
    if result["without a bias"] is not None:
        return "without a bias, `bias` is not `None`."
    if not result["the sum without a bias"]:
        return "without a bias, the result is not the product of inputs and kernel."
    if [tuple(shape) for shape in result["order"]] != [tuple(shape) for shape in expected["order"]]:
        return "its weights are not the kernel and then the bias."
    for policy, wanted in expected["dtypes"].items():
        *weights, output = result["dtypes"][policy]
        if [*weights, output] != list(wanted):
            return f"in a layer of {policy} its weights are {' and '.join(weights)}, and its result is {output}."
    if not result["kernel varies at the start"]:
        return "all elements of `kernel` start from nearly the same number."
    if not result["kernel has both signs at the start"]:
        return "all elements of `kernel` start with the same sign."
    if not result["every kernel starts from its own numbers"]:
        return "the kernels of two layers start from the same numbers."
    if not result["kernel as from glorot_uniform"]:
        return "`kernel` starts from numbers that are larger or smaller than those of `glorot_uniform`."
    if result["name"] != expected["name"]:
        return "the layer does not have the name that it was made with."
    return None
