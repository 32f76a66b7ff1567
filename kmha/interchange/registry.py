"""All layouts by name, collected from the modules of `kmha.interchange.layouts`."""

import difflib
import importlib
import pkgutil

from kmha.interchange import layouts
from kmha.interchange.errors import LayoutError
from kmha.interchange.layout import Layout


def _collected() -> dict[str, Layout]:
    found: dict[str, Layout] = {}
    modules = sorted(module.name for module in pkgutil.iter_modules(layouts.__path__))
    for module in sorted(modules, key=lambda name: name != "ours"):  # kmha's own layouts come first
        for layout in importlib.import_module(f"{layouts.__name__}.{module}").LAYOUTS:
            if layout.name in found:
                raise ValueError(f"Two layouts are named {layout.name!r}; the second is in {module}.py.")
            found[layout.name] = layout
    return found


LAYOUTS: dict[str, Layout] = _collected()


def find(layout: str | Layout) -> Layout:
    """Return the layout with this name. A `Layout` is returned unchanged.

    Raises:
        LayoutError: No layout has this name.
    """
    if isinstance(layout, Layout):
        return layout
    if layout not in LAYOUTS:
        near = difflib.get_close_matches(layout, LAYOUTS, 1)
        hint = f" Is it {near[0]!r}?" if near else ""
        raise LayoutError(f"There is no layout {layout!r}.{hint} There are: {', '.join(LAYOUTS)}.")
    return LAYOUTS[layout]
