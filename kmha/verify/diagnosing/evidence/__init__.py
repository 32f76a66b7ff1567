"""Evidence about a candidate besides the numbers of known mistakes.

Most of it comes from calling the candidate again with other inputs or weights. A finding names a mistake only if it is
certain whatever the numbers are: a candidate that drops numbers outside of training, for example, or whose output does
not depend on its inputs. Other findings are sentences for the report.
"""

from collections.abc import Sequence

from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.evidence import (
    causal_by_name,
    dropout,
    effects,
    empty_rows,
    idle_rotation,
    precision,
    randomness,
    reach,
    relative_bias,
    shared,
    some_calls,
    weights_of_one,
    window_offsets,
)
from kmha.verify.diagnosing.evidence.fitting_text import fitting_text_first
from kmha.verify.diagnosing.evidence.low_fills import with_low_fill
from kmha.verify.diagnosing.evidence.pointing import line_of
from kmha.verify.diagnosing.matching import Match, TrialResult
from kmha.verify.diagnosing.verdicts import Finding
from kmha.verify.mistakes import BANK


def before_pairs(candidate: Candidate, results: Sequence[TrialResult]) -> list[Finding]:
    """Return evidence that no pair of mistakes could replace: random numbers, half precision, a constant output."""
    found = [randomness.find(candidate, results)]
    if found == [None]:  # the numbers of a random candidate explain nothing
        found += [precision.find(candidate, results), *some_calls.find(results, candidate.chain)]
        found += [weights_of_one.find(candidate, results)]
    inputs = effects.ignored_inputs(candidate, results)
    constant = inputs if inputs is not None and inputs.ids == ("output-constant",) else None
    return [finding for finding in (*found, constant) if finding is not None]


def after_pairs(candidate: Candidate, results: Sequence[TrialResult], closest: Match | None) -> list[Finding]:
    """Return evidence about a candidate that no mistake or pair of mistakes explains."""
    some = some_calls.unmasked(results, candidate.chain) or some_calls.nearest(results, closest)
    found = [effects.ignored_inputs(candidate, results), some]
    unused = effects.unused_weights(candidate, results)
    return [finding for finding in (*found, *unused, *reach.find(candidate, results)) if finding is not None]


def of_right(candidate: Candidate, results: Sequence[TrialResult]) -> list[Finding]:
    """Return evidence about a candidate whose numbers are right."""
    causal = causal_by_name.find(candidate, results)
    positions = [each.find(candidate, results) for each in (idle_rotation, window_offsets, relative_bias)]
    found = (shared.find(candidate), causal, dropout.find(candidate, results), empty_rows.find(results), *positions)
    return [finding for finding in found if finding is not None]


def named(findings: Sequence[Finding], results: Sequence[TrialResult]) -> list[Match]:
    """Return the mistakes that conclusive findings name, as explanations of all calls."""
    return [
        Match(tuple(BANK[id] for id in finding.ids), 0.0, len(results), because=finding.says)
        for finding in findings
        if finding.conclusive and finding.ids
    ]


__all__ = [
    "Finding",
    "after_pairs",
    "before_pairs",
    "fitting_text_first",
    "line_of",
    "named",
    "of_right",
    "with_low_fill",
]
