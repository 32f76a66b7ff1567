"""Convert weights between layouts: a dict of arrays in, a dict of arrays out. `canonical` is the layout in the middle.

- `convert(weights, source, target, num_heads=…, fold=…)` converts arrays by name, bit for bit; `to_canonical` and
  `from_canonical` are its two halves. All three return a dict that also has `notes`.
- `LAYOUTS` holds all layouts by name; `layouts/__init__.py` explains how to add one.
- `recognize(weights)` finds the layouts that fit the names and shapes.
- `split_heads` and `join_heads` turn one big kernel into h small ones and back.
- All these functions raise `LayoutError`, a `ValueError` that says what was expected and what was received.

>>> import numpy as np
>>> from kmha.interchange import convert, recognize
>>> weights = {"in_proj_weight": np.random.rand(18, 6), "out_proj.weight": np.random.rand(6, 6)}
>>> recognize(weights)[0]
Reading(layout='torch', prefix='', heads=(1, 2, 3, 6), same_as=())
>>> {name: array.shape for name, array in convert(weights, "torch", "ours", num_heads=3).items()}["value/kernel"]
(3, 6, 2)
"""

from typing import TYPE_CHECKING

from kmha import lazy

if TYPE_CHECKING:
    from kmha.interchange.conversion import Converted, convert, from_canonical, to_canonical
    from kmha.interchange.errors import LayoutError
    from kmha.interchange.heads import join_heads, split_heads
    from kmha.interchange.layout import Constant, Entry, Ignored, Layout, Refused, Rule, at
    from kmha.interchange.recognition import Reading, recognize
    from kmha.interchange.registry import LAYOUTS

_HOMES = {
    **dict.fromkeys(("Converted", "convert", "from_canonical", "to_canonical"), "conversion"),
    **dict.fromkeys(("Constant", "Entry", "Ignored", "Layout", "Refused", "Rule", "at"), "layout"),
    **dict.fromkeys(("Reading", "recognize"), "recognition"),
    **dict.fromkeys(("join_heads", "split_heads"), "heads"),
    "LAYOUTS": "registry",
    "LayoutError": "errors",
}
__all__ = [
    "LAYOUTS",
    "Constant",
    "Converted",
    "Entry",
    "Ignored",
    "Layout",
    "LayoutError",
    "Reading",
    "Refused",
    "Rule",
    "at",
    "convert",
    "from_canonical",
    "join_heads",
    "recognize",
    "split_heads",
    "to_canonical",
]

lazy.attach(__name__, _HOMES)
