"""Find mistakes in how a layer keeps its sublayers, which its numbers cannot show.

One sublayer may serve two projections, or several heads, of a layer that is already built. Such a layer computes
attention with the weights that it has, and two of them are the same. A plain list of modules computes what a
`ModuleList` computes, but torch does not know its weights.
"""

from typing import Any

from kmha.verify.diagnosing import naming
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.verdicts import Finding
from kmha.verify.mistakes import BANK


def find(candidate: Candidate) -> Finding | None:
    """Return a finding if torch does not know sublayers, or two names of a built layer's projections mean one."""
    layer: Any = candidate
    for name in sorted(getattr(getattr(layer, "adapter", None), "unregistered", ())):
        return Finding(f"`{name}` is a plain list of modules.", ("parts-not-registered",), conclusive=True)
    if candidate.chain != "attention" or getattr(candidate, "weights", None) is None or not hasattr(layer, "adapter"):
        return None
    first: dict[int, str] = {}
    for variable in layer.adapter.variables(layer.thing):
        path = first.setdefault(id(variable.read), variable.path)
        used, role = naming.weight(path)[0], naming.weight(variable.path)[0]
        named = f"kernels-{used}-for-{role}" if used != role else "heads-all-first"
        if path != variable.path and named in BANK:
            return Finding(f"`{path}` and `{variable.path}` are one array.", (named,), conclusive=True)
    return None
