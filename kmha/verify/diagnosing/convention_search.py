"""Find the calling convention of a candidate by trying the usual conventions.

The search takes the first convention that makes the candidate right. Without such a convention, the search takes the
first convention with answers that one known mistake explains, or else the first that the candidate runs with. So a
right layer is not accused because it expects a mask of another shape.
"""

import dataclasses
import enum
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ImpossibleError, Trial
from kmha.verify.choices import CHOICES, combinations
from kmha.verify.diagnosing import matching, naming
from kmha.verify.diagnosing.block_kind import is_block
from kmha.verify.diagnosing.calling import possible_masks
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.choice_search import attention_choices, distance_with, unlikeliness, with_choices
from kmha.verify.diagnosing.conventions import (
    BATCH,
    HEADS,
    IDS,
    LISTS,
    MASK_DTYPES,
    MASK_SHAPES,
    MIDDLE,
    SINGLE,
    TIME,
    Convention,
)
from kmha.verify.diagnosing.evidence.source_text import mentions
from kmha.verify.diagnosing.matching import TrialResult, same_weights
from kmha.verify.diagnosing.pairs import find_pairs
from kmha.verify.diagnosing.trials import SIZE_KINDS, SQUARE, Sizes
from kmha.verify.diagnosing.verdicts import ENOUGH
from kmha.verify.mistakes import Mistake
from kmha.verify.mistakes.commonness import rank

LAYOUT = ("entry", "one_head", "framework", "guessed", "sizes")  # parts of a convention that are an input layout
ALIKE = ((HEADS, BATCH, MIDDLE), (BATCH, TIME, IDS), LISTS)  # layouts of which one may run with inputs of another
LIKELY = 6  # number of combinations of choices that are tried with every mistake
MOST = 40  # the same for the likeliest arrangement of weights
ARRANGEMENTS = 3  # number of a block's conventions that are tried with every mistake and with choices
NEAREST = 16  # number of combinations of design choices that are compared with every mistake
BOOLEAN = r"dtype\s*(==|is|in)[^,\n]*\bbool|is_floating_point"  # code that handles boolean masks separately
MAX_OPTIONS = 6  # maximum number of arrangements of weights for which to look for design choices


class Fit(enum.IntEnum):
    """How well a convention suits a candidate, worst first."""

    RAISES = 0
    RUNS = 1
    EXPLAINED_BY_TWO = 2
    EXPLAINED = 3
    RIGHT = 4


@dataclasses.dataclass(frozen=True)
class ChosenConvention:
    """A convention, with sizes and trials that are possible with this convention.

    Attributes:
        fit: How well the convention suits the candidate.
        sizes: Sizes of the trials.
        drawn: Trials to run with the convention.
        convention: Calling convention of the candidate.
        wrong_layout: Another input layout that the candidate runs with, making a known mistake.
        share: Share of the plain calls that run.
    """

    fit: Fit
    sizes: Sizes
    drawn: tuple[Trial, ...]
    convention: Convention
    wrong_layout: str | None = None
    share: float = 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Tried:
    """A convention with the results of all calls, or without results if no call gives an output of the right rank."""

    option: Convention
    results: tuple[TrialResult, ...]
    error: str

    @property
    def answered(self) -> list[TrialResult]:
        return [result for result in self.results if not result.answer.error]

    @property
    def takes_masks(self) -> bool:
        """True if a call with a mask ran. Code that is always causal may only run without any."""
        return any(result.trial.mask is not None or result.trial.key_mask is not None for result in self.answered)


Memory = dict[tuple[Convention, int], TrialResult]  # results by convention and id of the trial


def find_convention(candidate: Candidate, seed: int, kinds: Sequence[str] = SIZE_KINDS) -> ChosenConvention:
    """Find the best convention with these kinds of sizes, and set it on the candidate."""
    found: list[ChosenConvention] = []
    for kind in kinds if candidate.chain == "attention" else (SIZE_KINDS[0], SQUARE):
        if kind == SQUARE and candidate.chain != "attention" and found[0].fit > Fit.RAISES:
            break
        layouts = candidate.input_layouts()
        if kind != SIZE_KINDS[0] and not candidate.core:  # building layers takes time
            layouts = [each for each in layouts if each["entry"] in (layouts[0]["entry"], BATCH, TIME, SINGLE)]
        for entry in layouts:
            if _worth_trying(entry, [one for one in found if one.convention.sizes == kind]):
                found.append(_try_layout(candidate, seed, {**entry, "sizes": kind}))
            if found[-1].fit == Fit.RAISES and is_block(candidate):  # it is read again as what it is
                return found[-1]
        # A layout in which all calls run comes before one in which a mistake explains the few that do.
        best = max(found, key=lambda one: (one.fit == Fit.RIGHT, one.share, one.fit))
        is_usual = best.convention.entry == layouts[0]["entry"]
        runs_oddly = best.fit == Fit.RUNS and best.share == 1 and kind != SIZE_KINDS[0] and is_usual
        if (best.fit >= Fit.EXPLAINED and best.share > ENOUGH) or runs_oddly:
            break
    use(candidate, best)
    _choose_mask_convention(candidate, best.drawn, best.fit)
    if best.fit >= Fit.EXPLAINED and candidate.core:
        best = _with_masks(candidate, seed, best, layouts)
    explained = [one.convention.entry for one in found if one.fit == Fit.EXPLAINED and best.fit == Fit.RIGHT]
    same_kind = [entry for entry in explained if entry != best.convention.entry]
    wrong_layout = same_kind[0] if same_kind else None
    drawn = _without_padding(candidate, _without_causal_masks(candidate, best.drawn))
    if candidate.convention.choices:  # dropout is found by trying all masks, which further steps would hide
        drawn = tuple(trial for trial in drawn if not trial.rate)
    _choose_returned(candidate, drawn)
    return dataclasses.replace(best, drawn=drawn, convention=candidate.convention, wrong_layout=wrong_layout)


def _with_masks(
    candidate: Candidate, seed: int, best: ChosenConvention, layouts: Sequence[Mapping[str, Any]]
) -> ChosenConvention:
    """Return a layout that suits the candidate as well as the best, if more calls with masks run, or else the best.

    A function of (B, P, O) may be right for (B, H, P, O) too, as long as it gets no mask (B, S).
    """
    chosen, most = candidate.convention, _share_with_masks(candidate, best.drawn)
    alike = {entry for group in ALIKE if best.convention.entry in group for entry in group}
    for entry in layouts:
        if most == 1 or entry["entry"] not in alike - {chosen.entry}:
            continue
        other = _try_layout(candidate, seed, {**entry, "sizes": best.convention.sizes})
        if other.fit < best.fit:
            continue
        _choose_mask_convention(candidate, other.drawn, other.fit)
        share = _share_with_masks(candidate, other.drawn)
        if share > most:
            best, chosen, most = other, candidate.convention, share
    if candidate.convention != chosen:
        use(candidate, best)
        candidate.use_convention(chosen)
    return best


def _share_with_masks(candidate: Candidate, drawn: Sequence[Trial]) -> float:
    """Return the share of the calls with masks that run, or 1 if no call has a mask."""
    masked = [trial for trial in _usual(drawn) if not _is_plain(trial)]
    return sum(not candidate.evaluate(trial).answer.error for trial in masked) / len(masked) if masked else 1.0


def use(candidate: Candidate, chosen: ChosenConvention) -> None:
    """Set a convention on the candidate."""
    candidate.use_layout(**{name: getattr(chosen.convention, name) for name in LAYOUT})
    if candidate.chain == "attention":
        candidate.sizes(np.random.default_rng(0))  # a layer's sizes decide which trials it accepts
    candidate.use_convention(chosen.convention)


def _worth_trying(entry: Mapping[str, Any], found: Sequence[ChosenConvention]) -> bool:
    """Return whether to try another input layout.

    A candidate is usually meant for a layout that it runs with. But code for other axes, or for another order in a
    list, may run too and compute something else.
    """
    if any(one.fit == Fit.RIGHT and one.share == 1 for one in found):
        return False
    running = [one for one in found if one.fit > Fit.RAISES and one.share > ENOUGH]
    mine = entry["entry"], entry.get("framework", "")
    before = {(one.convention.entry, one.convention.framework) for one in running} - {mine}
    if not all(framework == mine[1] for _, framework in before):
        return False
    entries = {each for each, _ in before}
    return not entries or any(mine[0] in group and entries <= {*group} for group in ALIKE)


def _try_layout(candidate: Candidate, seed: int, entry: dict) -> ChosenConvention:
    candidate.use_layout(**entry)
    sizes = candidate.sizes(np.random.default_rng(seed))
    drawn = tuple(candidate.draw(seed, sizes))
    plain = [trial for trial in _usual(drawn) if _is_plain(trial)][:3]
    start = candidate.convention
    options = [
        dataclasses.replace(start, weights=weights, dtype=dtype, causal=causal, choices=choices)
        for dtype in ("float64", "float32")
        for causal, choices in _causal_forms(candidate)
        for weights in candidate.weight_conventions()
    ]
    memory: Memory = {}
    of_block = candidate.chain != "attention"
    needed = possible_masks(candidate.roles, candidate.call_parameters)
    if candidate.neutral_masks and needed and not of_block:
        likely = [each for each in options if (each.weights, each.causal) == (options[0].weights, options[0].causal)]
        opened = _with_open_masks(candidate, likely)
        runs = choose_convention(candidate, opened, plain[:1], memory, explain=False)[0] > Fit.RAISES
        candidate.closing |= _closing(candidate, opened, plain[0], memory)
        options = _with_open_masks(candidate, options) if runs else options
    fit, share = choose_convention(candidate, options, plain, memory, choose=of_block, explain=False)
    if fit == Fit.RAISES and of_block:
        options = _with_running_masks(candidate, options, plain[:1]) or options
        fit, share = choose_convention(candidate, options, plain, memory, choose=True, explain=False)
    # The possible arrangements of a layer's weights are only known after the layer has been built.
    if fit < Fit.RIGHT and len(candidate.weight_conventions()) > len({option.weights for option in options}):
        more = candidate.weight_conventions()[1:]
        again = [dataclasses.replace(option, weights=weights) for option in options for weights in more]
        options = [*options, *again]
        fit, share = choose_convention(candidate, options, plain, memory, choose=of_block, explain=False)
    if fit == Fit.RAISES and needed and not candidate.neutral_masks:
        candidate.neutral_masks = True
        chosen = _try_layout(candidate, seed, entry)
        candidate.neutral_masks = chosen.fit > Fit.RAISES
        return chosen
    if fit == Fit.RUNS and not of_block:
        fit, share = _find_choices(candidate, options, plain, memory)
    return ChosenConvention(fit, sizes, drawn, candidate.convention, share=share)


def _causal_forms(candidate: Candidate) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Yield whether the candidate may always be causal, with the design choice of the corner of its mask."""
    for causal in candidate.causal_options():
        yield causal, ()
        if causal and candidate.accepts.cross:
            yield causal, ("causal-bottom-right",)


def _with_open_masks(candidate: Candidate, options: Sequence[Convention]) -> list[Convention]:
    """Return the options with masks that hide nothing, for code that needs a mask in every call."""
    return [
        dataclasses.replace(
            option,
            mask_dtype=dtype,
            mask_shape=shape,
            padding_shape=shape if shape in candidate.padding_shapes() else "B,S",
            mask_meaning=meaning,
            padding_meaning=meaning,
        )
        for option in options
        for meaning in ("attends", "hides")
        if meaning not in candidate.closing
        for dtype in MASK_DTYPES[:2]
        for shape in dict.fromkeys((*candidate.mask_shapes(), *candidate.padding_shapes()))
        if shape in MASK_SHAPES
    ]


def _closing(candidate: Candidate, opened: Sequence[Convention], trial: Trial, memory: Memory) -> frozenset[str]:
    """Return the meanings of True with which masks that should hide nothing hide everything, and not with another.

    Then every query gets the same, as in code that never uses the query.
    """
    alike: dict[str, bool] = {}
    for option in opened:
        if option.mask_meaning in alike:
            continue
        candidate.use_convention(option)
        answer = _remembered(candidate, trial, memory).answer
        if not answer.error:
            rows = np.nan_to_num(answer.output)
            alike[option.mask_meaning] = np.allclose(rows, rows[..., :1, :], rtol=1e-6)
    return frozenset(meaning for meaning, same in alike.items() if same and not all(alike.values()))


def _with_running_masks(
    candidate: Candidate, options: Sequence[Convention], drawn: Sequence[Trial]
) -> list[Convention]:
    """Return the options with masks of the forms that a block runs with, one form for each meaning of True."""
    firsts: dict[str, Convention] = {}
    for option in options:
        firsts.setdefault(option.dtype, option)
    tried = _tried(candidate, _mask_forms(candidate, [*firsts.values()]), drawn, {})
    running = {
        (one.option.mask_meaning, one.option.padding_meaning): one.option for one in reversed(tried) if one.results
    }
    return [
        dataclasses.replace(form, weights=weights)
        for form in reversed(running.values())
        for weights in candidate.weight_conventions()
    ]


def _fitting_choices(candidate: Candidate, answered: Sequence[TrialResult]) -> tuple[str, ...] | None:
    """Return the design choices that make the answers of a block right, the fewest choices first, or `None`.

    The candidate's answers do not depend on the choices, so each trial is called once.
    """
    for ids in combinations(candidate.chain, answered[0].trial, candidate.expected):
        if matching.explains(with_choices(answered, ids)):
            return ids
    return None


def _explained_choices(
    candidate: Candidate, answered: Sequence[TrialResult], further: bool = False
) -> tuple[str, ...] | None:
    """Return the likely design choices with which one known mistake explains the answers, or `None`.

    All choices of an embedding are tried. Of a block's, those nearest to the answers are, or `further` ones, the
    likeliest first: many choices that the block does not make can come nearer to wrong answers than the right ones.
    """
    likely = candidate.likely_choices(answered[0].trial)
    near = sorted(likely, key=lambda ids: matching.judge(with_choices(answered[:1], ids)).distance)
    different: dict[Any, tuple[str, ...]] = {}  # choices that change nothing in these calls are tried once
    for ids in near:
        different.setdefault(_reference(answered, ids), ids)
    nearest, count = [*different.values()], len(different) if candidate.chain == "embedding" else LIKELY
    tried = [*dict.fromkeys([*nearest[:count], likely[0]])]
    if further:
        others = {*nearest[count:]}
        tried = [ids for ids in likely if ids in others][: MOST - count]
    for ids in tried:
        if matching.singles(with_choices(answered, ids), candidate.chain):
            # The mistake may be another activation.
            shorter = tuple(id for id in ids if id in candidate.expected or CHOICES[id].group != "activation")
            return shorter if matching.singles(with_choices(answered, shorter), candidate.chain) else ids
    return None


def _reference(answered: Sequence[TrialResult], ids: Sequence[str]) -> tuple[bytes, ...]:
    """Return the right outputs with these choices, or nothing if the choices are impossible with these sizes."""
    try:
        return tuple(each.right["output"].tobytes() for each in with_choices(answered, ids))
    except ImpossibleError:
        return ()


def _choices_with_two_mistakes(candidate: Candidate, answered: Sequence[TrialResult]) -> tuple[str, ...] | None:
    """Return an embedding's likely design choices with which two known mistakes explain the answers, or `None`."""
    likely = candidate.likely_choices(answered[0].trial) if candidate.chain == "embedding" else []
    return next((ids for ids in likely if find_pairs(with_choices(answered, ids), candidate.chain)), None)


def _nearest_choices(candidate: Candidate, answered: Sequence[TrialResult]) -> tuple[str, ...]:
    """Return the likely design choices that come nearest to the answers."""
    likely = candidate.likely_choices(answered[0].trial)
    return min(likely, key=lambda ids: matching.judge(with_choices(answered[:1], ids)).distance)


def _find_choices(
    candidate: Candidate, options: Sequence[Convention], drawn: Sequence[Trial], memory: Memory
) -> tuple[Fit, float]:
    """Look for design choices that make attention right, or else for a known mistake without or with such choices.

    The candidate's answers do not depend on the choices, so each trial is called once for each option.
    """
    dtype, first = candidate.convention.dtype, candidate.convention
    rotates = mentions(candidate, naming.ROTARY.pattern)
    nearest: dict[Any, tuple[float, Convention, list[TrialResult]]] = {}  # with the likeliest epsilon alone
    for option in [option for option in options if option.dtype == dtype][:MAX_OPTIONS]:
        candidate.use_convention(option)
        results = [_remembered(candidate, trial, memory) for trial in drawn]
        answered = [result for result in results if not result.answer.error]
        for ids, epsilon in attention_choices(candidate, answered) if answered else ():
            far = distance_with(answered, ids, epsilon)
            chosen = dataclasses.replace(option, choices=ids, norm_epsilon=epsilon)
            if far is None:
                candidate.use_convention(chosen)
                return Fit.RIGHT, len(answered) / len(drawn)
            if ids:
                nearest.setdefault((option, ids), (far, chosen, answered))
    candidate.use_convention(first)
    fit, share = choose_convention(candidate, options, drawn, memory)
    if fit >= Fit.EXPLAINED:
        return fit, share

    def against(each: tuple[float, Convention, list[TrialResult]]) -> int:
        _, chosen, answered = each
        turned = any(id.startswith("rotary") for id in chosen.choices)
        return (turned and not rotates) + unlikeliness(chosen.choices, answered)  # code may turn on request only

    ranked = [(against(each), each) for each in nearest.values()]
    least = min((number for number, _ in ranked), default=0)
    likely = [each for number, each in ranked if number == least]
    likely.sort(key=lambda each: len(each[1].choices))  # with a mistake, the distance says little
    for _, chosen, answered in likely[:NEAREST]:
        candidate.use_convention(chosen)
        with_ids = with_choices(answered, chosen.choices, chosen.norm_epsilon)
        if matching.singles(with_ids, candidate.chain):
            return Fit.EXPLAINED, len(answered) / len(drawn)
        candidate.use_convention(first)
    return fit, share


def _is_plain(trial: Trial) -> bool:
    """Return whether a trial has no masks besides the causal mask that every decoder layer has."""
    padded = trial.key_mask is not None or trial.query_mask is not None
    return not (padded or trial.mask is not None or (trial.causal and trial.chain != "decoder"))


def _usual(drawn: Iterable[Trial]) -> list[Trial]:
    """Return the trials without dropout, float16 or extreme values."""
    return [trial for trial in drawn if not trial.rate and trial.dtype == "float64" and "large" not in trial.name]


def _choose_mask_convention(candidate: Candidate, drawn: Sequence[Trial], fit: Fit) -> None:
    """Choose the shape, dtype and meaning of masks, and then of padding masks."""
    if candidate.chain != "attention":
        _choose_masks_of_block(candidate, drawn, fit)
        return
    start, masked = candidate.convention, [trial for trial in _usual(drawn) if trial.masked]
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
    start, padded = candidate.convention, [trial for trial in _usual(drawn) if trial.key_mask is not None]
    padded = [trial for trial in padded if trial.mask is None and not trial.causal][:2] or padded[:2]
    if padded:
        dtypes = (start.mask_dtype,) if masked else MASK_DTYPES
        shapes = [
            {"mask_dtype": dtype, "padding_shape": shape} for dtype in dtypes for shape in candidate.padding_shapes()
        ]
        _choose_meaning(candidate, "padding", [padded[0], padded[-1]], [start], shapes, alone)
    _choose_corner(candidate, drawn)


def _choose_masks_of_block(candidate: Candidate, drawn: Sequence[Trial], fit: Fit) -> None:
    """Choose shapes, dtypes and meanings of a block's masks together, because some calls need several masks.

    If the calls without masks raise errors (`fit`), design choices are looked for too. If those calls differ from the
    reference, the choices made without masks may be wrong: all are tried if nothing explains all calls with masks.
    """
    start = candidate.convention
    masked = [trial for trial in _usual(drawn) if trial.masked]
    unless = tuple("causal-unless-masked" if id == "always-causal" else id for id in start.choices)
    bases = dict.fromkeys([start, dataclasses.replace(start, choices=unless)])
    options = _mask_forms(candidate, [*bases])
    if not masked:
        _choose_again(candidate, [candidate.evaluate(trial) for trial in _usual(drawn)])
        return
    memory: Memory = {}
    padded = [trial for trial in masked if not trial.causal]
    if padded and "always-causal" in start.choices:  # its mask may be for padding alone
        if choose_convention(candidate, _mask_forms(candidate, [start]), padded, memory, explain=False)[0] == Fit.RIGHT:
            return
        candidate.use_convention(start)
    tried = [masked[0], *masked[1:-1:3], masked[-1]]
    found, share = choose_convention(candidate, options, tried, memory, choose=fit == Fit.RAISES)
    first = candidate.convention
    if fit == Fit.RUNS and found < Fit.RIGHT and (found < Fit.EXPLAINED or share < 1):
        again = choose_convention(candidate, _mask_forms(candidate, [start]), tried, memory, choose=True)
        if again <= (found, share):
            candidate.use_convention(first)
    if fit == Fit.RIGHT > found and _choose_square_masks(candidate, start, masked):
        return
    _choose_again(candidate, [candidate.evaluate(trial) for trial in _usual(drawn)])


def _choose_square_masks(candidate: Candidate, start: Convention, masked: Sequence[Trial]) -> bool:
    """Choose masks (T, S) if an encoder layer is right or has one mistake with those, and raises an error with padding.

    Return whether they were chosen.
    """
    first = candidate.convention
    square = [trial for trial in masked if trial.key_mask is None]
    if candidate.chain != "encoder" or "padding" in candidate.roles or not square:
        return False
    forms = _mask_forms(candidate, [start])
    padded = [trial for trial in masked if trial.key_mask is not None and len(trial.query) != trial.query.shape[1]]
    runs = any(_has_right_rank(one.answered) for one in _tried(candidate, forms, padded[:2], {}) if one.results)
    forms = [form for form in forms if form.mask_shape == "T,S"]
    fit, share = (Fit.RAISES, 0.0) if runs else choose_convention(candidate, forms, square)
    if fit >= Fit.EXPLAINED and share == 1:
        return True
    candidate.use_convention(first)
    return False


def _without_padding(candidate: Candidate, drawn: tuple[Trial, ...]) -> tuple[Trial, ...]:
    """Return the trials without padding if an encoder layer takes masks (T, S) alone.

    With padding, it raises an error unless B = T, where (B, S) is taken for (T, S).
    """
    if candidate.chain != "encoder" or "padding" in candidate.roles or candidate.convention.mask_shape != "T,S":
        return drawn
    others = tuple(trial for trial in drawn if trial.key_mask is None)
    padded = [trial for trial in drawn if trial.key_mask is not None and len(trial.query) != trial.query.shape[1]]
    if not any(trial.causal for trial in others) or not all(candidate.evaluate(each).answer.error for each in padded):
        return drawn
    return others if matching.explains(map(candidate.evaluate, others)) else drawn


def _without_causal_masks(candidate: Candidate, drawn: tuple[Trial, ...]) -> tuple[Trial, ...]:
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
    if not ignores and any(not each.answer.error and _has_right_rank([each]) for each in causal):
        return drawn
    return others if matching.explains(map(candidate.evaluate, others)) else drawn


def _choose_again(candidate: Candidate, results: Sequence[TrialResult]) -> None:
    """Choose a block's design choices by all calls, if one mistake explained only some of them with the first choices.

    For instance, large numbers hide whether a GELU is approximated.
    """
    answered = [result for result in results if not result.answer.error]
    if not answered or matching.explains(answered) or matching.singles(answered, candidate.chain):
        return
    for find in (_fitting_choices, _explained_choices, functools.partial(_explained_choices, further=True)):
        ids = find(candidate, answered)
        if ids is not None:
            candidate.use_convention(dataclasses.replace(candidate.convention, choices=ids))
            return


def _mask_forms(candidate: Candidate, bases: Sequence[Convention]) -> list[Convention]:
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
    results = [candidate.evaluate(trial) for trial in _usual(drawn) if _is_plain(trial)]
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
        found = _tried(candidate, options, drawn, memory)
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
    """Return the option with a boolean mask that the commonest mistake explains, if the code handles boolean masks."""
    if not mentions(candidate, BOOLEAN):
        return None
    boolean = [one for one in tried if one.option.mask_dtype == "bool" and one.answered]
    ranks = [(rank(match.mistakes[0]), one) for one in boolean for match in matching.singles(one.answered, "attention")]
    return min(ranks, key=lambda each: each[0])[1] if ranks else None


def _choose_corner(candidate: Candidate, drawn: Sequence[Trial]) -> None:
    """Take a causal mask that is aligned at the bottom right as intended, if no mistake or only one is then left."""
    causal = [trial for trial in _usual(drawn) if trial.causal or candidate.convention.causal]
    causal = [trial for trial in causal if trial.query.shape[-2] < trial.key.shape[-2]][:2]
    start = candidate.convention
    corner = dataclasses.replace(start, choices=(*start.choices, "causal-bottom-right"))
    if causal and "causal-bottom-right" not in start.choices:
        fit, _ = choose_convention(candidate, [start, corner], causal)
        if fit < Fit.EXPLAINED:
            candidate.use_convention(start)


def _choose_returned(candidate: Candidate, drawn: Sequence[Trial]) -> None:
    """Take returned scores that dropout has changed in training as intended, as in torch."""
    training = next((trial for trial in drawn if trial.training and not trial.masked), None)
    scores = None if training is None else candidate.evaluate(training).answer.scores
    if scores is not None and (scores == 0).any() and not np.allclose(scores.sum(-1), 1.0):
        start = candidate.convention
        candidate.use_convention(dataclasses.replace(start, choices=("scores-dropped", *start.choices)))


def choose_convention(
    candidate: Candidate,
    options: Sequence[Convention],
    drawn: Sequence[Trial],
    memory: Memory | None = None,
    choose: bool = False,
    explain: bool = True,
) -> tuple[Fit, float]:
    """Set the option with which most calls run and agree, the first if several are equally good.

    Args:
        candidate: Candidate.
        options: Conventions to try.
        drawn: Trials to run.
        memory: Results of earlier calls, to which the results of these calls are added.
        choose: Whether to look for a block's design choices too. Otherwise, the options' choices are kept.
        explain: Whether to look for an option that one known mistake explains.

    Returns:
        How well the option suits, and the share of calls that run.
    """
    memory = {} if memory is None else memory
    tried = _tried(candidate, options, drawn, memory)
    running: list[Tried] = []
    for one in tried:
        if one.results and not any(_same(one.answered, other.answered) for other in running):
            running.append(one)
    running = _varied([one for one in running if one.takes_masks] or running)
    if choose:
        return _choose_with_choices(candidate, running, tried, len(drawn))
    right = [one for one in running if matching.explains(one.answered)]
    explained: list[Tried] = []
    if explain and not right:
        most = len(running[0].answered) if running else 0  # an option with which all calls run comes first
        likely = [one for one in running if len(one.answered) == most]
        likely = likely if candidate.chain == "attention" else likely[: 2 * ARRANGEMENTS]
        explained = next(([one] for one in likely if matching.singles(one.answered, candidate.chain)), [])
    for fit, among in ((Fit.RIGHT, right), (Fit.EXPLAINED, explained), (Fit.RUNS, running)):
        if among:
            candidate.use_convention(among[0].option)
            return fit, len(among[0].answered) / len(drawn)
    candidate.use_convention(_most_telling(tried) or options[0])
    return Fit.RAISES, 0.0


def _varied(running: Sequence[Tried]) -> list[Tried]:
    """Return the options, those that most calls run with first, and one of each meaning of True before a second one."""
    before: Counter[str] = Counter()
    order: list[tuple[int, int, Tried]] = []
    for one in running:
        order.append((-len(one.answered), before[one.option.mask_meaning], one))
        before[one.option.mask_meaning] += 1
    return [one for *_, one in sorted(order, key=lambda each: each[:2])]


def _choose_with_choices(
    candidate: Candidate, running: Sequence[Tried], tried: Sequence[Tried], count: int
) -> tuple[Fit, float]:
    """Set the option and the design choices of a block that suit it best."""
    first, few = running[:1], running[:ARRANGEMENTS]
    for fit, found, among in (
        (Fit.RIGHT, _fitting_choices, running),
        (Fit.EXPLAINED, _explained_choices, few),
        (Fit.EXPLAINED, functools.partial(_explained_choices, further=True), first),
        (Fit.EXPLAINED_BY_TWO, _choices_with_two_mistakes, few),
        (Fit.RUNS, _nearest_choices, few),
    ):
        for one in among:
            ids = found(candidate, one.answered)
            if ids is not None:
                candidate.use_convention(dataclasses.replace(one.option, choices=ids))
                return fit, len(one.answered) / count
    candidate.use_convention(_most_telling(tried) or tried[0].option)
    return Fit.RAISES, 0.0


def _tried(candidate: Candidate, options: Sequence[Convention], drawn: Sequence[Trial], memory: Memory) -> list[Tried]:
    """Call the candidate with each option, until one makes all calls right.

    A mask whose shape and dtype no call runs with is not tried again with another meaning of True.
    """
    found: list[Tried] = []
    refused: set[Convention] = set()
    runs_in = ""  # float32 is only for candidates that cannot compute in float64
    for option in options:
        if runs_in and option.dtype != runs_in:
            continue
        form = dataclasses.replace(option, mask_meaning="", padding_meaning="", choices=(), causal=False)
        if form in refused:
            continue
        candidate.use_convention(option)
        results = [_remembered(candidate, trial, memory) for trial in drawn]
        answered = [result for result in results if not result.answer.error]
        refused |= set() if answered else {form}
        error = next((each.answer.error for each in results if each.answer.error), "")
        if not answered or not _has_right_rank(answered):
            found.append(Tried(option, (), error))
            continue
        runs_in = option.dtype
        found.append(Tried(option, tuple(results), error))
        if len(answered) == len(drawn) and matching.explains(answered):
            break
    return found


def _remembered(candidate: Candidate, trial: Trial, memory: Memory) -> TrialResult:
    """Evaluate a trial, or take the answer from `memory`. Answers do not depend on what the reference does."""
    plain = dataclasses.replace(candidate.convention, causal=False, choices=(), norm_epsilon=0.0)
    if (plain, id(trial)) not in memory:
        memory[plain, id(trial)] = candidate.evaluate(trial)
        return memory[plain, id(trial)]
    return TrialResult(candidate.adapted(trial), memory[plain, id(trial)].answer)


def _most_telling(tried: Sequence[Tried]) -> Convention | None:
    """Return the first option whose error is not about dtypes, such as "expected Float but found Double"."""
    telling = [one.option for one in tried if not re.search("dtype|double|float", one.error.lower())]
    return telling[0] if telling else tried[0].option if tried else None


def _has_right_rank(results: Sequence[TrialResult]) -> bool:
    """Return whether any output has the right rank. Otherwise, the mask was broadcast along new axes."""
    outputs = ((result.answer.output, result.trial.query) for result in results)
    return any(output is not None and output.ndim == query.ndim for output, query in outputs)


def _same(results: Sequence[TrialResult], other: Sequence[TrialResult]) -> bool:
    """Return whether two options give the same answers to the same calls, so that one option can be skipped."""
    return len(results) == len(other) and all(
        (one.trial.causal, one.trial.choices) == (another.trial.causal, another.trial.choices)
        and same_weights(one.trial, another.trial)
        and np.array_equal(one.answer.output, another.answer.output, equal_nan=True)
        for one, another in zip(results, other, strict=True)
    )
