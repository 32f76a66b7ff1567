"""Find out whether a candidate differs only because it hides logits with a number such as -1,000 or -5,000.

In the trials, logits are either ordinary, so that such a number hides them, or tens of thousands, so that it does not.
In a trained model, logits may differ by a hundred, but not by a thousand.
"""

from collections.abc import Sequence

from kmha.verify.chains.attention import Trial, run
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import Match, TrialResult
from kmha.verify.diagnosing.trials import multiply_logits, to_be_hidden
from kmha.verify.diagnosing.unknown_mistakes import plainness
from kmha.verify.mistakes import BANK

ID = "mask-number-in-thousands"
SIZES = (110.0, 950.0)  # how far logits have to be hidden: -100 is too little, and -1,000 is enough


def with_low_fill(candidate: Candidate, results: Sequence[TrialResult], fitting: Sequence[Match]) -> list[Match]:
    """Return the explanations, with the low number first if logits of a few hundreds are hidden."""
    wrong = [result for result in results if result.wrong]
    if fitting and fitting[0].harmless:
        return list(fitting)
    if candidate.chain != "attention" or not all("large" in each.trial.name and each.trial.masked for each in wrong):
        return list(fitting)
    trial = _of_hundreds(results)
    if trial is None or TrialResult(trial, candidate.answer(trial)).wrong:
        return list(fitting)
    says = f"It hides logits in the hundreds: all calls but {len(wrong)} with logits of tens of thousands are right."
    return [Match((BANK[ID],), 0.0, len(results), because=says), *fitting]


def _of_hundreds(results: Sequence[TrialResult]) -> Trial | None:
    """Return a trial with a mask whose hidden logits must be lowered by hundreds, but nowhere by a thousand."""
    masked = [each for each in results if each.trial.masked and each.trial.dtype == "float64" and not each.answer.error]
    masked = [each for each in masked if not (each.trial.rate or each.trial.empty_rows().any())]
    for result in sorted(masked, key=plainness):
        trial = result.trial
        for _ in range(3):  # again because of the biases, which the factor does not multiply
            trial = multiply_logits(trial, 0.9 * SIZES[1] / max(_needed(trial)))
        least, most = sorted(_needed(trial))
        if SIZES[0] < least and most < SIZES[1]:
            return trial
    return None


def _needed(trial: Trial) -> tuple[float, ...]:
    """Return the largest number that a fill has to exceed, and the largest that a number to be added has to."""
    return tuple(float(each.max(initial=1.0)) for each in to_be_hidden(run(trial)))
