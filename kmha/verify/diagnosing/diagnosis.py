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
(('scale-missing',), 'You did not scale the logits. Divide them by √O before the softmax.')
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.block_candidate import BlockCandidate, chain_of
from kmha.verify.diagnosing.calling import CandidateError
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.convention_search import find_convention
from kmha.verify.diagnosing.conventions import MASK_MEANINGS, SINGLE, Convention
from kmha.verify.diagnosing.function_candidate import FunctionCandidate
from kmha.verify.diagnosing.layer_candidate import LayerCandidate
from kmha.verify.diagnosing.matching import Match, TrialResult
from kmha.verify.diagnosing.reproduction import script
from kmha.verify.diagnosing.trials import Sizes
from kmha.verify.diagnosing.unknown_mistakes import Clue, find_clue, smallest_case
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
        results: all trials with the candidate's answers.
        clue: of an unknown mistake: the first step that departs, and the pattern of the difference.
        smallest: the smallest case that shows that it is wrong.
        sizes: of the trials.
        convention: what the signature did not tell.
        candidate: the candidate.
        seed: that everything was drawn with.
        wrong_layout: another shape of its inputs, with which it makes a known mistake; with what was tried it is right.
        in_float16: what is wrong in float16, of one that is right otherwise, and need not be right there.
    """

    name: str
    verdict: str
    matches: tuple[Match, ...]
    results: tuple[TrialResult, ...]
    sizes: Sizes
    convention: Convention
    candidate: Candidate
    seed: int
    nearest: Match | None = None
    clue: Clue | None = None
    smallest: TrialResult | None = None
    wrong_layout: str | None = None
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
        return script(self.smallest, self.candidate.code(self.smallest.trial)) if self.smallest else ""

    @property
    def errors(self) -> dict[str, str]:
        """The candidate's errors by the names of the trials."""
        return {one.trial.name: one.answer.error for one in self.results if one.answer.error}

    @property
    def wrong(self) -> dict[str, float]:
        """How far it is from right, by the names of the trials in which it is not."""
        return {one.trial.name: one.distance for one in self.results if one.wrong and not one.answer.error}


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
    candidate = candidate_of(candidate, arguments or {}, mask)
    candidate.source = source
    tell("trying how it wants to be called")
    settled = find_convention(candidate, seed)
    tell("running it")
    results = tuple(candidate.evaluate(trial) for trial in settled.drawn)
    half = () if float16 else tuple(one for one in results if one.trial.dtype == "float16")
    results = tuple(one for one in results if one not in half)
    if candidate.weights_error is not None and all(one.answer.error for one in results):
        raise CandidateError(f"{candidate.name}: {candidate.weights_error}")
    sizes = settled.sizes
    if settled.convention.entry == SINGLE:
        sizes = dataclasses.replace(sizes, batch=1)
    found = _judged(candidate, sizes, results, seed, tell)
    if not found.right:
        return found
    return dataclasses.replace(found, wrong_layout=settled.wrong_layout, in_float16=_in_float16(found, half))


def candidate_of(thing: Any, arguments: Mapping[str, Any], mask: str = "attends") -> Candidate:
    """The candidate, ready to be results."""
    if mask not in MASK_MEANINGS:
        raise ValueError(
            "mask must be 'attends' or 'hides', what True (or 1) in a mask means, or 'adds' for one that is added to "
            f"the logits. Received: {mask!r}."
        )
    name = getattr(thing, "__qualname__", None) or getattr(thing, "name", None) or "candidate"
    name = "candidate" if "<lambda>" in name else str(name).split("<locals>.")[-1]
    if isinstance(thing, type) or any(hasattr(thing, method) for method in ("call", "forward")):
        layer = LayerCandidate(thing, name, arguments, mask)
        if chain_of(layer.constructor_roles, layer.roles) == "attention":
            return layer
        return BlockCandidate(thing, name, arguments, mask)
    if callable(thing):
        return FunctionCandidate(thing, name, arguments, mask)
    raise CandidateError(f"expected a layer or a function. Received: {thing!r}.")


def _judged(
    candidate: Candidate, sizes: Sizes, results: tuple[TrialResult, ...], seed: int, tell: Callable[[str], None]
) -> Diagnosis:
    answered = [one for one in results if not one.answer.error]
    found: dict[str, Any] = {
        "name": candidate.name,
        "seed": seed,
        "results": results,
        "sizes": sizes,
        "convention": candidate.convention,
        "candidate": candidate,
    }
    if not answered:
        return Diagnosis(verdict=RAISES, matches=(), **found)
    right = matching.judge(answered)
    if right.trials == len(answered):
        return Diagnosis(verdict=RIGHT, matches=(right,), **found)
    tell("comparing it with every known mistake")
    fitting, found["nearest"] = matching.ranked(answered, candidate.chain)
    if not fitting and any(_tells(one) for one in answered):
        tell("comparing it with every pair of them")
        fitting = matching.pairs(answered, candidate.chain)
    tell("looking for the smallest case")
    found["smallest"] = smallest_case(candidate, sizes, answered)
    if fitting:
        return Diagnosis(verdict=KNOWN, matches=tuple(fitting), **found)
    tell("looking for what its difference has in common")
    clue = find_clue(candidate, sizes, answered)
    return Diagnosis(verdict=UNKNOWN, matches=(), clue=clue, **found)


def _tells(one: TrialResult) -> bool:
    """Whether it is wrong with numbers that differ: zeros alone, or NaN, some pair gives whatever was done."""
    finite = np.unique(one.answer.output[np.isfinite(one.answer.output)])
    return finite.size > 1 and one.wrong


def _in_float16(found: Diagnosis, half: tuple[TrialResult, ...]) -> Diagnosis | None:
    """Of one that is right otherwise: what is wrong in float16."""
    answered = [one for one in half if not one.answer.error]
    if not any(one.wrong for one in answered):
        return None
    fitting, nearest = matching.ranked(answered, found.candidate.chain)
    verdict = KNOWN if fitting else UNKNOWN
    return dataclasses.replace(found, verdict=verdict, matches=tuple(fitting), nearest=nearest, results=half)


__all__ = ["KNOWN", "RAISES", "RIGHT", "UNKNOWN", "Diagnosis", "candidate_of", "diagnose"]
