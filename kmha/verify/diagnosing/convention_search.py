"""Find the calling convention of a candidate by trying the usual conventions.

The search takes the first convention that makes the candidate right. Without such a convention, the search takes the
first convention with answers that one known mistake explains, or else the first that the candidate runs with. So a
right layer is not accused because it expects a mask of another shape.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.choices import CHOICES, combinations
from kmha.verify.diagnosing import matching
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.conventions import BATCH, HEADS, LISTS, MASK_DTYPES, MIDDLE, TIME, Convention
from kmha.verify.diagnosing.matching import TrialResult, same_weights
from kmha.verify.diagnosing.trials import Sizes

LAYOUT = ("entry", "one_head", "framework", "guessed", "sizes")  # parts of a convention that are an input layout


LIKELY = 4  # number of combinations of choices that are tried with every mistake
ARRANGEMENTS = 3  # number of a block's conventions that are tried with every mistake and with choices


class Fit(enum.IntEnum):
    """How well a convention suits a candidate, worst first."""

    RAISES = 0
    RUNS = 1
    EXPLAINED = 2
    RIGHT = 3


@dataclasses.dataclass(frozen=True)
class ChosenConvention:
    """A convention, with sizes and trials that are possible with this convention.

    Attributes:
        fit: How well the convention suits the candidate.
        sizes: Sizes of the trials.
        drawn: Trials to run with the convention.
        convention: Calling convention of the candidate.
        wrong_layout: Another input layout that the candidate runs with, making a known mistake.
    """

    fit: Fit
    sizes: Sizes
    drawn: tuple[Trial, ...]
    convention: Convention
    wrong_layout: str | None = None


def find_convention(candidate: Candidate, seed: int) -> ChosenConvention:
    """Find the best convention, and set it on the candidate."""
    found: list[ChosenConvention] = []
    for entry in candidate.input_layouts():
        if _worth_trying(candidate, entry, found):
            found.append(_try_layout(candidate, seed, entry))
    best = max(found, key=lambda one: one.fit)
    candidate.use_layout(**{name: getattr(best.convention, name) for name in LAYOUT})
    candidate.use_convention(best.convention)
    _choose_mask_convention(candidate, best.drawn, best.fit)
    explained = [one.convention.entry for one in found if one.fit == Fit.EXPLAINED and best.fit == Fit.RIGHT]
    wrong_layout = explained[0] if explained else None
    return dataclasses.replace(best, convention=candidate.convention, wrong_layout=wrong_layout)


def _worth_trying(candidate: Candidate, entry: Mapping[str, Any], found: Sequence[ChosenConvention]) -> bool:
    """Return whether to try another input layout.

    A candidate is usually meant for a layout that it runs with. But code for other axes, or for another order in a
    list, may run too and compute something else.
    """
    if any(one.fit == Fit.RIGHT for one in found):
        return False
    mine = entry["entry"], entry.get("framework", "")
    before = {(one.convention.entry, one.convention.framework) for one in found if one.fit > Fit.RAISES} - {mine}
    if not all(framework == mine[1] for _, framework in before):
        return False
    entries = {each for each, _ in before}
    groups: tuple[Any, ...] = ((HEADS, BATCH, MIDDLE), LISTS)
    if candidate.chain != "attention":  # a block runs with both layouts, and its plain calls tell them apart
        groups += ((BATCH, TIME),)
    return not entries or any(mine[0] in group and entries <= {*group} for group in groups)


def _try_layout(candidate: Candidate, seed: int, entry: dict) -> ChosenConvention:
    candidate.use_layout(**entry)
    sizes = candidate.sizes(np.random.default_rng(seed))
    drawn = tuple(candidate.draw(seed, sizes))
    plain = [trial for trial in _usual(drawn) if _is_plain(trial)][:3]
    causal = (False, True) if candidate.may_be_causal else (False,)
    start = candidate.convention
    options = [
        dataclasses.replace(start, weights=weights, dtype=dtype, causal=each)
        for dtype in ("float64", "float32")
        for each in causal
        for weights in candidate.weight_conventions()
    ]
    fit = choose_convention(candidate, options, plain, choose=True)
    # The possible arrangements of a layer's weights are only known after the layer has been built.
    if fit < Fit.RIGHT and len(candidate.weight_conventions()) > len({option.weights for option in options}):
        more = candidate.weight_conventions()[1:]
        again = [dataclasses.replace(option, weights=weights) for option in options for weights in more]
        fit = choose_convention(candidate, [candidate.convention, *again], plain, choose=True)
    return ChosenConvention(fit, sizes, drawn, candidate.convention)


def _fitting_choices(candidate: Candidate, answered: Sequence[TrialResult]) -> tuple[str, ...] | None:
    """Return the design choices that make the answers right, the fewest choices first, or `None`.

    The candidate's answers do not depend on the choices, so each trial is called once.
    """
    for ids in combinations(candidate.chain, answered[0].trial, candidate.expected):
        if matching.explains(_with_choices(answered, ids)):
            return ids
    return None


def _with_choices(answered: Sequence[TrialResult], ids: Sequence[str]) -> list[TrialResult]:
    """Return the same answers, compared with the reference that makes these choices."""
    changes = tuple(CHOICES[id].changes for id in ids)
    return [TrialResult(dataclasses.replace(each.trial, choices=changes), each.answer) for each in answered]


def _explained_choices(candidate: Candidate, answered: Sequence[TrialResult]) -> tuple[str, ...] | None:
    """Return the likely design choices with which one known mistake explains the answers, or `None`."""
    likely = candidate.likely_choices(answered[0].trial)
    near = sorted(likely, key=lambda ids: matching.judge(_with_choices(answered[:1], ids)).distance)
    for ids in dict.fromkeys([*near[:LIKELY], likely[0]]):
        if matching.singles(_with_choices(answered, ids), candidate.chain):
            return ids
    return None


def _nearest_choices(candidate: Candidate, answered: Sequence[TrialResult]) -> tuple[str, ...]:
    """Return the likely design choices that come nearest to the answers."""
    likely = candidate.likely_choices(answered[0].trial)
    return min(likely, key=lambda ids: matching.judge(_with_choices(answered[:1], ids)).distance)


def _is_plain(trial: Trial) -> bool:
    """Return whether a trial has no masks besides the causal mask that every decoder layer has."""
    padded = trial.key_mask is not None or trial.query_mask is not None
    return not (padded or trial.mask is not None or (trial.causal and trial.chain != "decoder"))


def _usual(drawn: Iterable[Trial]) -> list[Trial]:
    """Return the trials without dropout, float16 or extreme values."""
    return [trial for trial in drawn if not trial.rate and trial.dtype == "float64" and "large" not in trial.name]


def _choose_mask_convention(candidate: Candidate, drawn: Sequence[Trial], fit: Fit) -> None:
    if candidate.chain != "attention":
        _choose_masks_of_block(candidate, drawn, fit == Fit.RAISES)
        return
    start, masked = candidate.convention, [trial for trial in _usual(drawn) if trial.masked]
    masked = [trial for trial in masked if trial.mask is not None and trial.key_mask is None][:2]
    shapes = [(dtype, shape) for dtype in MASK_DTYPES for shape in candidate.mask_shapes()]
    if masked:
        options = [
            dataclasses.replace(start, mask_dtype=dtype, mask_shape=shape, dtype=computed)
            for computed in dict.fromkeys((start.dtype, "float32"))  # the candidate may cast the mask
            for dtype, shape in shapes
        ]
        choose_convention(candidate, options, [masked[0], masked[-1]])
    start, padded = candidate.convention, [trial for trial in _usual(drawn) if trial.key_mask is not None]
    if padded:
        dtypes = (start.mask_dtype,) if masked else MASK_DTYPES
        shapes = [(dtype, shape) for dtype in dtypes for shape in candidate.padding_shapes()]
        options = [dataclasses.replace(start, mask_dtype=dtype, padding_shape=shape) for dtype, shape in shapes]
        choose_convention(candidate, options, [padded[0], padded[-1]])


def _choose_masks_of_block(candidate: Candidate, drawn: Sequence[Trial], choose: bool) -> None:
    """Choose shapes, dtypes and meanings of a block's masks together, because some calls need several masks.

    `choose` looks for design choices too, which is needed if a block raises errors in all calls without masks.
    """
    start = candidate.convention
    masked = [trial for trial in _usual(drawn) if trial.masked]
    names = [dict.fromkeys(candidate.meanings(role)) for role in ("mask", "padding")]
    usual = (next(iter(names[0])), next(iter(names[1])))
    meanings = dict.fromkeys([usual, *((each, each) for each in names[0] if each in names[1])])
    options = [
        dataclasses.replace(start, mask_dtype=dtype, mask_shape=shape, mask_meaning=mask, padding_meaning=padding)
        for mask, padding in meanings
        for dtype in (MASK_DTYPES if (mask, padding) != ("adds", "adds") else ("float",))
        for shape in candidate.mask_shapes()
    ]
    if masked:
        choose_convention(candidate, options, [masked[0], *masked[1:-1:3], masked[-1]], choose)


def choose_convention(
    candidate: Candidate, options: Sequence[Convention], drawn: Sequence[Trial], choose: bool = False
) -> Fit:
    """Set the best option on the candidate, the first if several are equally good. Return how well it suits.

    Args:
        candidate: Candidate.
        options: Conventions to try.
        drawn: Trials to run.
        choose: Whether to look for the candidate's design choices too. Otherwise, the options' choices are kept.
    """
    running: list[tuple[Convention, list[TrialResult]]] = []
    for option in options:
        if running and running[0][0].dtype != option.dtype:
            continue  # float32 is only for candidates that cannot compute in float64
        candidate.use_convention(option)
        answered = [result for result in map(candidate.evaluate, drawn) if not result.answer.error]
        if not answered or not _has_right_rank(answered):
            continue
        ids = _fitting_choices(candidate, answered) if choose else option.choices
        if ids is not None and (choose or matching.explains(answered)):
            candidate.use_convention(dataclasses.replace(option, choices=ids))
            return Fit.RIGHT
        if not any(_same(answered, other) for _, other in running):
            running.append((option, answered))
    most = len(running) if candidate.chain == "attention" else ARRANGEMENTS if choose else 2 * ARRANGEMENTS
    for option, answered in running[:most]:
        ids = _explained_choices(candidate, answered) if choose else option.choices
        if ids is not None and (choose or matching.singles(answered, candidate.chain)):
            candidate.use_convention(dataclasses.replace(option, choices=ids))
            return Fit.EXPLAINED
    candidate.use_convention(running[0][0] if running else options[0])
    if running and choose:
        nearest = _nearest_choices(candidate, running[0][1])
        candidate.use_convention(dataclasses.replace(running[0][0], choices=nearest))
    return Fit.RUNS if running else Fit.RAISES


def _has_right_rank(results: Sequence[TrialResult]) -> bool:
    """Return whether any output has the right rank. Otherwise, the mask was broadcast along new axes."""
    outputs = ((result.answer.output, result.trial.query) for result in results)
    return any(output is not None and output.ndim == query.ndim for output, query in outputs)


def _same(results: Sequence[TrialResult], other: Sequence[TrialResult]) -> bool:
    """Return whether two options give the same answers to the same calls, so that one option can be skipped."""
    return len(results) == len(other) and all(
        one.trial.causal == another.trial.causal
        and same_weights(one.trial, another.trial)
        and np.array_equal(one.answer.output, another.answer.output, equal_nan=True)
        for one, another in zip(results, other, strict=True)
    )
