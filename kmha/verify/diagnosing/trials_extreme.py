"""Trials of large numbers, chosen so that a right layer's rounding does not show in them.

A softmax of logits of tens of thousands is one or zero, except where two are close: there a rounding error of the
logits decides. So trials are drawn until no two of a row are close, and the best of some draws is taken.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from kmha.verify.chains.attention import Trial, run

SPREAD = 3e4  # of the logits
CLOSE = 12.0  # two logits whose difference could be of rounding
# Their exponentials are infinite, or zero, in float32 and not in float64: the same code would give two results.
BETWEEN = (80.0, 760.0)
DRAWS = 120
HALF = 65504.0  # the largest float16
HALF_CLOSE = 0.005 * HALF  # query, key and their kernels are rounded by 1/2048 of their size


def large(make: Callable[[], Trial]) -> Trial:
    """Logits of tens of thousands: their exponentials overflow, and what hides them must be larger still."""
    return _best(lambda: _spread(make()), _cost)


def rounded(trial: Trial) -> Trial:
    """Computed in float16; inputs that it holds exactly."""
    return trial.with_inputs(lambda array: array.astype("float16").astype("float64"), dtype="float16")


def overflowing(make: Callable[[], Trial]) -> Trial:
    """Of float16: query · key is larger than float16 can hold, and is not once it is scaled."""
    return _best(lambda: _overflowing(make()), _half_cost)


def _best(draw: Callable[[], Trial], cost: Callable[[Trial], float]) -> Trial:
    best, least = None, math.inf
    for _ in range(DRAWS):
        trial = draw()
        found = cost(trial)
        if found < least:
            best, least = trial, found
        if not least:
            break
    if best is None:
        raise ValueError(f"none of {DRAWS} draws gives a number: the weights must be finite.")
    return best


def _times(trial: Trial, factor: float, items: int | None = None) -> Trial:
    """Query and key of the first `items` are multiplied, so that their logits are, by about `factor`."""
    roots = np.ones(len(trial.query))
    roots[:items] = math.sqrt(factor)
    same = trial.value is trial.key
    scaled = trial.with_inputs(lambda array: (array.T * roots).T)
    return scaled if same else dataclasses.replace(scaled, value=trial.value)


def _spread(trial: Trial) -> Trial:
    """Without a mask, of the first item alone: the largest logit of all is then far above those of the other."""
    return _times(trial, SPREAD / float(run(trial)["scaled"].std()), items=1 if trial.mask is None else None)


def _cost(trial: Trial) -> float:
    """How many logits could be rounded to another result; with a mask, also which constants would not show."""
    state = run(trial)
    scaled, allowed = state["scaled"], np.broadcast_to(state["allowed"], state["scaled"].shape)
    if trial.mask is None:
        scaled, allowed = scaled[:1], allowed[:1]
    size = np.abs(scaled)
    close = 10 * _close(scaled, allowed, CLOSE) + _close(scaled, np.ones_like(allowed), CLOSE)
    cost = float(close + ((size > BETWEEN[0]) & (size < BETWEEN[1])).sum())
    if trial.mask is None:
        return cost
    partly = ~allowed.all(-1)
    scaled, allowed = scaled[partly], allowed[partly]
    best = np.max(scaled, -1, where=allowed, initial=-np.inf)
    ahead = np.max(scaled, -1, where=~allowed, initial=-np.inf) - best
    less = 1e4 / math.sqrt(state["heads"]["query"].shape[-1])
    for number, low, high in ((ahead, 150.0, 0.95 * less), (ahead, 1.05 * less, 9.7e3), (-best, 150.0, 9e3)):
        cost += 5.0 * (not ((number > low) & (number < high)).any())
    return cost + 5.0 * (not (-best > 1.1e4).any())


def _close(logits: np.ndarray, allowed: np.ndarray, distance: float) -> int:
    """In how many rows the two largest of those allowed are close."""
    if logits.shape[-1] == 1:
        return 0
    largest = np.sort(np.where(allowed, logits, -np.inf), axis=-1)[..., -2:]
    return int((largest[..., 1] - largest[..., 0] < distance).sum())


def _overflowing(trial: Trial) -> Trial:
    """Scaled logits below the largest float16, however their terms are summed."""
    for _ in range(2):  # the second time for the biases, which the first did not multiply
        heads, scale = (run(trial)[step] for step in ("heads", "scale"))
        terms = np.abs(heads["query"]) @ np.swapaxes(np.abs(heads["key"]), -1, -2)
        trial = _times(trial, 0.95 * HALF / float(terms.max() * scale))
    return rounded(trial)


def _half_cost(trial: Trial) -> float:
    state = run(trial)
    logits = state["logits"]
    around = (np.abs(logits) > 0.95 * HALF) & (np.abs(logits) < 1.05 * HALF)
    close = _close(state["scaled"], np.ones(logits.shape, bool), HALF_CLOSE)
    return float(around.sum() + 10 * close + 100.0 * (not (logits > 1.05 * HALF).any()))
