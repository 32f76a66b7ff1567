"""What is wrong with this attention layer? Its numbers are compared with those that each known mistake would give.

>>> import numpy as np
>>> def attention(query, key, value, mask=None):
...     logits = query @ np.swapaxes(key, -1, -2)
...     logits = logits if mask is None else np.where(mask, logits, -1e9)
...     scores = np.exp(logits - logits.max(-1, keepdims=True))
...     scores = scores / scores.sum(-1, keepdims=True)
...     return scores @ value, scores
>>> found = diagnose(attention)
>>> found.ids, found.mistakes[0].says
(('scale-missing',), 'The logits are not divided by √O.')
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.calling import SubjectError
from kmha.verify.diagnosing.conventions import MEANINGS, SINGLE, Convention
from kmha.verify.diagnosing.matching import Match
from kmha.verify.diagnosing.measuring import Asked
from kmha.verify.diagnosing.reproduction import script
from kmha.verify.diagnosing.settling import settle
from kmha.verify.diagnosing.subject_functions import FunctionSubject
from kmha.verify.diagnosing.subjects import Subject
from kmha.verify.diagnosing.trials import Sizes
from kmha.verify.diagnosing.unexplained import Clue, clues, smallest
from kmha.verify.mistakes import Mistake

RIGHT, KNOWN, UNKNOWN, RAISES = "right", "known", "unknown", "raises"


@dataclasses.dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found.

    Attributes:
        name: of the candidate.
        verdict: "right"; "known", if mistakes of the bank give its numbers; "unknown", if it is wrong and they do not;
            "raises", if it cannot be run.
        matches: all explanations that fit equally well, the simplest first.
        nearest: the best of those that do not fit, as a measure of how sure it is.
        asked: all trials with the candidate's answers.
        clue: of an unknown mistake: the first step that departs, and the pattern of the difference.
        smallest: the smallest case that shows that it is wrong.
        sizes: of the trials.
        convention: what the signature did not tell.
        subject: the candidate.
        seed: that everything was drawn with.
        otherwise: another shape of its inputs, with which it makes a known mistake; with what was tried it is right.
        in_float16: what is wrong in float16, of one that is right otherwise, and need not be right there.
    """

    name: str
    verdict: str
    matches: tuple[Match, ...]
    asked: tuple[Asked, ...]
    sizes: Sizes
    convention: Convention
    subject: Subject
    seed: int
    nearest: Match | None = None
    clue: Clue | None = None
    smallest: Asked | None = None
    otherwise: str | None = None
    in_float16: "Diagnosis | None" = None

    @property
    def right(self) -> bool:
        return self.verdict == RIGHT

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        return self.matches[0].mistakes if self.matches else ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the simplest explanation."""
        return tuple(mistake.id for mistake in self.mistakes)

    def code(self) -> str:
        """A script that shows the smallest case; empty where there is none."""
        return script(self.smallest, self.subject.code(self.smallest.trial)) if self.smallest else ""

    @property
    def raised(self) -> dict[str, str]:
        """The candidate's errors by the names of the trials."""
        return {one.trial.name: one.answer.raised for one in self.asked if one.answer.raised}

    @property
    def wrong(self) -> dict[str, float]:
        """How far it is from right, by the names of the trials in which it is not."""
        return {one.trial.name: one.far for one in self.asked if one.wrong and not one.answer.raised}


def diagnose(
    candidate: Any,
    *,
    arguments: Mapping[str, Any] | None = None,
    mask: str = "attends",
    float16: bool = False,
    seed: int = 0,
    source: str = "",
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Runs a candidate on inputs that separate, and names its mistake.

    Args:
        candidate: a Keras layer or a torch module, as a class or as it is; or a function of arrays of NumPy,
            TensorFlow, torch or JAX, with or without weights among its arguments.
        arguments: for its constructor, or for the function, by name: what its names do not tell.
        mask: "attends" if True (or 1) in its mask means *attend*; "hides" if it means *hide*; "adds" if the mask is
            added to the logits, 0 where allowed.
        float16: whether it must be right in float16 too. If not, what is wrong there is told apart, as `in_float16`:
            code that is right otherwise easily overflows there.
        seed: of sizes, weights and inputs.
        source: MODULE:NAME, from where the code that shows the mistake imports the candidate.
        progress: called with what is being done.

    Raises:
        ValueError: the candidate cannot be called; it says which argument or weight is not understood, and the remedy.
    """
    tell = progress or (lambda _: None)
    subject = subject_of(candidate, arguments or {}, mask)
    subject.source = source
    tell("trying how it wants to be called")
    settled = settle(subject, seed)
    tell("running it")
    asked = tuple(subject.ask(trial) for trial in settled.drawn)
    half = () if float16 else tuple(one for one in asked if one.trial.dtype == "float16")
    asked = tuple(one for one in asked if one not in half)
    if subject.unread is not None and all(one.answer.raised for one in asked):
        raise SubjectError(f"{subject.name}: {subject.unread}")
    sizes = settled.sizes
    if settled.convention.entry == SINGLE:
        sizes = dataclasses.replace(sizes, batch=1)
    found = _judged(subject, sizes, asked, seed, tell)
    if not found.right:
        return found
    return dataclasses.replace(found, otherwise=settled.otherwise, in_float16=_in_float16(found, half))


def subject_of(candidate: Any, arguments: Mapping[str, Any], mask: str = "attends") -> Subject:
    """The candidate, ready to be asked."""
    if mask not in MEANINGS:
        raise ValueError(
            "mask must be 'attends' or 'hides', what True (or 1) in a mask means, or 'adds' for one that is added to "
            f"the logits. Received: {mask!r}."
        )
    name = getattr(candidate, "__qualname__", None) or getattr(candidate, "name", None) or "candidate"
    name = "candidate" if "<lambda>" in name else str(name).split("<locals>.")[-1]
    if isinstance(candidate, type) or any(hasattr(candidate, method) for method in ("call", "forward")):
        from kmha.verify.diagnosing.subject_blocks import BlockSubject, chain_of
        from kmha.verify.diagnosing.subject_layers import LayerSubject

        subject = LayerSubject(candidate, name, arguments, mask)
        if chain_of(subject.made_roles, subject.roles) == "attention":
            return subject
        return BlockSubject(candidate, name, arguments, mask)
    if callable(candidate):
        return FunctionSubject(candidate, name, arguments, mask)
    raise SubjectError(f"expected a layer or a function. Received: {candidate!r}.")


def _judged(
    subject: Subject, sizes: Sizes, asked: tuple[Asked, ...], seed: int, tell: Callable[[str], None]
) -> Diagnosis:
    answered = [one for one in asked if not one.answer.raised]
    found: dict[str, Any] = {
        "name": subject.name,
        "seed": seed,
        "asked": asked,
        "sizes": sizes,
        "convention": subject.convention,
        "subject": subject,
    }
    if not answered:
        return Diagnosis(verdict=RAISES, matches=(), **found)
    right = matching.judge(answered)
    if right.trials == len(answered):
        return Diagnosis(verdict=RIGHT, matches=(right,), **found)
    tell("comparing it with every known mistake")
    fitting, found["nearest"] = matching.ranked(answered, subject.chain)
    if not fitting and any(_tells(one) for one in answered):
        tell("comparing it with every pair of them")
        fitting = matching.pairs(answered, subject.chain)
    tell("looking for the smallest case")
    found["smallest"] = smallest(subject, sizes, answered)
    if fitting:
        return Diagnosis(verdict=KNOWN, matches=tuple(fitting), **found)
    tell("looking for what its difference has in common")
    clue = clues(subject, sizes, answered)
    return Diagnosis(verdict=UNKNOWN, matches=(), clue=clue, **found)


def _tells(one: Asked) -> bool:
    """Whether it is wrong with numbers that differ: zeros alone, or NaN, some pair gives whatever was done."""
    finite = np.unique(one.answer.output[np.isfinite(one.answer.output)])
    return finite.size > 1 and one.wrong


def _in_float16(found: Diagnosis, half: tuple[Asked, ...]) -> Diagnosis | None:
    """Of one that is right otherwise: what is wrong in float16."""
    answered = [one for one in half if not one.answer.raised]
    if not any(one.wrong for one in answered):
        return None
    fitting, nearest = matching.ranked(answered, found.subject.chain)
    verdict = KNOWN if fitting else UNKNOWN
    return dataclasses.replace(found, verdict=verdict, matches=tuple(fitting), nearest=nearest, asked=half)


__all__ = ["KNOWN", "RAISES", "RIGHT", "UNKNOWN", "Diagnosis", "diagnose", "subject_of"]
