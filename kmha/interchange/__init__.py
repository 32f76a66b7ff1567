"""Weights between layouts: a dict of arrays in, a dict of arrays out. The one layout in the middle is `canonical`.

- `convert(weights, source, target, num_heads=…, fold=…)`: arrays by name from one layout to another, bit for bit;
  `to_canonical` and `from_canonical` are its two halves. What comes back is a dict with `notes`.
- `LAYOUTS`: all layouts by name, each with a line that `says` what it is; `layout.py` tells how to add one.
- `recognize(weights)`: which layouts fit, by names and shapes.
- `split_heads`, `join_heads`: one big kernel is h kernels side by side.
- `LayoutError`: what all of them raise, a `ValueError` that says what was expected and what was found.

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

__getattr__, __dir__ = lazy.attributes(__name__, _HOMES)
