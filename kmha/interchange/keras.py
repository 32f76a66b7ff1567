"""`keras.layers.MultiHeadAttention` and `GroupQueryAttention`: the canonical names, kernels (I, H, O) for (H, I, O).

>>> import keras, kmha, numpy as np
>>> from kmha.interchange import canonical
>>> theirs, ours = keras.layers.MultiHeadAttention(3, 5), kmha.MultiHeadAttention(3, 5)
>>> target, enc_output = np.ones((2, 7, 4)), np.ones((2, 11, 6))
>>> expected, _ = theirs(target, enc_output), ours(target, enc_output)
>>> canonical.write(ours, from_builtin(canonical.read(theirs)))
>>> bool(np.allclose(ours(target, enc_output), expected, atol=1e-6))
True
"""

from collections.abc import Mapping
from typing import Any

from kmha.interchange import reading, writing
from kmha.interchange.canonical import Weights
from kmha.interchange.layout import Entry, Layout

_NO_GATE = "`GroupQueryAttention` has no gate"


def _into(role: str, letters: str, *groups: str) -> tuple[Entry, Entry]:
    """Kernel and bias of a projection into heads, whose canonical kernel has these three letters."""
    heads, wide, size = tuple(letters)
    kernel = f"{wide} {heads} {size} -> {heads} {wide} {size}"
    return (
        Entry(f"{role}/kernel", f"{role}/kernel", kernel, groups),
        Entry(f"{role}/bias", f"{role}/bias", f"{heads} {size} -> {heads} {size}", (*groups, "bias")),
    )


def _out(letters: str) -> tuple[Entry, Entry]:
    kernel = f"{' '.join(letters)} ... -> {' '.join(letters)} ..."
    return (
        Entry("attention_output/kernel", "attention_output/kernel", kernel),
        Entry("attention_output/bias", "attention_output/bias", "... -> ...", "bias"),
    )


ATTENTION = (
    *_into("query", "HIO"),
    *_into("key", "HJO"),
    *_into("gate", "HIV", "gate"),
    *_into("value", "HKV"),
    *_out("HV"),
)
BUILTIN = Layout("keras", "keras.layers.MultiHeadAttention: kernels (in, heads, head size)", ATTENTION)
LAYOUTS = (
    BUILTIN,
    Layout(
        "keras-grouped",
        "keras.layers.GroupQueryAttention: fewer heads for keys and values, (in, heads, head size)",
        (*_into("query", "HIO"), *_into("key", "GJO"), *_into("value", "GKO"), *_out("HO")),
        refusals={"gate/kernel": _NO_GATE, "gate/bias": _NO_GATE},
    ),
)


def from_builtin(weights: Mapping[str, Any]) -> Weights:
    """Weights of the built-in layer, by name, to the canonical layout.

    Raises:
        LayoutError: a name is missing or unexpected, or a shape does not fit.
    """
    return reading.read(weights, BUILTIN, None)[0]


def to_builtin(weights: Mapping[str, Any]) -> Weights:
    """Weights in the canonical layout, by name, to the built-in layer's.

    Raises:
        LayoutError: a name is missing or unexpected, or a shape does not fit.
    """
    return writing.write(weights, BUILTIN)[0]
