"""Is this layer right, and if not, what is wrong with it?

>>> import kmha
>>> report = kmha.verify.compare(kmha.MultiHeadAttention, cases=3)
>>> report.agrees, report.cases
(True, 3)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmha.verify.cases import Case
    from kmha.verify.comparison import compare, expect, run
    from kmha.verify.diagnosis import Diagnosis, diagnose
    from kmha.verify.probes import probe
    from kmha.verify.probing.report import Probes
    from kmha.verify.report import Report

# `reference` must stay importable without Keras, so the rest arrives when it is first used.
_HOMES = {
    "Case": "cases",
    "Diagnosis": "diagnosis",
    "Probes": "probing.report",
    "Report": "report",
    "compare": "comparison",
    "diagnose": "diagnosis",
    "expect": "comparison",
    "probe": "probes",
    "run": "comparison",
}
__all__ = ["Case", "Diagnosis", "Probes", "Report", "compare", "diagnose", "expect", "probe", "run"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module = importlib.import_module(f"kmha.verify.{_HOMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'kmha.verify' has no attribute {name!r}. It has: {', '.join(__all__)}.")
