"""Is this layer right, and if not, what is wrong with it?

>>> import kmha
>>> report = kmha.verify.compare(kmha.MultiHeadAttention, cases=3)
>>> report.agrees, report.cases
(True, 3)
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmha.verify.comparing.cases import Case
    from kmha.verify.comparing.comparison import compare, expect, run
    from kmha.verify.comparing.report import Report
    from kmha.verify.diagnosing.diagnosis import Diagnosis, diagnose
    from kmha.verify.probing.probes import probe
    from kmha.verify.probing.report import Probes

# `reference` must stay importable without Keras, so the rest arrives when it is first used.
_HOMES = {
    "Case": "comparing.cases",
    "Diagnosis": "diagnosing.diagnosis",
    "Probes": "probing.report",
    "Report": "comparing.report",
    "compare": "comparing.comparison",
    "diagnose": "diagnosing.diagnosis",
    "expect": "comparing.comparison",
    "probe": "probing.probes",
    "run": "comparing.comparison",
}
__all__ = ["Case", "Diagnosis", "Probes", "Report", "compare", "diagnose", "expect", "probe", "run"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module = importlib.import_module(f"kmha.verify.{_HOMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'kmha.verify' has no attribute {name!r}. It has: {', '.join(__all__)}.")
