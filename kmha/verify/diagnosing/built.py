"""The weights of a layer that is there already, in the canonical layout: they are read off its variables' shapes."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.diagnosing import held, naming
from kmha.verify.diagnosing.calling import SubjectError
from kmha.verify.diagnosing.conventions import completed
from kmha.verify.diagnosing.held import Variable


def weights_of(
    name: str, layer: Any, variables: Sequence[Variable], given: Mapping[str, Any], convention: int = 0
) -> tuple[dict[str, np.ndarray], int]:
    """The canonical weights of a layer, as the arrangement number `convention` reads them, and how many there are.

    Raises:
        SubjectError: there are none, or they fit no reading; it lists them.
    """
    if not variables:
        raise SubjectError(
            f"{name}: the layer has no weights yet. Call it once, or `build` it, first; or give its class, and its "
            "weights will be made."
        )
    heads = number_of_heads(layer, given)
    kernels = [variable.shape for variable in variables if len(variable.shape) > 1]
    readings = [heads] if heads else _likely_heads(layer, variables)
    for sizes in itertools.chain.from_iterable(_possible_sizes(kernels, each) for each in readings):
        try:
            found = held.arrangements(variables, sizes)
        except held.UnknownWeightsError:
            continue
        read = held.read(found[min(convention, len(found) - 1)], sizes)
        return completed(read, sizes["H"], sizes["O"]), len(found)
    given_heads = f" with {heads} heads" if heads else ""
    remedy = "" if heads else " Give the number of heads: arguments={'num_heads': …}, or --set num_heads=H."
    raise SubjectError(
        f"{name}: its weights fit no reading as multi-head attention{given_heads}. Expected kernels for query, key, "
        f"value and output, such as (I, H·O) or (H, I, O).{remedy} Received: {held.listed(variables)}."
    )


def number_of_heads(layer: Any, given: Mapping[str, Any]) -> int | None:
    """As it was given, or as an attribute says it."""
    for name, value in [*given.items(), *vars(layer).items()]:
        if naming.argument(name.strip("_")) == "heads" and isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _likely_heads(layer: Any, variables: Sequence[Variable]) -> list[int]:
    """Where nothing says it: the axes of kernels with three; else one, unless some number of the layer divides O.

    A number of heads that nobody knows must not be guessed: a right layer would be accused.
    """
    kernels = [variable.shape for variable in variables if len(variable.shape) > 1]
    cubes = [number for shape in kernels if len(shape) == 3 for number in shape]
    if cubes:
        return list(dict.fromkeys(cubes))
    sizes = {number for shape in kernels for number in shape}
    numbers = {value for value in vars(layer).values() if isinstance(value, int) and not isinstance(value, bool)}
    if any(number > 1 and number not in sizes and size % number == 0 for number in numbers for size in sizes):
        return []
    listed = {head for variable in variables if (head := held.head_of(variable.path, variables)) is not None}
    return [max(listed) + 1] if listed else [1]


def _possible_sizes(kernels: list[tuple[int, ...]], heads: int) -> Iterator[dict[str, int]]:
    """All readings of the kernels' shapes: in and out features, heads and head size."""
    numbers = sorted({number for shape in kernels for number in shape})
    inner = set(numbers) | {number // heads for number in numbers if number % heads == 0}
    # The likeliest first: H·O is one of the numbers, the largest O that there is.
    for size in sorted(inner, key=lambda each: (each * heads not in numbers, -each)):
        for features, key_features, width in itertools.product(numbers, repeat=3):
            yield {
                "H": heads,
                "O": size,
                "E": width,
                "I query": features,
                "I key": key_features,
                "I value": key_features,
            }
