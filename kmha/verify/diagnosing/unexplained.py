"""Of a mistake that the bank does not know: the first step that departs, the smallest case, the pattern.

A candidate shows no steps, but cases that leave steps out show which one it is: with one key every score is 1, so what
is wrong there is on the way of the values; without a mask the mask is not it; and scores, where they are returned, are
a step of their own.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import patterns
from kmha.verify.diagnosing.measuring import Asked, apart
from kmha.verify.diagnosing.subjects import Subject
from kmha.verify.diagnosing.trials import Sizes

VALUES = "the way of the values: value projection, mix, merge or output bias"
LOGITS = "the logits: query or key projection, their product, the scale, or the softmax"
AFTER = "after the scores: dropout, mix, merge or output bias"
BLOCK = "the sublayers: attention, feed-forward network, residual connections or normalizations"
RETURNED = "the scores that are returned: the output is right"
CHANGED = "what it leaves of its inputs: it changes them in place"
MASK = "the mask, or how it is combined"
TRAINING = "dropout, or what else training changes"
FLOAT16 = "the range or precision of float16"


@dataclasses.dataclass(frozen=True, eq=False)
class Clue:
    """What can be said of an unknown mistake.

    Attributes:
        step: the first that departs.
        pattern: sentences about the difference.
    """

    step: str
    pattern: tuple[str, ...]


def clues(subject: Subject, sizes: Sizes, asked: Sequence[Asked]) -> Clue:
    """All that can be found out with further calls."""
    wrong = [one for one in asked if one.wrong]
    shown = min(wrong, key=plainness)
    found = patterns.sentences(shown, shown.right["output"], shown.right.get("returned"))
    if not shown.trial.training and not _repeats(subject, shown):
        found.insert(0, "called twice with the same, it gives two results: something random is on, or it keeps a state")
    return Clue(first_step(subject, sizes, asked, wrong), tuple(found))


def _repeats(subject: Subject, one: Asked) -> bool:
    again = subject.answer(one.trial)
    return not again.raised and np.array_equal(again.output, one.answer.output, equal_nan=True)


def plainness(one: Asked) -> tuple[Any, ...]:
    """The smaller, the less is special about it."""
    trial = one.trial
    extreme = "large" in trial.name or trial.dtype != "float64"
    everywhere = trial.masked and bool((~trial.allowed()).any(-1).all())  # no row sees everything
    return bool(trial.rate), extreme, trial.masked, everywhere, trial.query.size


def first_step(subject: Subject, sizes: Sizes, asked: Sequence[Asked], wrong: Sequence[Asked]) -> str:
    """The first step of the chain that departs, as far as it can be told."""
    if subject.chain != "attention":
        return MASK if all(one.trial.masked for one in wrong) else BLOCK
    plain = [one for one in wrong if not one.trial.masked and not one.trial.training and one.trial.dtype == "float64"]
    if not plain:
        masked = [one for one in wrong if not one.trial.training and one.trial.dtype == "float64"]
        return MASK if masked else TRAINING if any(one.trial.training for one in wrong) else FLOAT16
    shown = min(plain, key=plainness)
    scores = shown.answer.scores
    scores_right = scores is not None and apart(scores, shown.right["returned"]) <= shown.limit
    if apart(shown.answer.output, shown.right["output"]) <= shown.limit:
        return RETURNED if scores is not None and not scores_right else CHANGED
    single = _with_one_key(subject, sizes)
    if single is not None and apart(single.answer.output, single.right["output"]) > single.limit:
        return VALUES
    return AFTER if scores_right else LOGITS


def _with_one_key(subject: Subject, sizes: Sizes) -> Asked | None:
    """A trial with one key and one query, if the candidate answers it."""
    small = dataclasses.replace(sizes, rows=1, columns=1)
    one = subject.ask(next(subject.each(1, small)))
    return None if one.answer.raised else one


def smallest(subject: Subject, sizes: Sizes, asked: Sequence[Asked]) -> Asked | None:
    """The smallest sizes with which the plainest trial that went wrong still does."""
    wrong = [one for one in asked if one.wrong and not one.trial.rate]
    if not wrong:
        return None
    name = min(wrong, key=plainness).trial.name
    for small in subject.smaller(sizes):
        try:
            trial = next((trial for trial in subject.each(2, small) if trial.name == name), None)
        except (ValueError, IndexError):  # too small for some trial
            continue
        if trial is None:
            continue
        one = subject.ask(_short(trial, subject.weights is None))
        if not one.answer.raised and one.wrong:
            return one
    return None


def _short(trial: Trial, free: bool) -> Trial:
    """With numbers of two decimals, to be printed; but for weights that a candidate holds."""
    weights = {name: np.round(array, 2) if free else array for name, array in trial.weights.items()}
    return trial.with_inputs(lambda array: np.round(array, 2), weights=weights)
