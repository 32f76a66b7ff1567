"""Layers that cut an image into patches, the tokens of a vision transformer (Dosovitskiy et al. 2021, section 3.1).

No reference is needed: changing one number of an image shows which tokens, and which of their features, it reaches. In
right code, a token reads one patch, with all channels. A wrong reshape puts parts of several patches into one token.
"""

import contextlib
import dataclasses
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kmha.verify.diagnosing import frameworks, naming
from kmha.verify.diagnosing.calling import EMPTY
from kmha.verify.diagnosing.candidate import quietly
from kmha.verify.diagnosing.layer_candidate import LayerCandidate
from kmha.verify.diagnosing.matching import Match, shown

Array = npt.NDArray[Any]

SIDE, PATCH, CHANNELS, WIDTH = 16, 4, 3, 10  # of the images, the patches and the tokens of a class that kmha makes
ABOUT = re.compile("patch|image|img|vit")  # in the names of a class and its arguments
# What an argument of a constructor is, by its name without underscores, the likeliest first.
SIZES = {
    "count": re.compile("(num|n)patch(es)?$"),
    "patch": re.compile("patch|^p$"),
    "channels": re.compile("chan|^c$"),
    "side": re.compile("image|img|^(input)?(size|side|resolution)$|^[hw]$"),
    "width": re.compile("dim|embed|width|hidden|dmodel|features|units|projection"),
}
FEWEST = 4  # number of tokens
MOST = 4096  # numbers in an image, each of which is changed in turn
CHANGED = 1e-5  # relative to the largest number; what changes by less is rounding in float32
LOCAL = 0.25  # share of an image that a feature reads at most, if it reads a patch
HALF = 0.5  # share of the tokens that a wrong reshape mixes at least
AT_ONCE = 256  # number of images in a call


def examine(layer: LayerCandidate) -> Match | None:
    """Return what calls with images show: that a layer cuts an image into patches, rightly or not.

    The match has the mistake, or none if the layer is right. It is `None` if kmha cannot say.
    """
    names = (layer.name, *layer.call_parameters, *layer.constructor_parameters)
    if not ABOUT.search(naming.plain("".join(names))):
        return None
    try:
        with quietly():
            return next((found for each in _cuts(layer) if (found := _judged(each))), None)
    except (Exception, SystemExit):  # untrusted code may raise anything
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class _Cut:
    """Calls of a layer with images of one shape.

    Attributes:
        call: Function that returns the output (B, N, D) for images (B, R, C, channels).
        reaches: Which features (N, D) of which tokens each number of an image reaches, (R, C, channels, N, D). Tokens
            that no image changes are left out.
        stated: Side of a patch, if the layer states it, or 0.
    """

    call: Callable[[Array], Array]
    reaches: Array
    stated: int


def _cuts(layer: LayerCandidate) -> Iterator[_Cut]:
    """Yield the calls that return tokens, with channels last or first, and with sizes as numbers or as pairs."""
    needed = [n for n, each in layer.call_parameters.items() if each.default is EMPTY and n not in layer.call_given]
    name = needed[0] if needed else next(iter(layer.call_parameters), "")
    if len(needed) > 1 or not name:
        return
    stated = {getattr(layer.thing, name, None) for name in ("img_size", "image_size")}
    sides = [SIDE] if isinstance(layer.thing, type) else [each for each in stated if type(each) is int] or [SIDE, 32]
    for pairs, side, count, last in itertools.product((False, True), sides, (CHANNELS, 1), (True, False)):
        with contextlib.suppress(Exception, SystemExit):  # untrusted code may raise anything
            made, patch = _made(layer, pairs)
            call = functools.partial(_call, layer, made, name, last)
            image = np.random.default_rng(0).normal(size=(1, side, side, count))
            if isinstance(layer.thing, type):
                layer.adapter.build(made, {**layer.call_given, name: _tensor(layer, image, last)}, "float32")
            if (reaches := _reached(call, image)) is not None:
                yield _Cut(call, reaches, patch)


def _made(layer: LayerCandidate, pairs: bool) -> tuple[Any, int]:
    """Return an instance whose sizes are those of this module, as far as the names of its arguments tell.

    Returns:
        The instance, and the side of a patch that it got, or 0.
    """
    if not isinstance(layer.thing, type):
        return layer.thing, 0
    numbers = {"count": (SIDE // PATCH) ** 2, "patch": PATCH, "channels": CHANNELS, "side": SIDE, "width": WIDTH}
    arguments = {name: value for name, value in layer.given.items() if name in layer.constructor_parameters}
    patch = 0
    for name, each in layer.constructor_parameters.items():
        what, needed = _size_of(name), each.default is EMPTY
        if name in arguments or not (needed or type(each.default) in (int, tuple)):
            continue
        if what:
            several = pairs if needed else type(each.default) is tuple
            arguments[name] = (numbers[what],) * 2 if several and what in ("patch", "side") else numbers[what]
            patch = PATCH if what == "patch" else patch
        elif needed and each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise ValueError(f"unknown argument {name}")
    return layer.adapter.new(layer.layer_class, arguments, "float32"), patch


def _size_of(name: str) -> str:
    plain = naming.plain(name)
    return next((what for what, pattern in SIZES.items() if pattern.search(plain)), "")


def _tensor(layer: LayerCandidate, images: Array, last: bool) -> Any:
    return frameworks.to_tensor(images if last else np.moveaxis(images, 3, 1), layer.framework, "float32")


def _call(layer: LayerCandidate, made: Any, name: str, last: bool, images: Array) -> Array:
    """Return the output for images (B, R, C, channels), whose channels the layer gets last or before the rows."""
    result = layer.adapter.call(made, {**layer.call_given, name: _tensor(layer, images, last)}, False)
    result = result[0] if isinstance(result, tuple | list) else result
    return np.asarray(frameworks.to_numpy(result), "float64")


def _reached(call: Callable[[Array], Array], image: Array) -> Array | None:
    """Return what each number of an image reaches, as in `_Cut`, or `None` if the output has no tokens."""
    first = call(image)
    if image.size > MOST or first.ndim != 3 or first.shape[1] < FEWEST or first.shape[2] < 2:
        return None
    changed = image + np.eye(image.size).reshape(image.size, *image.shape[1:])
    outputs = np.concatenate([call(part) for part in np.array_split(changed, -(-image.size // AT_ONCE))])
    differs = np.abs(outputs - first) > CHANGED * np.abs(first).max()
    reached = differs.reshape(*image.shape[1:], *first.shape[1:])
    return np.asarray(reached[..., reached.any(axis=(0, 1, 2, 4)), :])


def _judged(cut: _Cut) -> Match | None:
    """Return the mistake, no mistake, or `None` if the layer does something else."""
    tokens = np.moveaxis(_any(cut.reaches, 4), 3, 0)  # (N, R, C, channels)
    number, channels = len(tokens), tokens.shape[3]
    if (tokens.sum(axis=0) > 1).any():
        return _of_features(_any(cut.reaches, 2))
    if not _any(tokens, 0).all() or number < FEWEST:
        return None
    if channels > 1 and (_any(tokens, (1, 2)).sum(axis=1) == 1).all():  # each token is of one channel
        return None
    areas = _any(tokens, 3)
    rectangles = [_rectangle(one) for one in areas]
    sides = {one[2:] for one in rectangles}
    mixes_channels = (tokens != areas[..., None]).any()
    if mixes_channels or (cut.stated and sides != {(cut.stated, cut.stated)}):
        return shown("patches-mixed", "A token of it reads parts of several patches.")
    if len(sides) > 1 or (0, 0) in sides or not _is_shared(cut, *rectangles[0][2:]):
        return None
    (rows, columns), places = rectangles[0][2:], [one[:2] for one in rectangles]
    order = "rows first" if places == sorted(places) else "in another order than rows first"
    return Match((), 0.0, 0, f"Each token reads one patch of {rows} × {columns} pixels, {order}, by the same weights.")


def _any(array: Array, axes: int | tuple[int, ...]) -> Array:
    return np.asarray(np.any(array, axis=axes))


def _of_features(reached: Array) -> Match | None:
    """Return the mistake that features of a token read different patches, or `None`.

    Args:
        reached: Which features of which tokens each pixel reaches, (R, C, N, D).
    """
    areas = np.moveaxis(reached, (2, 3), (0, 1)).reshape(-1, *reached.shape[:2])
    areas = areas[_any(areas, (1, 2))]
    if areas.mean(axis=(1, 2)).max() > LOCAL or any(_rectangle(one)[2:] == (0, 0) for one in areas):
        return None
    flat = reached.reshape(-1, *reached.shape[2:]).astype(int)  # (R · C, N, D)
    common = np.einsum("pnd,pne->nde", flat, flat)  # how many pixels two features of a token share
    if (common == 0).any(axis=(1, 2)).mean() < HALF:
        return None
    return shown("patches-mixed", "The features of a token of it read different patches.")


def _is_shared(cut: _Cut, rows: int, columns: int) -> bool:
    """Return whether all tokens change by the same if all patches do."""
    height, width, channels = cut.reaches.shape[:3]
    patches = np.random.default_rng(1).normal(size=(2, rows, columns, channels))
    outputs = cut.call(np.tile(patches, (1, height // rows, width // columns, 1)))
    moved = outputs[1] - outputs[0]
    moved = moved[np.abs(moved).max(axis=1) > 0]  # without tokens that no image changes
    return bool(np.allclose(moved, moved[:1], atol=1e-4 * np.abs(moved).max()))


def _rectangle(inside: Array) -> tuple[int, int, int, int]:
    """Return the first row and column, and the numbers of rows and columns of a rectangle, or zeros if it is none."""
    rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    if not len(rows) or inside[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].sum() != inside.sum():
        return 0, 0, 0, 0
    height, width = int(rows[-1] - rows[0] + 1), int(columns[-1] - columns[0] + 1)
    return (int(rows[0]), int(columns[0]), height, width) if inside.sum() == height * width else (0, 0, 0, 0)
