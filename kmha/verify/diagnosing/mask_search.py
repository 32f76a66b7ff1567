"""Find the shape, dtype and meaning of the masks that a candidate takes, and leave out calls with others."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.choice_search import explained_choices, fitting_choices
from kmha.verify.diagnosing.conventions import MASK_DTYPES, Convention
from kmha.verify.diagnosing.evidence.source_text import mentions
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.trying import (
    Fit,
    Memory,
    Tried,
    choose_convention,
    has_right_rank,
    is_plain_call,
    try_all,
    usual_trials,
)
from kmha.verify.mistakes import Mistake
from kmha.verify.mistakes.commonness import rank

BOOLEAN = r"dtype\s*(==|is|in)[^,\n]*\bbool|is_floating_point"  # code that handles boolean masks separately


def choose_mask_convention(candidate: Candidate, drawn: Sequence[Trial], fit: Fit) -> None:
    """Choose the shape, dtype and meaning of masks, and then of padding masks."""
    if candidate.chain != "attention":
        _choose_masks_of_block(candidate, drawn, fit)
        return
    start, masked = candidate.convention, [trial for trial in usual_trials(drawn) if trial.masked]
    alone = _explaining_alone(candidate, drawn)
    masked = [trial for trial in masked if trial.mask is not None and trial.key_mask is None]
    masked = [trial for trial in masked if not trial.causal][:2] or masked[:2]
    if masked:
        base = [dataclasses.replace(start, dtype=dtype) for dtype in dict.fromkeys((start.dtype, "float32"))]
        if start.causal:
            base.append(dataclasses.replace(start, choices=(*start.choices, "causal-without-mask")))
        shapes = [
            {"mask_dtype": dtype, "mask_shape": shape} for dtype in MASK_DTYPES for shape in candidate.mask_shapes()
        ]
        _choose_meaning(candidate, "mask", [masked[0], masked[-1]], base, shapes, alone)
    start, padded = candidate.convention, [trial for trial in usual_trials(drawn) if trial.key_mask is not None]
    padded = [trial for trial in padded if trial.mask is None and not trial.causal][:2] or padded[:2]
    if padded:
        dtypes = (start.mask_dtype,) if masked else MASK_DTYPES
        shapes = [
            {"mask_dtype": dtype, "padding_shape": shape} for dtype in dtypes for shape in candidate.padding_shapes()
        ]
        _choose_meaning(candidate, "padding", [padded[0], padded[-1]], [start], shapes, alone)
        result = candidate.evaluate(padded[0])
        if not result.answer.error and np.isnan(result.answer.output).all():  # -inf · 0, where float64 meets float32
            other = dataclasses.replace(start, dtype="float32")
            _choose_meaning(candidate, "padding", [padded[0], padded[-1]], [other], shapes, alone)
    _choose_corner(candidate, drawn)


def _choose_masks_of_block(candidate: Candidate, drawn: Sequence[Trial], fit: Fit) -> None:
    """Choose shapes, dtypes and meanings of a block's masks together, because some calls need several masks.

    If the calls without masks raise errors (`fit`), design choices are looked for too. If those calls differ from the
    reference, the choices made without masks may be wrong: all are tried if nothing explains all calls with masks.
    """
    start = candidate.convention
    masked = [trial for trial in usual_trials(drawn) if trial.masked]
    unless = tuple("causal-unless-masked" if id == "always-causal" else id for id in start.choices)
    bases = dict.fromkeys([start, dataclasses.replace(start, choices=unless)])
    options = mask_forms(candidate, [*bases])
    if not masked:
        _choose_again(candidate, usual_trials(drawn))
        return
    memory: Memory = {}
    padded = [trial for trial in masked if not trial.causal]
    if padded and "always-causal" in start.choices:  # its mask may be for padding alone
        if choose_convention(candidate, mask_forms(candidate, [start]), padded, memory, explain=False)[0] == Fit.RIGHT:
            return
        candidate.use_convention(start)
    tried = [masked[0], *masked[1:-1:3], masked[-1]]
    found, share = choose_convention(candidate, options, tried, memory, choose=fit == Fit.RAISES)
    first = candidate.convention
    if fit == Fit.RUNS and found < Fit.RIGHT and (found < Fit.EXPLAINED or share < 1):
        again = choose_convention(candidate, mask_forms(candidate, [start]), tried, memory, choose=True)
        if again <= (found, share):
            candidate.use_convention(first)
    if fit == Fit.RIGHT > found and _choose_square_masks(candidate, start, masked):
        return
    _choose_again(candidate, usual_trials(drawn))


def _choose_square_masks(candidate: Candidate, start: Convention, masked: Sequence[Trial]) -> bool:
    """Choose masks (T, S) if an encoder layer is right or has one mistake with those, and raises an error with padding.

    Return whether they were chosen.
    """
    first = candidate.convention
    square = [trial for trial in masked if trial.key_mask is None]
    if candidate.chain != "encoder" or "padding" in candidate.roles or not square:
        return False
    forms = mask_forms(candidate, [start])
    padded = _padded_apart(masked)
    runs = any(has_right_rank(one.answered) for one in try_all(candidate, forms, padded[:2], {}) if one.results)
    forms = [form for form in forms if form.mask_shape == "T,S"]
    fit, share = (Fit.RAISES, 0.0) if runs else choose_convention(candidate, forms, square)
    if fit >= Fit.EXPLAINED and share == 1:
        return True
    candidate.use_convention(first)
    return False


def _padded_apart(drawn: Sequence[Trial]) -> list[Trial]:
    """Return the trials with padding (B, S) that is no mask (T, S) by its shape."""
    return [trial for trial in drawn if trial.key_mask is not None and len(trial.query) != trial.query.shape[1]]


def without_padding(candidate: Candidate, drawn: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """Return the trials without padding if an encoder layer takes masks (T, S) alone.

    With padding, it raises an error unless B = T, where (B, S) is taken for (T, S).
    """
    if candidate.chain != "encoder" or "padding" in candidate.roles or candidate.convention.mask_shape != "T,S":
        return drawn
    others = tuple(trial for trial in drawn if trial.key_mask is None)
    padded = _padded_apart(drawn)
    if not any(trial.causal for trial in others) or not all(candidate.evaluate(each).answer.error for each in padded):
        return drawn
    return others if matching.explains(map(candidate.evaluate, others)) else drawn


def without_causal_masks(candidate: Candidate, drawn: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """Return the trials without causal ones if the mask of an encoder layer is for padding alone.

    Such a mask has no axis of queries. With causal masks of any shape, the layer raises an error, gives an output of
    another rank, or ignores the mask because it is always causal.
    """
    if candidate.chain != "encoder" or "mask" not in candidate.roles or {"padding", "causal"} & candidate.roles.keys():
        return drawn
    others = tuple(trial for trial in drawn if not trial.causal)
    if len(others) == len(drawn) or not any(trial.masked for trial in others):
        return drawn
    causal = (candidate.evaluate(trial) for trial in drawn if trial.causal)
    ignores = "always-causal" in candidate.convention.choices and candidate.convention.mask_shape == "T,S"
    if not ignores and any(not each.answer.error and has_right_rank([each]) for each in causal):
        return drawn
    return others if matching.explains(map(candidate.evaluate, others)) else drawn


def _choose_again(candidate: Candidate, drawn: Sequence[Trial]) -> None:
    """Choose a block's masks and design choices by all calls, if one mistake explained only some of them before.

    For instance, only rows that see nothing tell some mistakes under two meanings of True apart, and large numbers hide
    whether a GELU is approximated.
    """
    start = candidate.convention
    answered = _answered(candidate, drawn)
    if not answered or _is_explained(candidate, answered):
        return
    masked = [result for result in answered if result.trial.masked]
    for form in mask_forms(candidate, [start]) if masked else ():
        is_other = (form.mask_dtype, form.mask_shape) == (start.mask_dtype, start.mask_shape) and form != start
        candidate.use_convention(form)
        if is_other and _is_explained(candidate, _answered(candidate, drawn), len(answered)):
            return
    candidate.use_convention(start)
    for find in (fitting_choices, explained_choices, functools.partial(explained_choices, further=True)):
        ids = find(candidate, answered)
        if ids is not None:
            candidate.use_convention(dataclasses.replace(start, choices=ids))
            return


def _answered(candidate: Candidate, drawn: Sequence[Trial]) -> list[TrialResult]:
    return [result for result in map(candidate.evaluate, drawn) if not result.answer.error]


def _is_explained(candidate: Candidate, answered: Sequence[TrialResult], least: int = 0) -> bool:
    """Return whether at least so many answers are right, or have one mistake."""
    return len(answered) >= least and bool(matching.explains(answered) or matching.singles(answered, candidate.chain))


def mask_forms(candidate: Candidate, bases: Sequence[Convention]) -> list[Convention]:
    """Return the conventions with all shapes, dtypes and meanings of a block's masks."""
    names = [dict.fromkeys(candidate.meanings(role)) for role in ("mask", "padding")]
    first = next(iter(names[0]))
    beside = [*names[1]] if first == "adds" else [*names[1]][:1]  # a mask that is added says nothing of the other
    same = [(each, each) for each in names[0] if each in names[1]]
    meanings = dict.fromkeys([*((first, each) for each in beside), *same])
    return [
        dataclasses.replace(base, mask_dtype=dtype, mask_shape=shape, mask_meaning=mask, padding_meaning=padding)
        for base in bases
        for mask, padding in meanings
        for dtype in (MASK_DTYPES if (mask, padding) != ("adds", "adds") else ("float",))
        for shape in candidate.mask_shapes()
    ]


def _explaining_alone(candidate: Candidate, drawn: Sequence[Trial]) -> list[Mistake]:
    """Return the mistakes each of which explains the answers without masks, or nothing if these are right."""
    results = [candidate.evaluate(trial) for trial in usual_trials(drawn) if is_plain_call(trial)]
    answered = [result for result in results if not result.answer.error]
    if not answered or matching.explains(answered):
        return []
    return [match.mistakes[0] for match in matching.singles(answered, candidate.chain)]


def _choose_meaning(
    candidate: Candidate,
    role: str,
    drawn: Sequence[Trial],
    base: Sequence[Convention],
    shapes: Sequence[Mapping],
    alone: Sequence[Mistake],
) -> None:
    """Set the first meaning of True with which the candidate is right, or else the meaning that suits it best.

    If a mistake in `alone` explains the answers without masks, the meaning with which it explains the others is best.
    A candidate whose code handles boolean masks is not called right for masks that are added alone.
    """
    memory: Memory = {}
    tried: list[Tried] = []
    every: list[Convention] = []
    for meaning in candidate.meanings(role):
        fitting = [each for each in shapes if meaning != "adds" or each["mask_dtype"] == "float"]
        named: dict[str, Any] = {f"{role}_meaning": meaning}
        options = [dataclasses.replace(each, **shape, **named) for each in base for shape in fitting]
        every += options
        found = try_all(candidate, options, drawn, memory)
        right = [one for one in found if one.results and matching.explains(one.answered)]
        boolean = _explained_boolean(candidate, tried) if right and meaning == "adds" else None
        if right:
            best = max(right, key=lambda one: len(one.answered))
            candidate.use_convention((boolean or best).option)
            return
        tried += [one for one in found if one.results]
    for one in sorted(tried, key=_undefined) if alone else ():
        if one.answered and any(matching.explains(one.answered, [mistake]) for mistake in alone):
            candidate.use_convention(one.option)
            return
    usual = candidate.meanings(role)[0]
    runs = [one.option for one in tried]
    first = [option for option in runs if getattr(option, f"{role}_meaning") == usual]
    others = [option for option in runs if option not in first]
    fit, _ = choose_convention(candidate, first or runs or every, drawn, memory)
    if fit < Fit.EXPLAINED and others:  # one mistake under another meaning is likelier than two under the usual one
        chosen = candidate.convention
        fit, _ = choose_convention(candidate, others, drawn, memory)
        if fit < Fit.EXPLAINED:
            candidate.use_convention(chosen)


def _undefined(one: Tried) -> float:
    """Return the share of an option's answers that is NaN. What explains NaN everywhere explains nothing."""
    return float(np.mean([np.isnan(each.answer.output).mean() for each in one.answered] or [0.0]))


def _explained_boolean(candidate: Candidate, tried: Sequence[Tried]) -> Tried | None:
    """Return the option with a boolean mask that the commonest mistake explains, if the code handles boolean masks.

    A mask that is annotated as one of floating-point numbers may be boolean in another branch alone.
    """
    mask = candidate.call_parameters.get(candidate.roles.get("mask", ""))
    if not mentions(candidate, BOOLEAN) or "float" in str(getattr(mask, "annotation", "")).lower():
        return None
    boolean = [one for one in tried if one.option.mask_dtype == "bool" and one.answered]
    ranks = [(rank(match.mistakes[0]), one) for one in boolean for match in matching.singles(one.answered, "attention")]
    return min(ranks, key=lambda each: each[0])[1] if ranks else None


def _choose_corner(candidate: Candidate, drawn: Sequence[Trial]) -> None:
    """Take a causal mask that is aligned at the bottom right as intended, if no mistake or only one is then left."""
    causal = [trial for trial in usual_trials(drawn) if trial.causal or candidate.convention.causal]
    causal = [trial for trial in causal if trial.query.shape[-2] < trial.key.shape[-2]][:2]
    start = candidate.convention
    corner = dataclasses.replace(start, choices=(*start.choices, "causal-bottom-right"))
    if causal and "causal-bottom-right" not in start.choices:
        fit, _ = choose_convention(candidate, [start, corner], causal)
        if fit < Fit.EXPLAINED:
            candidate.use_convention(start)


def choose_returned(candidate: Candidate, drawn: Sequence[Trial]) -> None:
    """Take returned scores that dropout has changed in training as intended, as in torch."""
    training = next((trial for trial in drawn if trial.training and not trial.masked), None)
    scores = None if training is None else candidate.evaluate(training).answer.scores
    if scores is not None and (scores == 0).any() and not np.allclose(scores.sum(-1), 1.0):
        start = candidate.convention
        candidate.use_convention(dataclasses.replace(start, choices=("scores-dropped", *start.choices)))
