"""The shapes in which an attention layer may hold a weight, and the way from and to the canonical one.

A form is a pattern: each group between commas is one axis, with the letters that are laid side by side in it. "I,HO" is
a `Dense` kernel of all heads; "HO,I" is that of torch's `Linear`; "I,3HO" is query, key and value packed.
"""

import math
from collections.abc import Mapping

import numpy as np

# One small kernel for all heads, each of which has its P = I/H of the features.
SHARED, SHARED_BIAS = ("P,O", "O,P"), "O"
KERNELS = ("H,I,O", "I,H,O", "I,HO", "HO,I", "H,O,I")
BIASES = ("H,O", "HO", "1,1,HO", "1,HO", "H,1,O", "1,1,H,O")
OUTPUT_KERNELS = ("H,O,E", "HO,E", "E,HO", "E,H,O")
OUTPUT_BIASES = ("E", "1,1,E", "1,E")
# The order of query, key and value (3), heads and features within a head differs.
PACKED = ("I,3HO", "3HO,I", "3,I,HO", "3,H,I,O", "I,3,H,O", "I,H3O", "H3O,I", "I,HO3", "HO3,I")
PACKED_BIASES = ("3HO", "3,HO", "3,H,O", "H3O", "HO3")
PACKS = {"packed": ("query", "key", "value"), "key_value": ("key", "value")}
ORDERS = ("3HO", "H3O", "HO3")


def names(role: str, is_bias: bool) -> tuple[str, ...]:
    """The forms of a projection's kernel or bias, the likeliest first."""
    if role in PACKS:
        count = str(len(PACKS[role]))
        return tuple(form.replace("3", count) for form in (PACKED_BIASES if is_bias else PACKED))
    if role == "attention_output":
        return OUTPUT_BIASES if is_bias else OUTPUT_KERNELS
    return (*BIASES, SHARED_BIAS) if is_bias else (*KERNELS, *SHARED)


def shape(form: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape that a form has with these sizes.

    >>> shape("I,3HO", {"H": 2, "O": 5, "I": 7})
    (7, 30)
    """
    return tuple(math.prod(_size(letter, sizes) for letter in axis) for axis in form.split(","))


def _size(letter: str, sizes: Mapping[str, int]) -> int:
    return int(letter) if letter.isdigit() else sizes[letter]


def order(form: str) -> str:
    """Of a packed form: query, key and value (3; or 2 of them), heads and features, from the outermost.

    >>> order("3,I,HO"), order("H2O,I")
    ('3HO', 'H3O')
    """
    return form.replace(",", "").replace("I", "").replace("2", "3")


def is_transposed(form: str) -> bool:
    """Whether it is a matrix (out, in).

    >>> is_transposed("I,HO"), is_transposed("HO,I"), is_transposed("E,HO")
    (False, True, True)
    """
    return form.split(",")[-1] in ("I", "P") or form == "E,HO"


def fitting(actual: tuple[int, ...], candidates: tuple[str, ...], sizes: Mapping[str, int]) -> list[str]:
    """The forms among `candidates` that have the shape `actual`."""
    return [form for form in candidates if shape(form, sizes) == tuple(actual)]


def fill(canonical: np.ndarray, letters: str, form: str) -> np.ndarray:
    """From the canonical array, whose axes are `letters`, to a form.

    >>> fill(np.zeros((2, 7, 5)), "HIO", "I,HO").shape
    (7, 10)
    """
    order = [letter for letter in form.replace(",", "") if letter != "1"]
    moved = np.transpose(canonical, [letters.index(letter) for letter in order])
    sizes = dict(zip(letters, canonical.shape, strict=True))
    return moved.reshape([math.prod(1 if x == "1" else sizes[x] for x in axis) for axis in form.split(",")])


def read(array: np.ndarray, letters: str, form: str, sizes: Mapping[str, int]) -> np.ndarray:
    """The way back: to the canonical array with the axes `letters`.

    >>> read(np.zeros((7, 10)), "HIO", "I,HO", {"H": 2, "I": 7, "O": 5}).shape
    (2, 7, 5)
    """
    order = [letter for letter in form.replace(",", "") if letter != "1"]
    split = np.reshape(array, [_size(letter, sizes) for letter in order])
    return np.transpose(split, [order.index(letter) for letter in letters])
