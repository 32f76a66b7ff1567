"""Recognise a layer that takes images or maps of features, (B, H, W, C) or (B, C, H, W), by calling it with some."""

import itertools
from typing import Any

import numpy as np

from kmha.verify.diagnosing import frameworks
from kmha.verify.diagnosing.calling import EMPTY
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.layer_candidate import LayerCandidate

SIDES = (8, 32, 224)  # heights and widths to try, after those that the layer states
VECTORS = 9  # number of vectors, which no side states
CHANNELS = (3, 8)  # of a picture, and the features of a small layer


def takes_images(layer: LayerCandidate) -> bool:
    """Return whether a layer runs with images, and not with vectors (B, P, C) of as many features."""
    name = next((layer.roles[role] for role in ("self", "query") if role in layer.roles), "")
    more = [
        n for n, each in layer.call_parameters.items() if each.default is EMPTY and n not in (name, *layer.call_given)
    ]
    if not name or more:
        return False
    stated: list[Any] = [each.default for n, each in layer.constructor_parameters.items() if "size" in n]
    stated += [int(value) for n, value in layer.made_guesses.items() if "size" in n and value.isdecimal()]
    sides = dict.fromkeys((*(each for each in stated if type(each) is int and 1 < each <= max(SIDES)), *SIDES))
    found = next((shape for side in sides for shape in _shapes(side) if _runs(layer, name, shape)), None)
    return found is not None and not any(_runs(layer, name, (2, VECTORS, count)) for count in CHANNELS)


def _shapes(side: int) -> list[tuple[int, ...]]:
    shapes = (((2, side, side, count), (2, count, side, side)) for count in CHANNELS)
    return list(itertools.chain.from_iterable(shapes))


def _runs(layer: LayerCandidate, name: str, shape: tuple[int, ...]) -> bool:
    """Return whether a call with an image of this shape runs. Keras makes some weights for the first shape it sees."""
    array = np.random.default_rng(0).normal(size=shape)
    arguments: dict[str, Any] = {**layer.call_given, name: frameworks.to_tensor(array, layer.framework, "float32")}
    try:
        with quietly():
            made = layer.sample()
            if isinstance(layer.thing, type):
                layer.adapter.build(made, arguments, "float32")
            layer.adapter.call(made, arguments, False)
    except (Exception, SystemExit):  # untrusted code may raise anything
        return False
    return True
