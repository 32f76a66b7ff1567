"""All layouts, by name: the tables of the modules that are listed here."""

import difflib
import importlib

from kmha.interchange.errors import LayoutError
from kmha.interchange.layout import Layout

MODULES = ("ours", "keras", "addons", "torch", "torch_blocks", "d2l", "heads", "flax", "keras_hub", "hugging_face")


def _collected() -> dict[str, Layout]:
    layouts: dict[str, Layout] = {}
    for module in MODULES:
        for layout in importlib.import_module(f"kmha.interchange.{module}").LAYOUTS:
            if layout.name in layouts:
                raise ValueError(f"Two layouts are named {layout.name!r}.")
            layouts[layout.name] = layout
    return layouts


LAYOUTS: dict[str, Layout] = _collected()


def find(layout: str | Layout) -> Layout:
    """The layout of that name; a `Layout` is what it is.

    Raises:
        LayoutError: there is none.
    """
    if isinstance(layout, Layout):
        return layout
    if layout not in LAYOUTS:
        near = difflib.get_close_matches(layout, LAYOUTS, 1)
        hint = f" Is it {near[0]!r}?" if near else ""
        raise LayoutError(f"There is no layout {layout!r}.{hint} There are: {', '.join(LAYOUTS)}.")
    return LAYOUTS[layout]
