"""Find attention that is causal by its name alone."""

import re
from collections.abc import Sequence
from typing import Any

from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.verdicts import Finding

CAUSAL = re.compile("(?<!non)(?<!non_)(causal|autoregressive)", re.IGNORECASE)
ASKED_FOR = re.compile("mask|causal|autoregressive|bias|past|cache", re.IGNORECASE)  # what may make a layer causal


def find(candidate: Candidate, results: Sequence[TrialResult]) -> Finding | None:
    """Return a finding if a candidate is called causal, but is not, and nothing that it is given could make it so."""
    layer: Any = candidate
    asked = {**getattr(layer, "constructor_parameters", {}), **candidate.call_parameters}
    held = vars(layer.thing) if hasattr(layer, "thing") and not isinstance(layer.thing, type) else {}
    if not CAUSAL.search(candidate.name) or any(ASKED_FOR.search(name) for name in (*asked, *held)):
        return None
    sees_later = [each for each in results if not (each.trial.causal or each.answer.error or each.wrong)]
    if candidate.chain not in ("attention", "encoder") or not sees_later or _is_causal(candidate):
        return None
    says = "Its name says that it is causal, but every position sees the later ones, and it takes no mask."
    return Finding(says, ("causal-missing",), conclusive=True)


def _is_causal(candidate: Candidate) -> bool:
    """Return whether the candidate is right as one that is always causal."""
    return candidate.convention.causal or any("causal" in choice for choice in candidate.convention.choices)
