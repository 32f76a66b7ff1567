"""What two arrays' difference has in common, in one sentence each: where, along which axis, by which factor."""

from collections.abc import Iterator

import numpy as np

from kmha.verify.diagnosing.measuring import Asked

CLOSE = 1e-5  # relative to the largest element: float32 candidates are among those that are looked at
MOST = 8  # numbers in a sentence


def sentences(asked: Asked, right: np.ndarray, right_scores: np.ndarray | None) -> list[str]:
    """All that is true of one answer's difference from the right output (B, T, E) and scores (B, H, T, S)."""
    output, scores = asked.answer.output, asked.answer.scores
    if output is None:
        return []
    if output.shape != right.shape:
        return [f"its output has the shape {output.shape}, where {right.shape} is right"]
    if _same(output, right):
        found = ["its output is right"] if scores is not None else []
    else:
        found = [*_of_output(output, right), *_of_rows(output, right, asked)]
    if scores is not None and right_scores is not None:
        found += _of_scores(scores, right_scores, asked)
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


def _of_rows(output: np.ndarray, right: np.ndarray, asked: Asked) -> Iterator[str]:
    """Which positions t differ, and whether they are those of which something is hidden."""
    far = np.abs(np.nan_to_num(output - right, nan=np.inf)).max(axis=(1, 3) if output.ndim == 4 else 2)  # (B, T)
    differs = far > CLOSE * np.abs(right).max()
    hidden = (~asked.trial.allowed()).any(-1)
    empty = asked.trial.empty_rows()
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


def _of_scores(scores: np.ndarray, right: np.ndarray, asked: Asked) -> Iterator[str]:
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
    hidden = np.broadcast_to(~asked.trial.allowed()[:, None], scores.shape)
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
