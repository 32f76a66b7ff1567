"""Of a mistake that the bank does not know: the first step that departs, the smallest case, the pattern.

A candidate shows no steps, but cases that leave steps out show which one it is: with one key every score is 1, so what
is wrong there is on the way of the values; without a mask the mask is not it; and scores, where they are returned, are
a step of their own.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from kmha.verify import matching, patterns, trials
from kmha.verify.chain import ROLES, Trial, run
from kmha.verify.matching import Asked
from kmha.verify.subjects import Subject
from kmha.verify.trials import Sizes

VALUES = "the way of the values: value projection, mix, merge or output bias"
LOGITS = "the logits: query or key projection, their product, the scale, or the softmax"
AFTER = "after the scores: dropout, mix, merge or output bias"
BLOCK = "the sublayers: attention, feed-forward network, residual connections or normalizations"
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
    wrong = [one for one in asked if matching.distance(one) > one.limit]
    shown = min(wrong, key=_plainness)
    state = run(shown.trial)
    return Clue(
        first_step(subject, sizes, asked, wrong),
        tuple(patterns.sentences(shown, state["output"], state.get("returned"))),
    )


def _plainness(one: Asked) -> tuple[bool, bool, bool, int]:
    """The smaller, the less is special about it."""
    extreme = "large" in one.trial.name or one.trial.dtype != "float64"
    return one.trial.training, extreme, one.trial.masked, one.trial.query.size


def first_step(subject: Subject, sizes: Sizes, asked: Sequence[Asked], wrong: Sequence[Asked]) -> str:
    """The first step of the chain that departs, as far as it can be told."""
    if subject.chain != "attention":
        return MASK if all(one.trial.masked for one in wrong) else BLOCK
    plain = [one for one in wrong if not one.trial.masked and not one.trial.training and one.trial.dtype == "float64"]
    if not plain:
        masked = [one for one in wrong if not one.trial.training and one.trial.dtype == "float64"]
        return MASK if masked else TRAINING if any(one.trial.training for one in wrong) else FLOAT16
    single = _with_one_key(subject, sizes)
    if single is not None and matching.distance(single) > single.limit:
        return VALUES
    scores = plain[0].answer.scores
    if scores is not None and matching.apart(scores, run(plain[0].trial)["returned"]) <= plain[0].limit:
        return AFTER
    return LOGITS


def _with_one_key(subject: Subject, sizes: Sizes) -> Asked | None:
    """A trial with one key and one query, if the candidate answers it."""
    small = dataclasses.replace(sizes, rows=1, columns=1)
    trial = trials.draw(1, _unmasked(subject), small, subject.weights, core=subject.core)[0]
    one = Asked(trial, subject.answer(trial))
    return None if one.answer.raised else one


def _unmasked(subject: Subject) -> trials.Accepts:
    return dataclasses.replace(subject.accepts, mask=False, causal=False, padding=False, training=False, half=False)


def smallest(subject: Subject, sizes: Sizes, asked: Sequence[Asked]) -> Asked | None:
    """The smallest sizes with which a trial of a kind that went wrong still does."""
    names = {one.trial.name for one in asked if matching.distance(one) > one.limit}
    for small in subject.smaller(sizes):
        try:
            drawn = subject.draw(2, small)
        except (ValueError, IndexError):  # too small for some trial
            continue
        for trial in drawn:
            if trial.name not in names or trial.training:
                continue
            one = Asked(_short(trial), subject.answer(_short(trial)))
            if not one.answer.raised and matching.distance(one) > one.limit:
                return one
    return None


def _short(trial: Trial) -> Trial:
    """With numbers of two decimals, to be printed."""
    by_id: dict[int, np.ndarray] = {}  # what was one array stays one
    rounded = {role: by_id.setdefault(id(array := getattr(trial, role)), np.round(array, 2)) for role in ROLES}
    weights = {name: np.round(array, 2) for name, array in trial.weights.items()}
    return dataclasses.replace(trial, weights=weights, **rounded)
