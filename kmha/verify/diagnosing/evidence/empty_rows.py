"""State that a candidate returns NaN for rows with nothing to attend to.

This is no mistake, because nothing says what such a row should be, but the caller must know of it: NaN spreads to the
gradients and to the layers that follow.
"""

from collections.abc import Sequence

import numpy as np

from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.verdicts import Finding


def find(results: Sequence[TrialResult]) -> Finding | None:
    """Return a finding if every row with nothing to attend to is NaN in some call, and no other row is."""
    for result in results:
        output, empty = np.asarray(result.answer.output), result.trial.empty_rows()
        if result.answer.error or output.ndim not in (3, 4) or (output.shape[0], output.shape[-2]) != empty.shape:
            continue
        missing = np.isnan(output).all(-1) if output.ndim == 3 else np.isnan(output).all(axis=(1, -1))
        if missing.any() and not (missing & ~empty).any():
            return Finding("Rows with nothing to attend to are NaN, as in torch. Return zeros if such rows can occur.")
    return None
