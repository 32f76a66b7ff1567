"""Of a mistake that the bank does not know: the first step that departs, the smallest case, the pattern.

A candidate shows no steps, but cases that leave steps out show which one it is: with one key every score is 1, so what
is wrong there is on the way of the values; without a mask the mask is not it; and scores, where they are returned, are
a step of their own.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.diagnosing.candidate import Candidate
from kmha.verify.diagnosing.matching import TrialResult, apart
from kmha.verify.diagnosing.trials import Sizes

VALUES = "the way of the values: value projection, mix, merge or output bias"
LOGITS = "the logits: query or key projection, their product, the scale, or the softmax"
AFTER = "after the scores: dropout, mix, merge or output bias"
BLOCK = "the sublayers: attention, feed-forward network, residual connections or normalizations"
RETURNED = "the scores that are returned: the output is right"
CHANGED = "what it leaves of its inputs: it changes them in place"
MASK = "the mask, or how it is combined"
TRAINING = "dropout, or what else training changes"
FLOAT16 = "the range or precision of float16"
CLOSE = 1e-5  # relative to the largest element: float32 candidates are among those that are looked at
MOST = 8  # numbers in a sentence


@dataclasses.dataclass(frozen=True, eq=False)
class Clue:
    """What can be said of an unknown mistake.

    Attributes:
        step: the first that departs.
        pattern: sentences about the difference.
    """

    step: str
    pattern: tuple[str, ...]


def find_clue(candidate: Candidate, sizes: Sizes, results: Sequence[TrialResult]) -> Clue:
    """All that can be found out with further calls."""
    wrong = [one for one in results if one.wrong]
    shown = min(wrong, key=plainness)
    found = difference_sentences(shown, shown.right["output"], shown.right.get("returned"))
    if not shown.trial.training and not _repeats(candidate, shown):
        found.insert(0, "called twice with the same, it gives two results: something random is on, or it keeps a state")
    return Clue(first_wrong_step(candidate, sizes, results, wrong), tuple(found))


def _repeats(candidate: Candidate, one: TrialResult) -> bool:
    again = candidate.answer(one.trial)
    return not again.error and np.array_equal(again.output, one.answer.output, equal_nan=True)


def plainness(one: TrialResult) -> tuple[Any, ...]:
    """The smaller, the less is special about it."""
    trial = one.trial
    extreme = "large" in trial.name or trial.dtype != "float64"
    everywhere = trial.masked and bool((~trial.allowed()).any(-1).all())  # no row sees everything
    return bool(trial.rate), extreme, trial.masked, everywhere, trial.query.size


def first_wrong_step(
    candidate: Candidate, sizes: Sizes, results: Sequence[TrialResult], wrong: Sequence[TrialResult]
) -> str:
    """The first step of the chain that departs, as far as it can be told."""
    if candidate.chain != "attention":
        return MASK if all(one.trial.masked for one in wrong) else BLOCK
    plain = [one for one in wrong if not one.trial.masked and not one.trial.training and one.trial.dtype == "float64"]
    if not plain:
        masked = [one for one in wrong if not one.trial.training and one.trial.dtype == "float64"]
        return MASK if masked else TRAINING if any(one.trial.training for one in wrong) else FLOAT16
    shown = min(plain, key=plainness)
    scores = shown.answer.scores
    scores_right = scores is not None and apart(scores, shown.right["returned"]) <= shown.limit
    if apart(shown.answer.output, shown.right["output"]) <= shown.limit:
        return RETURNED if scores is not None and not scores_right else CHANGED
    single = _with_one_key(candidate, sizes)
    if single is not None and apart(single.answer.output, single.right["output"]) > single.limit:
        return VALUES
    return AFTER if scores_right else LOGITS


def _with_one_key(candidate: Candidate, sizes: Sizes) -> TrialResult | None:
    """A trial with one key and one query, if the candidate answers it."""
    small = dataclasses.replace(sizes, rows=1, columns=1)
    one = candidate.evaluate(next(candidate.iter_trials(1, small)))
    return None if one.answer.error else one


def smallest_case(candidate: Candidate, sizes: Sizes, results: Sequence[TrialResult]) -> TrialResult | None:
    """The smallest sizes with which the plainest trial that went wrong still does."""
    wrong = [one for one in results if one.wrong and not one.trial.rate]
    if not wrong:
        return None
    name = min(wrong, key=plainness).trial.name
    for small in candidate.smaller_sizes(sizes):
        try:
            trial = next((trial for trial in candidate.iter_trials(2, small) if trial.name == name), None)
        except (ValueError, IndexError):  # too small for some trial
            continue
        if trial is None:
            continue
        one = candidate.evaluate(_short(trial, candidate.weights is None))
        if not one.answer.error and one.wrong:
            return one
    return None


def _short(trial: Trial, free: bool) -> Trial:
    """With numbers of two decimals, to be printed; but for weights that a candidate holds."""
    weights = {name: np.round(array, 2) if free else array for name, array in trial.weights.items()}
    return trial.with_inputs(lambda array: np.round(array, 2), weights=weights)


def difference_sentences(results: TrialResult, right: np.ndarray, right_scores: np.ndarray | None) -> list[str]:
    """All that is true of one answer's difference from the right output (B, T, E) and scores (B, H, T, S)."""
    output, scores = results.answer.output, results.answer.scores
    if output is None:
        return []
    if output.shape != right.shape:
        return [f"its output has the shape {output.shape}, where {right.shape} is right"]
    if _same(output, right):
        found = ["its output is right"] if scores is not None else []
    else:
        found = [*_of_output(output, right), *_of_rows(output, right, results)]
    if scores is not None and right_scores is not None:
        found += _of_scores(scores, right_scores, results)
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
        yield "the difference is the same at every position of every item, as of a bias"
    items = [item for item in range(len(output)) if _same(output[item], right[item])]
    if items and len(items) < len(output):
        wrong = [item for item in range(len(output)) if item not in items]
        yield f"only the batch's items {_numbers(wrong)} differ; {_numbers(items)} are right (counted from 0)"
    yield from _exchanged(output, right, {"the batch": 0, "positions": -2, "features": -1})


def _of_rows(output: np.ndarray, right: np.ndarray, results: TrialResult) -> Iterator[str]:
    """Which positions t differ, and whether they are those of which something is hidden."""
    far = np.abs(np.nan_to_num(output - right, nan=np.inf)).max(axis=(1, 3) if output.ndim == 4 else 2)  # (B, T)
    differs = far > CLOSE * np.abs(right).max()
    hidden = (~results.trial.allowed()).any(-1)
    empty = results.trial.empty_rows()
    if hidden.any() and not hidden.all() and np.array_equal(differs & ~empty, hidden & ~empty):
        yield "it differs only where the mask hides something: the other positions are right"
    elif differs.any(0).any() and not differs.any(0).all():
        yield f"only the positions {_numbers(np.flatnonzero(differs.any(0)).tolist())} differ (counted from 0)"


def _exchanged(array: np.ndarray, right: np.ndarray, axes: dict[str, int]) -> Iterator[str]:
    """Whether the right numbers are there, in another order along an axis."""
    if _same(array, right):
        return
    if array.ndim >= 2 and array.shape[-1] == array.shape[-2] and _same(array, np.swapaxes(right, -1, -2)):
        yield "its last two axes are transposed"
    for name, axis in axes.items():
        mine, theirs = (np.moveaxis(each, axis, 0).reshape(each.shape[axis], -1) for each in (array, right))
        order = [next((i for i, row in enumerate(theirs) if _same(row, mine_row)), None) for mine_row in mine]
        if None not in order and len(set(order)) == len(order) and order != sorted(order, key=lambda index: index or 0):
            yield f"it is right but for the order along {name}: {_numbers([index or 0 for index in order])}"


def _of_scores(scores: np.ndarray, right: np.ndarray, results: TrialResult) -> Iterator[str]:
    if scores.shape != right.shape:
        yield f"its scores have the shape {scores.shape}, where {right.shape} is right"
        return
    if _same(scores, right):
        yield "its scores are right: the mistake comes after them"
        return
    factor = _factor_of_logits(scores, right)
    if factor is not None:
        yield f"its scores are those of logits that are {factor:.6g} times the right ones"
    difference = scores - right
    if scores.shape[1] > 1 and _same(scores, np.broadcast_to(scores[:, :1], scores.shape)):
        yield "its scores are the same in all heads"
    elif scores.shape[1] > 1 and _same(difference, np.broadcast_to(difference[:, :1], difference.shape)):
        yield "the difference of its scores is constant over the heads"
    heads = [head for head in range(scores.shape[1]) if _same(scores[:, head], right[:, head])]
    if heads and len(heads) < scores.shape[1]:
        yield f"the scores of the heads {_numbers(heads)} are right, those of the others are not"
    sums = scores.sum(-1)
    if not np.allclose(sums[np.isfinite(sums)], 1.0, atol=1e-4):
        yield f"its rows of scores sum to {np.nanmin(sums):.3g} up to {np.nanmax(sums):.3g}, not to 1"
    for name, axes in (("the queries", 2), ("the batch", 0), ("the heads", 1)):
        if np.allclose(scores.sum(axes), 1.0, atol=1e-4):
            yield f"its scores sum to 1 over {name}"
    hidden = np.broadcast_to(~results.trial.allowed()[:, None], scores.shape)
    if hidden.any():
        seen = np.abs(scores[hidden]).max()
        yield (
            f"positions that the mask hides get scores up to {seen:.2g}"
            if seen > CLOSE
            else "what the mask hides gets no score, as it must be"
        )
    yield from _exchanged(scores, right, {"the heads": 1, "the queries": 2, "the keys": 3})


def _factor_of_logits(scores: np.ndarray, right: np.ndarray) -> float | None:
    """By which the logits are multiplied, if that explains the scores: they are its log but for a number a row."""
    seen = (right > 0) & (scores > 0)
    if not np.array_equal(right > 0, scores > 0) or not seen.any():
        return None
    mine, theirs = (_centred(np.log(np.where(seen, each, 1.0)), seen) for each in (scores, right))
    factor = float(np.sum(mine * theirs) / max(float(np.sum(theirs * theirs)), 1e-30))
    return factor if _same(mine, factor * theirs) and np.abs(theirs).max() > CLOSE else None


def _centred(logits: np.ndarray, seen: np.ndarray) -> np.ndarray:
    mean = np.sum(logits, -1, where=seen, keepdims=True) / np.maximum(seen.sum(-1, keepdims=True), 1)
    return np.where(seen, logits - mean, 0.0)


def _numbers(values: list[int]) -> str:
    shown = [str(value) for value in values[:MOST]]
    return ", ".join([*shown, "…"] if len(values) > MOST else shown)
