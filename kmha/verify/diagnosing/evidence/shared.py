"""Find one sublayer that serves two projections, or several heads, of a layer that is already built.

The numbers cannot show it. Such a layer computes attention with the weights that it has, and two of them are the same.
"""

from typing import Any

from kmha.verify.diagnosing import naming
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.verdicts import Finding
from kmha.verify.mistakes import BANK


def find(candidate: Candidate) -> Finding | None:
    """Return a finding if two names of a built layer's projections mean one sublayer."""
    layer: Any = candidate
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
