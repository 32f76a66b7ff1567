"""The sizes with which a layer is made or asked: drawn, given, or those of the weights that it holds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from kmha.verify.diagnosing.calling import SubjectError
from kmha.verify.diagnosing.trials import Sizes


def letters(weights: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The sizes of canonical weights by letter."""
    heads, _, size = weights["query/kernel"].shape
    inner = {f"I {role}": weights[f"{role}/kernel"].shape[1] for role in ("query", "key", "value")}
    return {"H": heads, "O": size, "E": weights["attention_output/kernel"].shape[2], **inner}


def held_sizes(weights: Mapping[str, np.ndarray]) -> Sizes:
    """The sizes of canonical weights, with lengths that are none of them."""
    sizes = letters(weights)
    batch, rows, columns = [n for n in (2, 3, 5, 7, 9, 11) if n not in (sizes["H"], sizes["O"])][:3]
    features, key_features = sizes["I query"], sizes["I key"]
    use_bias = "query/bias" in weights
    return Sizes(batch, rows, columns, sizes["H"], features, key_features, sizes["O"], sizes["E"], use_bias)


def fixed_sizes(drawn: Sizes, heads: int, fixed: Mapping[str, Any], wide: bool, has_output: bool, name: str) -> Sizes:
    """Those that were drawn, but for those that are given.

    Raises:
        SubjectError: the width is no multiple of the number of heads.
    """
    if not wide:
        features = fixed.get("width") or fixed.get("inputs") or drawn.features
        width = fixed.get("output") or (drawn.width if has_output else features)
        size = fixed.get("size") or drawn.size
        return dataclasses.replace(drawn, heads=heads, size=size, width=width, features=features, key_features=features)
    width = fixed.get("width") or fixed.get("output") or heads * (drawn.width if heads == 1 else drawn.size)
    if width % heads:
        raise SubjectError(f"{name}: a width of {width} is no multiple of {heads} heads. Give another one of the two.")
    return dataclasses.replace(drawn, heads=heads, size=width // heads, width=width, features=width, key_features=width)
