"""Check an attention layer: `compare` it with the built-in and a reference, `diagnose` a mistake, `probe` properties.

>>> import kmha
>>> report = kmha.verify.compare(kmha.MultiHeadAttention, cases=3)
>>> report.agrees, report.cases
(True, 3)
"""

from typing import TYPE_CHECKING

from kmha import lazy

if TYPE_CHECKING:
    from kmha.verify.comparing.cases import Case
    from kmha.verify.comparing.comparison import compare, expect, run
    from kmha.verify.comparing.report import Report
    from kmha.verify.diagnosing.caches.decoding import Decoding
    from kmha.verify.diagnosing.diagnosis import Diagnosis, diagnose
    from kmha.verify.probing.probes import probe
    from kmha.verify.probing.report import Probes

__all__ = ["Case", "Decoding", "Diagnosis", "Probes", "Report", "compare", "diagnose", "expect", "probe", "run"]
# Lazy, because `reference` must be importable without Keras.
lazy.attach(
    __name__,
    {
        "Case": "comparing.cases",
        "Decoding": "diagnosing.caches.decoding",
        "Diagnosis": "diagnosing.diagnosis",
        "Probes": "probing.report",
        "Report": "comparing.report",
        "compare": "comparing.comparison",
        "diagnose": "diagnosing.diagnosis",
        "expect": "comparing.comparison",
        "probe": "probing.probes",
        "run": "comparing.comparison",
    },
)
