"""Describe a mistake that the bank does not know: its first wrong step, a pattern, and the smallest case.

A candidate does not show its steps, but some cases leave steps out. With one key, every score is 1, so a difference
comes from the values. A difference without a mask does not come from the mask. If scores are returned, they show
a step themselves.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import TrialResult, relative_difference
from kmha.verify.diagnosing.trials import Sizes

VALUES = "the path of the values (value projection, mix, merge or output bias)"
LOGITS = "the logits (query or key projection, their product, the scale, or the softmax)"
AFTER = "a step after the scores (dropout, mix, merge or output bias)"
BLOCK = "a sublayer (attention, feed-forward network, residual connection or normalization)"
EMBEDDING = "the tokens' vectors, their scale, or the positions"
RETURNED = "the returned scores (the output is right)"
CHANGED = "a change of its inputs in place"
MASK = "the mask, or how masks are combined"
TRAINING = "dropout, or something else that training changes"
FLOAT16 = "the range or precision of float16"
CLOSE = 1e-5  # relative to the largest element, because some candidates compute in float32
MAX_NUMBERS = 8  # maximum number of numbers in a sentence
FROM_0 = " (counted from 0)"


@dataclasses.dataclass(frozen=True, eq=False)
class Clue:
    """The known facts about an unknown mistake.

    Attributes:
        step: First step that is wrong, or "" if there is no attention at all.
        pattern: Sentences about the difference.
    """

    step: str
    pattern: tuple[str, ...]


def find_clue(candidate: Candidate, sizes: Sizes, results: Sequence[TrialResult]) -> Clue:
    """Find the first wrong step and describe the pattern of the difference, by calling the candidate again."""
    wrong = [result for result in results if result.wrong]
    if role := returned_input(results):
        return Clue("", (f"it returns its {role} unchanged, so it does no attention",))
    shown = min(wrong, key=plainness)
    found = difference_sentences(shown, shown.right["output"], shown.right.get("returned"))
    if not shown.trial.training and not _repeats(candidate, shown):
        found.insert(0, "called twice with the same inputs, it gives two results: it is random, or keeps a state")
    return Clue(first_wrong_step(candidate, sizes, wrong), tuple(found))


def returned_input(results: Sequence[TrialResult]) -> str:
    """Return the name of the input that every answer repeats ("query", "key", "value" or "input"), or ""."""
    roles = [
        role
        for role in ("query", "key", "value")
        if all(_same(result.answer.output, getattr(result.trial, role)) for result in results)
    ]
    return "input" if len(roles) > 1 else "".join(roles)


def _repeats(candidate: Candidate, result: TrialResult) -> bool:
    again = candidate.answer(result.trial)
    return not again.error and np.array_equal(again.output, result.answer.output, equal_nan=True)


def plainness(result: TrialResult) -> tuple[Any, ...]:
    """Return a sort key that is smaller for trials with fewer special features."""
    trial = result.trial
    extreme = "large" in trial.name or trial.dtype != "float64"
    every_row_masked = trial.masked and bool((~trial.allowed()).any(-1).all())
    return bool(trial.rate), extreme, trial.masked, every_row_masked, trial.query.size


def first_wrong_step(candidate: Candidate, sizes: Sizes, wrong: Sequence[TrialResult]) -> str:
    """Return the first step of the chain that is wrong, as far as the trials tell."""
    if candidate.chain != "attention":
        usual = EMBEDDING if candidate.chain == "embedding" else BLOCK
        return MASK if all(result.trial.masked for result in wrong) else usual
    plain = [
        result
        for result in wrong
        if not result.trial.masked and not result.trial.training and result.trial.dtype == "float64"
    ]
    if not plain:
        masked = [result for result in wrong if not result.trial.training and result.trial.dtype == "float64"]
        return MASK if masked else TRAINING if any(result.trial.training for result in wrong) else FLOAT16
    shown = min(plain, key=plainness)
    scores = shown.answer.scores
    scores_right = scores is not None and relative_difference(scores, shown.right["returned"]) <= shown.limit
    if relative_difference(shown.answer.output, shown.right["output"]) <= shown.limit:
        return RETURNED if scores is not None and not scores_right else CHANGED
    single = _with_one_key(candidate, sizes)
    if single is not None and relative_difference(single.answer.output, single.right["output"]) > single.limit:
        return VALUES
    return AFTER if scores_right else LOGITS


def _with_one_key(candidate: Candidate, sizes: Sizes) -> TrialResult | None:
    """Return a trial with one key and one query, or `None` if the candidate raises an error in this trial."""
    small = dataclasses.replace(sizes, rows=1, columns=1)
    result = candidate.evaluate(next(candidate.iter_trials(1, small)))
    return None if result.answer.error else result


def smallest_case(candidate: Candidate, sizes: Sizes, results: Sequence[TrialResult]) -> TrialResult | None:
    """Return the smallest case in which the plainest wrong trial is still wrong."""
    wrong = [result for result in results if result.wrong and not result.trial.rate]
    if not wrong:
        return None
    name = min(wrong, key=plainness).trial.name
    for small in candidate.smaller_sizes(sizes):
        try:
            trial = next((trial for trial in candidate.iter_trials(2, small) if trial.name == name), None)
        except (ValueError, IndexError):  # too small for some trials
            continue
        if trial is None:
            continue
        result = candidate.evaluate(_rounded(trial, candidate.weights is None))
        if not result.answer.error and result.wrong:
            return result
    return None


def _rounded(trial: Trial, free: bool) -> Trial:
    """Round inputs to two decimals for printing. Round weights too if they are `free` to be chosen."""
    weights = {name: np.round(array, 2) if free else array for name, array in trial.weights.items()}
    return trial.with_inputs(lambda array: np.round(array, 2), weights=weights)


def difference_sentences(result: TrialResult, right: np.ndarray, right_scores: np.ndarray | None) -> list[str]:
    """Describe how one answer differs from the right output (B, T, E) and scores (B, H, T, S)."""
    output, scores = result.answer.output, result.answer.scores
    if output is None:
        return []
    if output.shape != right.shape:
        return [f"its output has the shape {output.shape}, and the right shape is {right.shape}"]
    if _same(output, right):
        found = ["its output is right"] if scores is not None else []
    else:
        found = [*_of_output(output, right), *_of_rows(output, right, result)]
    if scores is not None and right_scores is not None:
        found += _of_scores(scores, right_scores, result)
    return found


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    if left.shape != right.shape:
        return False
    scale = max(float(np.max(np.abs(right), initial=0.0)), 1e-30)
    return bool(np.max(np.abs(np.nan_to_num(left - right, nan=np.inf)), initial=0.0) <= CLOSE * scale)


def _of_output(output: np.ndarray, right: np.ndarray) -> Iterator[str]:
    if not np.isfinite(output).all():
        yield f"{int((~np.isfinite(output)).sum())} of its {output.size} numbers are NaN or infinite"
        return
    if not output.any():
        yield "all its numbers are 0"
        return
    factor = float(np.sum(output * right) / max(float(np.sum(right * right)), 1e-30))
    if abs(factor) > CLOSE and _same(output, factor * right):
        yield f"it is {factor:.6g} times the right output everywhere"
    difference = output - right
    if _same(difference, np.broadcast_to(difference[:1, :1] if output.ndim == 3 else difference[:1], output.shape)):
        yield "the difference is the same at every position of every item, like a bias"
    items = [item for item in range(len(output)) if _same(output[item], right[item])]
    if items and len(items) < len(output):
        wrong = [item for item in range(len(output)) if item not in items]
        yield f"the difference is only in {_in('item', wrong)} of the batch, not in {_in('item', items)}{FROM_0}"
    yield from _reordered(output, right, {"the batch": 0, "positions": -2, "features": -1})


def _of_rows(output: np.ndarray, right: np.ndarray, result: TrialResult) -> Iterator[str]:
    """Describe the positions t where the output differs, and whether they are the positions with hidden keys."""
    far = np.abs(np.nan_to_num(output - right, nan=np.inf)).max(axis=(1, 3) if output.ndim == 4 else 2)  # (B, T)
    differs = far > CLOSE * np.abs(right).max()
    hidden = (~result.trial.allowed()).any(-1)
    empty = result.trial.empty_rows()
    if hidden.any() and not hidden.all() and np.array_equal(differs & ~empty, hidden & ~empty):
        yield "it differs only at positions from which the mask hides something; the other positions are right"
    elif differs.any(0).any() and not differs.any(0).all():
        yield f"the difference is only at {_in('position', np.flatnonzero(differs.any(0)).tolist())}{FROM_0}"


def _reordered(array: np.ndarray, right: np.ndarray, axes: dict[str, int]) -> Iterator[str]:
    """Describe an array that contains the right numbers in another order along an axis."""
    if _same(array, right):
        return
    if array.ndim >= 2 and array.shape[-1] == array.shape[-2] and _same(array, np.swapaxes(right, -1, -2)):
        yield "its last two axes are transposed"
    for name, axis in axes.items():
        mine, theirs = (np.moveaxis(each, axis, 0).reshape(each.shape[axis], -1) for each in (array, right))
        order = [next((i for i, row in enumerate(theirs) if _same(row, mine_row)), None) for mine_row in mine]
        if None not in order and len(set(order)) == len(order) and order != sorted(order, key=lambda index: index or 0):
            numbers = _numbers([index or 0 for index in order])
            yield f"its numbers are right, but in another order along {name}: {numbers}"


def _of_scores(scores: np.ndarray, right: np.ndarray, result: TrialResult) -> Iterator[str]:
    if scores.shape != right.shape:
        yield f"its scores have the shape {scores.shape}, and the right shape is {right.shape}"
        return
    if _same(scores, right):
        yield "its scores are right, so the mistake comes after them"
        return
    scores, right = (_items_first(array, len(result.trial.query)) for array in (scores, right))
    factor = _factor_of_logits(scores, right)
    if factor is not None:
        yield f"its scores are what the right logits times {factor:.6g} would give"
    difference = scores - right
    if scores.shape[1] > 1 and _same(scores, np.broadcast_to(scores[:, :1], scores.shape)):
        yield "its scores are the same in all heads"
    elif scores.shape[1] > 1 and _same(difference, np.broadcast_to(difference[:, :1], difference.shape)):
        yield "the difference of its scores is the same in all heads"
    heads = [head for head in range(scores.shape[1]) if _same(scores[:, head], right[:, head])]
    if heads and len(heads) < scores.shape[1]:
        yield f"its scores are right only in {_in('head', heads)}{FROM_0}"
    sums = scores.sum(-1)
    if not np.allclose(sums[np.isfinite(sums)], 1.0, atol=1e-4):
        yield f"its rows of scores sum to between {np.nanmin(sums):.3g} and {np.nanmax(sums):.3g}, not to 1"
    for name, axes in (("the queries", 2), ("the batch", 0), ("the heads", 1)):
        if np.allclose(scores.sum(axes), 1.0, atol=1e-4):
            yield f"its scores sum to 1 over {name}"
    hidden = np.broadcast_to(~result.trial.allowed()[:, None], scores.shape)
    if hidden.any():
        seen = np.abs(scores[hidden]).max()
        yield (
            f"positions that the mask hides get scores of up to {seen:.2g}"
            if seen > CLOSE
            else "positions that the mask hides get no score, as they must"
        )
    yield from _reordered(scores, right, {"the heads": 1, "the queries": 2, "the keys": 3})


def _items_first(scores: np.ndarray, batch: int) -> np.ndarray:
    """Return scores as (B, H, T, S), if they are the average of the heads, (B, T, S), or (H, B, T, S)."""
    if scores.ndim == 3:
        return scores[:, None]
    return scores if len(scores) == batch else np.swapaxes(scores, 0, 1)


def _factor_of_logits(scores: np.ndarray, right: np.ndarray) -> float | None:
    """Return the factor on the logits that explains the scores, or `None`.

    The logits are the log of the scores, up to a constant for each row.
    """
    seen = (right > 0) & (scores > 0)
    if not np.array_equal(right > 0, scores > 0) or not seen.any():
        return None
    mine, theirs = (_centred(np.log(np.where(seen, each, 1.0)), seen) for each in (scores, right))
    factor = float(np.sum(mine * theirs) / max(float(np.sum(theirs * theirs)), 1e-30))
    return factor if _same(mine, factor * theirs) and np.abs(theirs).max() > CLOSE else None


def _centred(logits: np.ndarray, seen: np.ndarray) -> np.ndarray:
    mean = np.sum(logits, -1, where=seen, keepdims=True) / np.maximum(seen.sum(-1, keepdims=True), 1)
    return np.where(seen, logits - mean, 0.0)


def _in(noun: str, values: list[int]) -> str:
    """Return a noun followed by these numbers.

    >>> _in("item", [1]), _in("item", [0, 2])
    ('item 1', 'items 0, 2')
    """
    return f"{noun}{'s' if len(values) > 1 else ''} {_numbers(values)}"


def _numbers(values: list[int]) -> str:
    shown = [str(value) for value in values[:MAX_NUMBERS]]
    return ", ".join([*shown, "…"] if len(values) > MAX_NUMBERS else shown)
