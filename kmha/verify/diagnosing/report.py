"""Report a diagnosis as plain data: everything that is printed, as text and numbers that JSON can hold.

Text of the candidate (its name, its errors, its code) is cleaned, so that printing the report cannot change a terminal.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kmha.verify.chains import caches
from kmha.verify.chains.blocks import EPSILON
from kmha.verify.choices import CHOICES
from kmha.verify.diagnosing import guessing, matching, naming
from kmha.verify.diagnosing.caches import cache_report
from kmha.verify.diagnosing.conventions import BATCH, HEADS, MIDDLE_SINGLE, ONE_KEY
from kmha.verify.diagnosing.coverage import tested, untested
from kmha.verify.diagnosing.difference import difference_map
from kmha.verify.diagnosing.plain import plain
from kmha.verify.diagnosing.verdicts import ENOUGH, KNOWN, RAISES, RIGHT, UNJUDGED, UNKNOWN
from kmha.verify.mistakes import Mistake
from kmha.verify.wording import ended

if TYPE_CHECKING:
    from kmha.verify.diagnosing.diagnosis import Diagnosis

MANY = 6  # maximum number of explanations or calls in a sentence
_SAYS = {
    RIGHT: "is right",
    KNOWN: "is wrong",
    UNKNOWN: "differs from the reference",
    RAISES: "cannot be run",
    UNJUDGED: "could not be judged",
}


def to_dict(found: "Diagnosis") -> dict[str, Any]:
    """Return the whole diagnosis as plain data, for JSON and for `kmha.verify.diagnosing.rendering`."""
    nearest = found.nearest
    picture = difference_map(found) if found.verdict != UNJUDGED else None
    data = {
        "candidate": found.name,
        "verdict": found.verdict,
        "headline": headline(found),
        "sure": how_sure(found),
        "wrong": what_is_wrong(found),
        "line": found.line and {**dataclasses.asdict(found.line), "path": _from_here(found.line.path)},
        "look": found.mistakes[0].look if found.mistakes and found.verdict not in (UNJUDGED, RIGHT) else None,
        "advice": list(found.advice),
        "remarks": remarks(found),
        "details": details(found),
        "tested": tested(found),
        "untested": [{"says": says, "important": important} for says, important in untested(found)],
        "mistakes": _mistakes(found.mistakes),
        "same_function": [list(match.ids) for match in found.matches[1:]],
        "nearest": nearest
        and {
            "ids": list(nearest.ids),
            "distance": nearest.distance if np.isfinite(nearest.distance) else None,
            "explains": nearest.trials,
        },
        "in_float16": found.in_float16 and _mistakes(found.in_float16.mistakes),
        "calls": distances(found),
        "sizes": dataclasses.asdict(found.sizes),
        "convention": {**dataclasses.asdict(found.convention), "weights": str(found.convention.weights)},
        "seed": found.seed,
        "first_step": (found.clue.step or None) if found.clue else None,
        "pattern": list(found.clue.pattern) if found.clue else [],
        "picture": picture and dataclasses.asdict(picture),
        "case": found.short_code() if found.verdict != UNJUDGED else "",
        "code": found.code(),
    }
    return plain(data)


def without_results(name: str, verdict: str, sure: str, advice: list[str]) -> dict[str, Any]:
    """Return a report, as `to_dict` does, on a candidate that was stopped before there was a diagnosis.

    Args:
        name: Name of the candidate.
        verdict: `UNJUDGED` or `RAISES`.
        sure: What happened, as a sentence.
        advice: Sentences that say what would help.
    """
    lists = ["wrong", "remarks", "details", "tested", "untested", "mistakes", "same_function", "calls", "pattern"]
    nothing = ["line", "look", "nearest", "in_float16", "sizes", "convention", "seed", "first_step", "picture"]
    return plain(
        {
            "candidate": name,
            "verdict": verdict,
            "headline": f"{name} {_SAYS[verdict]}",
            "sure": sure,
            "advice": advice,
            **{key: [] for key in lists},
            **dict.fromkeys(nothing),
            "case": "",
            "code": "",
        }
    )


def headline(found: "Diagnosis") -> str:
    """Return the verdict in a few words."""
    return f"{found.name} {_SAYS[KNOWN if found.accused else found.verdict]}"


def how_sure(found: "Diagnosis") -> str:
    """Return a sentence on the evidence for the verdict, which follows the headline."""
    if found.candidate.chain == caches.NAME:
        return cache_report.how_sure(found)
    answered = [result for result in found.results if not result.answer.error]
    raising = f" {_calls(len(found.errors))} raised an error." if found.errors else ""
    if found.verdict == RAISES:
        return ended(next(iter(found.errors.values()), "every call raises an error"))
    if found.verdict == UNJUDGED:
        if len(answered) < ENOUGH * len(found.results):
            return f"{_calls(len(answered))} of {len(found.results)} ran, which is too little to say more."
        return "its numbers differ from the reference, but kmha may have called it wrongly."
    because = found.matches[0].because if found.matches else ""
    if because and (found.verdict == KNOWN or not found.results):  # calls without a reference have no results
        return f"{because[0].lower()}{because[1:]}{raising}"
    if found.verdict == RIGHT:
        right = [result for result in answered if not result.wrong]
        worst = max((result.distance for result in right), default=0.0)
        if found.mistakes and not right:
            return f"it differs from the reference in all {_calls(len(answered))}, in a way that does no harm.{raising}"
        if found.mistakes:
            fewer = f"the numbers of the reference in {len(right)} of {_calls(len(answered))}"
            return f"it gives {fewer}, and differs in the others in a way that does no harm.{raising}"
        ran = _in_calls(len(answered), bool(found.errors))
        return f"its numbers are those of the reference {ran}, to within {_size(worst)}.{raising}"
    if found.verdict == KNOWN:
        made = "these mistakes give" if len(found.mistakes) > 1 else "this mistake gives"
        ran = _in_calls(len(answered), bool(found.errors))
        sure = f"{made} the same numbers {ran}, to within {_size(found.matches[0].distance)}"
        others = len(found.matches) - 1
        also = " So does one other." if others == 1 else f" So do {others} others." if others else ""
        return f"{sure}.{also}{raising}"
    count = len(found.wrong)
    return (
        f"{count} of {_calls(len(answered))} give other numbers, and no known mistake explains them. It is another "
        f"design, or a mistake that kmha does not know.{raising}"
    )


def what_is_wrong(found: "Diagnosis") -> list[str]:
    """Return a sentence for each mistake, or the facts about an unknown mistake."""
    if found.verdict == KNOWN:
        return [f"{mistake.id}: {mistake.says}" for mistake in found.mistakes]
    if found.verdict != UNKNOWN or not found.clue:
        return []
    step = [f"First step that differs: {found.clue.step}."] if found.clue.step else []
    return [" ".join([*step, *_pattern(found)[:1]])]


def _pattern(found: "Diagnosis") -> list[str]:
    """Return the facts about an unknown mistake as sentences, those that narrow it down most first."""
    pattern = found.clue.pattern if found.verdict == UNKNOWN and found.clue else ()
    return [*found.evidence, *(f"{sentence[0].upper()}{sentence[1:]}." for sentence in pattern)]


def _returned(found: "Diagnosis") -> Iterator[str]:
    """Yield what kmha took as intended in what the candidate returns."""
    if any(result.zeroed.any() for result in found.results if not result.answer.error):
        yield "Its output is zero at padding: taken as intended."
    if found.candidate.scores_first:
        yield "It returns the scores first, and then the output: taken as intended."
    if found.candidate.heads_last:
        yield "It returns the scores as (B, T, S, H), with the heads last: taken as intended."
    if any(result.answer.scores_alone for result in found.results):
        yield "It returns the scores alone, so kmha multiplied them by a value itself."


def _guessed(found: "Diagnosis") -> list[str]:
    """Return what kmha passed as arguments that no role explains. If it cannot judge, the advice is about them."""
    guessed = {**getattr(found.candidate, "made_guesses", {}), **dict(found.convention.guessed)}
    return [
        f"kmha passed {text} as `{name}`."
        if text.startswith(guessing.TABLES)
        else f"kmha does not know the argument `{name}`, and passed {text}."
        for name, text in guessed.items()
        if found.verdict != UNJUDGED and found.results
    ]


def remarks(found: "Diagnosis") -> list[str]:
    """Return sentences that a reader needs beside the verdict, such as what kmha took as intended."""
    lines = _pattern(found)[1:] if found.verdict == UNKNOWN else []
    inverted = any("mask-inverted" in match.ids for match in found.matches)
    documented = found.candidate.documented_meanings(found.candidate.roles.get("mask", ""))
    if inverted and not documented and found.convention.mask_meaning == "attends":
        lines.append("If True (or 1) in your mask is meant to hide, say so with mask='hides' or --mask hides.")
    if found.verdict == RIGHT:
        lines += found.evidence
    if found.verdict != RAISES:
        if found.convention.choices:
            told = {"always-causal"} if found.candidate.said_causal else set()
            replaced = {step for mistake in found.mistakes for step in mistake.changes} & {"activation"}
            told |= {id for id in found.convention.choices if replaced & CHOICES[id].changes.keys()}
            said = " and ".join(CHOICES[id].says for id in found.convention.choices if id not in told)
            lines += [f"{said[0].upper()}{said[1:]}: taken as intended."] if said else []
        lines += _guessed(found)
        if getattr(found.candidate, "sines_first", False):
            lines.append("It returns the sines before the cosines: taken as intended.")
        lines += _polarity(found)
        lines += [mistake.says for mistake in found.mistakes] if found.verdict == RIGHT else []
        if found.convention.causal and not found.candidate.said_causal:
            lines.append("It is causal without being asked: taken as intended.")
        epsilon = found.results[0].trial.more.get("epsilon", EPSILON) if found.results else EPSILON
        if epsilon != EPSILON:
            lines.append(f"The epsilon of its normalizations is {epsilon:g}: taken as intended.")
        if stated := getattr(found.candidate, "stated", None):
            lines.append(f"Its heads got {stated[1]} features, as its attribute `{stated[0]}` says.")
        lines += _returned(found)
        if length := getattr(found.candidate, "exact_length", 0):
            lines.append(f"It takes exactly {length} positions: taken as intended.")
        if found.wrong_layout:
            lines.append(
                f"This holds for inputs {found.convention.entry}. It also runs with inputs {found.wrong_layout}, and "
                "is wrong with those."
            )
    if found.in_float16:
        lines.append(_float16(found.in_float16))
    lines += found.further
    return lines + (_errors(found) if found.verdict != RAISES else [])


def details(found: "Diagnosis") -> list[str]:
    """Return sentences on how kmha called the candidate, and on other explanations."""
    lines = [f"Sizes: {sizes_text(found)}, seed {found.seed}."]
    others = [" and ".join(match.ids) for match in found.matches[1:]]
    if found.verdict == KNOWN and others:
        lines.append(f"For this candidate, these mistakes would give the same numbers: {'; '.join(others[:MANY])}.")
    lines += [f"Known from {mistake.source}." for mistake in found.mistakes]
    if found.verdict == RAISES:
        return lines + _errors(found)
    if found.candidate.chain == caches.NAME:
        lines += cache_report.details(found)
    if found.candidate.chain == "attention":
        lines.append(call_text(found))
        layer = found.candidate
        if found.results and not layer.core and layer.weights_present(found.results[0].trial) == frozenset():
            lines.append("It has no weights, so kmha compared it with attention without projections.")
    return lines


def notes(found: "Diagnosis") -> list[str]:
    """Return all sentences of the report below the verdict."""
    return [*what_is_wrong(found), *remarks(found), *details(found)]


def distances(found: "Diagnosis") -> list[dict[str, Any]]:
    """Return each call's distances from the right answer, the mistakes found and the nearest others, or its error.

    A distance is `None` if it is infinite, because the shapes or the places of NaN and infinity differ.
    """
    explanations: dict[str, Any] = {"from_right": ()}
    if found.mistakes and not found.matches[0].because:
        explanations["from_found"] = found.mistakes
    if found.nearest:
        explanations["from_nearest"] = found.nearest.mistakes
    rows = []
    for result in found.results:
        far = {name: matching.distance(result, mistakes) for name, mistakes in explanations.items()}
        finite = {name: each if np.isfinite(each) else None for name, each in far.items()}
        rows.append({"call": result.trial.name, "raised": result.answer.error or None, **finite})
    return rows


def sizes_text(found: "Diagnosis") -> str:
    """Return the sizes of the calls as text."""
    if not found.candidate.core:
        return str(found.sizes)
    heads = f", H={found.sizes.heads}" if found.convention.entry in (HEADS, ONE_KEY, MIDDLE_SINGLE) else ""
    return f"B={found.sizes.batch}, T={found.sizes.rows}, S={found.sizes.columns}{heads}, O={found.sizes.size}"


def call_text(found: "Diagnosis") -> str:
    """Describe the parts of the candidate's calling convention that its signature does not show."""
    convention, accepts = found.convention, found.candidate.accepts
    entry = convention.entry if convention.entry != BATCH or not found.candidate.core else "(B, P, O)"
    parts = [f"inputs {entry}".replace("(P, I)", "(P, O)") if found.candidate.core else f"inputs {entry}"]
    meaning = {"attends": "True attends", "hides": "True hides", "adds": "0 attends and -1e9 hides"}
    if accepts.mask:
        parts.append(f"a mask ({convention.mask_shape.replace(',', ', ')}) in which {meaning[convention.mask_meaning]}")
    if accepts.padding:
        parts.append(f"a padding mask ({convention.padding_shape.replace(',', ', ')})")
    return f"kmha called it with {', '.join(parts)}, in {convention.dtype}."


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _in_calls(count: int, some_raise: bool) -> str:
    return f"in the {_calls(count)} that it can run" if some_raise else f"in all {_calls(count)}"


def _size(distance: float) -> str:
    return f"{max(distance, 1e-16):.0e}"


def _errors(found: "Diagnosis") -> list[str]:
    by_error: dict[str, list[str]] = {}
    for name, error in found.errors.items():
        by_error.setdefault(error, []).append(name)
    return [f"It raises an error ({error}) in these calls: {_listed(names)}." for error, names in by_error.items()]


def _listed(names: list[str]) -> str:
    """Return the first names, and the number of those left out.

    >>> _listed(["mask", "causal"]), _listed(list("abcdefgh"))
    ('mask; causal', 'a; b; c; d; e; f; and 2 more')
    """
    more = [f"and {len(names) - MANY} more"] if len(names) > MANY else []
    return "; ".join([*names[:MANY], *more])


def _float16(half: "Diagnosis") -> str:
    if half.mistakes:
        mistakes = "; ".join(f"{mistake.id}: {mistake.says}" for mistake in half.mistakes)
        return f"In float16 it is wrong, with {mistakes}"
    return f"In float16 it is wrong in these calls: {'; '.join(half.wrong)}."


def _polarity(found: "Diagnosis") -> list[str]:
    """Return a question about each mask that fits only with another meaning of True than the usual one."""
    if found.verdict not in (RIGHT, KNOWN) or found.candidate.said_meaning is not None:
        return []
    lines = []
    for role, meaning in (("mask", found.convention.mask_meaning), ("padding", found.convention.padding_meaning)):
        name = found.candidate.roles.get(role, "")
        documented = next(iter(found.candidate.documented_meanings(name)), "")
        if documented and any(mistake.id.endswith("-inverted") for mistake in found.mistakes):
            lines.append(f"Its docstring or a comment says that True {documented} in `{name}`.")
        if name and meaning != (documented or naming.mask_meaning(name)):
            says = {"attends": "True attends", "hides": "True hides", "adds": "it is added to the logits"}[meaning]
            right = "Right, if" if found.verdict == RIGHT else "It has no other mistake, if"
            lines.append(f"{right} {says} in `{name}`. Is that meant? Then say so: --mask {meaning}.")
    return lines


def _from_here(path: str) -> str:
    """Return a path as seen from the current folder, if the path is inside it."""
    inside = os.path.abspath(path).startswith(os.getcwd() + os.sep)
    return os.path.relpath(path) if inside else path


def _mistakes(mistakes: Iterable[Mistake]) -> list[dict[str, str]]:
    return [{name: getattr(mistake, name) for name in ("id", "says", "look", "source")} for mistake in mistakes]
