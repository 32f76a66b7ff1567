"""Find the calling convention of a candidate by trying the usual conventions.

The search takes the first convention that makes the candidate right. Without such a convention, the search takes the
first convention with answers that one known mistake explains, or else the first that the candidate runs with. So a
right layer is not accused because it expects a mask of another shape.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing import matching, naming
from kmha.verify.diagnosing.block_kind import is_block
from kmha.verify.diagnosing.calling import EMPTY, possible_masks
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
from kmha.verify.diagnosing.mask_search import (
    choose_mask_convention,
    choose_returned,
    mask_forms,
    without_causal_masks,
    without_padding,
)
from kmha.verify.diagnosing.matching import TrialResult
from kmha.verify.diagnosing.trials import SIZE_KINDS, SQUARE, Sizes
from kmha.verify.diagnosing.trying import (
    Fit,
    Memory,
    choose_convention,
    is_plain_call,
    remembered,
    try_all,
    usual_trials,
)
from kmha.verify.diagnosing.verdicts import ENOUGH

LAYOUT = ("entry", "one_head", "framework", "guessed", "sizes")  # parts of a convention that are an input layout
ALIKE = ((HEADS, BATCH, MIDDLE), (BATCH, TIME, IDS), LISTS)  # layouts of which one may run with inputs of another
NEAREST = 16  # number of combinations of design choices that are compared with every mistake
MAX_OPTIONS = 6  # maximum number of arrangements of weights for which to look for design choices


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


def find_convention(candidate: Candidate, seed: int, kinds: Sequence[str] = SIZE_KINDS) -> ChosenConvention:
    """Find the best convention with these kinds of sizes, and set it on the candidate."""
    found: list[ChosenConvention] = []
    lacking: set[Any] = set()  # guesses of which a call needs another
    attempt = functools.cache(lambda kind, entry: _try_layout(candidate, seed, {**dict(entry), "sizes": kind}))
    kinds = _possible_kinds(candidate, attempt, kinds) if candidate.chain == "attention" else (SIZE_KINDS[0], SQUARE)
    for kind in kinds:
        if kind == SQUARE and candidate.chain != "attention" and found[0].fit > Fit.RAISES:
            break
        layouts = candidate.input_layouts()
        if kind != SIZE_KINDS[0] and not candidate.core:  # building layers takes time
            layouts = [each for each in layouts if each["entry"] in (layouts[0]["entry"], BATCH, TIME, SINGLE)]
        for entry in layouts:
            of_kind = [one for one in found if one.convention.sizes == kind]
            if entry.get("guessed") in lacking or not _worth_trying(entry, of_kind):
                continue
            found.append(attempt(kind, tuple(entry.items())))
            if found[-1].fit == Fit.RAISES and is_block(candidate):  # it is read again as what it is
                return found[-1]
            if _needs_a_value(candidate, found[-1]):
                lacking.add(found[-1].convention.guessed)  # and so in every other layout
        # A layout in which all calls run comes before one in which a mistake explains the few that do.
        best = max(found, key=lambda one: (one.fit == Fit.RIGHT, one.share, one.fit))
        is_usual = best.convention.entry == layouts[0]["entry"]
        runs_oddly = best.fit == Fit.RUNS and best.share == 1 and kind != SIZE_KINDS[0] and is_usual
        if (best.fit >= Fit.EXPLAINED and best.share > ENOUGH) or runs_oddly:
            break
    use(candidate, best)
    choose_mask_convention(candidate, best.drawn, best.fit)
    if best.fit >= Fit.EXPLAINED and candidate.core:
        best = _with_masks(candidate, seed, best, layouts)
    explained = [one.convention.entry for one in found if one.fit == Fit.EXPLAINED and best.fit == Fit.RIGHT]
    same_kind = [entry for entry in explained if entry != best.convention.entry]
    wrong_layout = same_kind[0] if same_kind else None
    drawn = without_padding(candidate, without_causal_masks(candidate, best.drawn))
    drawn = _suiting(drawn, candidate.convention.choices)
    choose_returned(candidate, drawn)
    return dataclasses.replace(best, drawn=drawn, convention=candidate.convention, wrong_layout=wrong_layout)


def _suiting(drawn: tuple[Trial, ...], choices: Sequence[str]) -> tuple[Trial, ...]:
    """Return the trials that tell something of attention with design choices.

    Dropout is found by trying all masks, which further steps would hide. ELU + 1 of large numbers is 0, or an epsilon.
    """
    linear = "linear-attention" in choices
    return tuple(each for each in drawn if not ((choices and each.rate) or (linear and "large" in each.name)))


def _needs_a_value(candidate: Candidate, chosen: ChosenConvention) -> bool:
    """Return whether calls raise an error because a required argument that no name explains was None."""
    if chosen.fit > Fit.RAISES or "None" not in {text for _, text in chosen.convention.guessed}:
        return False
    return "None" in candidate.evaluate(chosen.drawn[0]).answer.error


def _possible_kinds(
    candidate: Candidate, attempt: Callable[..., ChosenConvention], kinds: Sequence[str]
) -> Sequence[str]:
    """Return the kinds of sizes, without the first if a layer is right in the usual layout with the second alone.

    All other layouts would be tried with sizes that it does not take, and each of these calls would raise an error.
    """
    if candidate.core or not {*SIZE_KINDS} <= {*kinds}:
        return kinds
    layouts = candidate.input_layouts()
    usual = [tuple(entry.items()) for entry in layouts if entry["entry"] == layouts[0]["entry"]]
    if len(usual) == 1 or any(attempt(kinds[0], each).fit != Fit.RAISES for each in usual):
        return kinds
    return kinds[1:] if any(attempt(kinds[1], each).fit == Fit.RIGHT for each in usual) else kinds


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
        choose_mask_convention(candidate, other.drawn, other.fit)
        share = _share_with_masks(candidate, other.drawn)
        if share > most:
            best, chosen, most = other, candidate.convention, share
    if candidate.convention != chosen:
        use(candidate, best)
        candidate.use_convention(chosen)
    return best


def _share_with_masks(candidate: Candidate, drawn: Sequence[Trial]) -> float:
    """Return the share of the calls with masks that run, or 1 if no call has a mask."""
    masked = [trial for trial in usual_trials(drawn) if not is_plain_call(trial)]
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
    plain = [trial for trial in usual_trials(drawn) if is_plain_call(trial)][:3]
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
    found = ChosenConvention(fit, sizes, drawn, candidate.convention, share=share)
    return _without_none(candidate, seed, entry, found) if fit < Fit.RIGHT else found


def _without_none(candidate: Candidate, seed: int, entry: dict, found: ChosenConvention) -> ChosenConvention:
    """Return the convention with masks that hide nothing if a required mask cannot be `None`, or else `found`.

    In NumPy, `np.where(None, logits, -1e9)` raises no error, and hides everything.
    """
    required = [
        role
        for role in possible_masks(candidate.roles, candidate.call_parameters)
        if candidate.call_parameters[candidate.roles[role]].default is EMPTY
    ]
    if not required or candidate.neutral_masks or candidate.chain != "attention":
        return found
    candidate.neutral_masks = True
    other = _try_layout(candidate, seed, entry)
    if other.fit > found.fit:
        return other
    candidate.neutral_masks = False
    use(candidate, found)
    return found


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
        answer = remembered(candidate, trial, memory).answer
        if not answer.error:
            rows = np.nan_to_num(answer.output)
            least = 1e-6 * np.abs(rows).max(initial=0.0)  # rounding in float32
            alike[option.mask_meaning] = np.allclose(rows, rows[..., :1, :], rtol=1e-6, atol=least)
    return frozenset(meaning for meaning, same in alike.items() if same and not all(alike.values()))


def _with_running_masks(
    candidate: Candidate, options: Sequence[Convention], drawn: Sequence[Trial]
) -> list[Convention]:
    """Return the options with masks of the forms that a block runs with, one form for each meaning of True."""
    firsts: dict[str, Convention] = {}
    for option in options:
        firsts.setdefault(option.dtype, option)
    tried = try_all(candidate, mask_forms(candidate, [*firsts.values()]), drawn, {})
    running = {
        (one.option.mask_meaning, one.option.padding_meaning): one.option for one in reversed(tried) if one.results
    }
    return [
        dataclasses.replace(form, weights=weights)
        for form in reversed(running.values())
        for weights in candidate.weight_conventions()
    ]


def _with_other_answers(
    candidate: Candidate, options: Iterable[Convention], drawn: Sequence[Trial], memory: Memory
) -> Iterator[tuple[Convention, list[TrialResult]]]:
    """Yield options with their results, without those that answer or raise an error as one before, with its weights."""
    known: set[Any] = set()
    for option in options:
        candidate.use_convention(option)
        results = [remembered(candidate, trial, memory) for trial in drawn]
        answers = [b"" if each.answer.output is None else each.answer.output.tobytes() for each in results]
        form = option.weights, option.causal, *answers
        if form not in known:
            known.add(form)
            yield option, results


def _find_choices(
    candidate: Candidate, options: Sequence[Convention], drawn: Sequence[Trial], memory: Memory
) -> tuple[Fit, float]:
    """Look for design choices that make attention right, or else for a known mistake without or with such choices.

    The candidate's answers do not depend on the choices, so each trial is called once for each option.
    """
    dtype, first = candidate.convention.dtype, candidate.convention
    rotates = mentions(candidate, naming.ROTARY.pattern)
    nearest: dict[Any, tuple[float, Convention, list[TrialResult]]] = {}  # with the likeliest epsilon alone
    same_dtype = [option for option in options if option.dtype == dtype]
    order = [*dict.fromkeys(option.weights for option in same_dtype)]
    same_dtype.sort(key=lambda option: order.index(option.weights))  # the likeliest weights in all causal forms first
    for option, results in itertools.islice(_with_other_answers(candidate, same_dtype, drawn, memory), MAX_OPTIONS):
        answered = [result for result in results if not result.answer.error]
        for ids, epsilon in attention_choices(candidate, answered) if answered else ():
            far = distance_with(answered, ids, epsilon)
            chosen = dataclasses.replace(option, choices=ids, norm_epsilon=epsilon)
            if far is None:
                candidate.use_convention(chosen)
                return Fit.RIGHT, len(answered) / len(drawn)
            if ids and "linear-attention" not in ids:  # without a softmax, other sums are no mistake
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
    usual = (options[0].weights, options[0].causal)  # with these, two choices are likelier than one with others
    first_ones = [each for each in likely if (each[1].weights, each[1].causal) == usual][:NEAREST]
    for _, chosen, answered in [*first_ones, *(each for each in likely[:NEAREST] if each not in first_ones)]:
        candidate.use_convention(chosen)
        with_ids = with_choices(answered, chosen.choices, chosen.norm_epsilon)
        if matching.singles(with_ids, candidate.chain):
            return Fit.EXPLAINED, len(answered) / len(drawn)
        candidate.use_convention(first)
    return fit, share
