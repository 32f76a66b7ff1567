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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify import matching
from kmha.verify.matching import Answer, Asked, Match
from kmha.verify.mistakes import Mistake
from kmha.verify.reproduction import script
from kmha.verify.subject_functions import FunctionSubject
from kmha.verify.subjects import MASK_DTYPES, Convention, Subject, SubjectError
from kmha.verify.trials import Sizes
from kmha.verify.unexplained import Clue, clues, smallest

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
        answered = [one for one in self.asked if not one.answer.raised]
        far = {one.trial.name: (matching.distance(one), one.limit) for one in answered}
        return {name: distance for name, (distance, limit) in far.items() if distance > limit}


def diagnose(
    candidate: Any,
    *,
    arguments: Mapping[str, Any] | None = None,
    mask: str = "attends",
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Runs a candidate on inputs that separate, and names its mistake.

    Args:
        candidate: a Keras layer or a torch module, as a class or as it is; or a function of arrays of NumPy,
            TensorFlow, torch or JAX, with or without weights among its arguments.
        arguments: for its constructor, or for the function, by name: what its names do not tell.
        mask: "attends" if True (or 1) in its mask means *attend*; "hides" if it means *hide*.
        seed: of sizes, weights and inputs.
        progress: called with what is being done.

    Raises:
        ValueError: the candidate cannot be called; it says which argument or weight is not understood, and the remedy.
    """
    tell = progress or (lambda _: None)
    subject = subject_of(candidate, arguments or {}, mask)
    rng = np.random.default_rng(seed)
    sizes = subject.sizes(rng)
    drawn = subject.draw(seed, sizes)
    tell("trying how it wants to be called")
    _settle(subject, drawn)
    drawn = subject.draw(seed, sizes)  # causal ones, if it is so without being asked
    tell("running it")
    asked = tuple(Asked(trial, subject.answer(trial)) for trial in drawn)
    return _judged(subject, sizes, asked, seed, tell)


def subject_of(candidate: Any, arguments: Mapping[str, Any], mask: str = "attends") -> Subject:
    """The candidate, ready to be asked."""
    if mask not in ("attends", "hides"):
        raise ValueError(f"mask must be 'attends' or 'hides', what True in a mask means. Received: {mask!r}.")
    name = getattr(candidate, "__qualname__", None) or getattr(candidate, "name", None) or type(candidate).__name__
    name = name.split("<locals>.")[-1]
    hides = mask == "hides"
    if isinstance(candidate, type) or any(hasattr(candidate, method) for method in ("call", "forward")):
        from kmha.verify.subject_blocks import BlockSubject, chain_of
        from kmha.verify.subject_layers import LayerSubject

        subject = LayerSubject(candidate, name, arguments, hides)
        if chain_of(subject.made_roles, subject.roles) == "attention":
            return subject
        return BlockSubject(candidate, name, arguments, hides)
    if callable(candidate):
        return FunctionSubject(candidate, name, arguments, hides)
    raise SubjectError(f"expected a layer or a function. Received: {candidate!r}.")


def _settle(subject: Subject, drawn: Sequence[Any]) -> None:
    """Finds the conventions: those of weights and dtype without masks, then those of the mask."""
    plain = [trial for trial in drawn if not trial.masked and not trial.training and trial.dtype == "float64"][:3]
    first = [
        Convention(weights=weights, dtype=dtype, causal=causal)
        for dtype in ("float64", "float32")
        for causal in ((False, True) if subject.may_be_causal else (False,))
        for weights in subject.weight_conventions()
    ]
    _choose(subject, first, plain)
    # What a layer's weights can be is known once it has been built.
    if len(subject.weight_conventions()) > len({option.weights for option in first}):
        again = [
            dataclasses.replace(option, weights=weights)
            for option in dict.fromkeys(dataclasses.replace(option, weights=0) for option in first)
            for weights in subject.weight_conventions()
        ]
        _choose(subject, again, plain)
    masked = [trial for trial in drawn if trial.masked and not trial.training and trial.dtype == "float64"]
    if masked:
        options = [
            dataclasses.replace(subject.convention, mask_shape=shape, mask_dtype=dtype)
            for dtype in MASK_DTYPES
            for shape in subject.mask_shapes()
        ]
        _choose(subject, options, [masked[0], masked[-1]])


def _choose(subject: Subject, options: Sequence[Convention], drawn: Sequence[Any]) -> None:
    """The first option that is right; else the first that one mistake explains; else the first that runs."""
    running = []
    for option in options:
        subject.convention = option
        meant = [dataclasses.replace(trial, causal=trial.causal or option.causal) for trial in drawn]
        asked = [Asked(trial, subject.answer(trial)) for trial in meant]
        answered = [one for one in asked if not one.answer.raised]
        if not answered or not _fits(answered):
            continue
        if matching.explains(answered):
            return
        running.append((option, answered))
    for option, answered in running if len(running) > 1 else []:
        if matching.singles(answered, subject.chain):
            subject.convention = option
            return
    subject.convention = running[0][0] if running else options[0]


def _fits(asked: Sequence[Asked]) -> bool:
    """Whether any output has as many axes as it must: else the mask was laid along axes that it does not have."""
    return any(one.answer.output is not None and one.answer.output.ndim == one.trial.query.ndim for one in asked)


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
    tell("comparing it with every known mistake")
    ranked = sorted((matching.judge(answered, [one]) for one in matching.candidates(subject.chain)), key=_badness)
    right = matching.judge(answered)
    if right.trials == len(answered):
        return Diagnosis(verdict=RIGHT, matches=(right,), **found)
    fitting = [match for match in ranked if match.trials == len(answered)]
    if not fitting:
        tell("comparing it with every pair of them")
        fitting = matching.pairs(answered, subject.chain)
    found["nearest"] = next((match for match in ranked if match.trials < len(answered)), None)
    tell("looking for the smallest case")
    found["smallest"] = smallest(subject, sizes, answered)
    if fitting:
        return Diagnosis(verdict=KNOWN, matches=tuple(fitting), **found)
    tell("looking for what its difference has in common")
    clue = clues(subject, sizes, answered)
    return Diagnosis(verdict=UNKNOWN, matches=(), clue=clue, **found)


def _badness(match: Match) -> tuple[int, float]:
    return -match.trials, match.distance


__all__ = ["KNOWN", "RAISES", "RIGHT", "UNKNOWN", "Answer", "Diagnosis", "diagnose", "subject_of"]
