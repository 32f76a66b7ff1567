"""Is every mistake of the bank told from every other, and from the right computation?

Whether two mistakes are the same function hangs on sizes, weights and on what a candidate accepts: with one head, many
are. So it is asked of one *configuration* at a time, and those that are the same are listed, with the reason, in
`kmha.verify.bank.indistinguishable`.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ImpossibleError, State, Trial, run
from kmha.verify.diagnosing import trials
from kmha.verify.diagnosing.matching import candidates
from kmha.verify.diagnosing.measuring import keeping
from kmha.verify.diagnosing.trials import Accepts, Sizes
from kmha.verify.mistakes import BANK

APART = 1e-6  # of the largest element: less than that is the same
RIGHT = "right"


@dataclasses.dataclass(frozen=True)
class Configuration:
    """What is tried together.

    Attributes:
        seed: of sizes, weights and inputs.
        accepts: what the candidate takes.
        core: whether it has no weights.
        scores: whether it returns its scores.
        use_bias: whether its projections have biases.
    """

    seed: int
    accepts: Accepts
    core: bool = False
    scores: bool = True
    use_bias: bool = True

    def draw(self, sizes: Sizes | None = None) -> list[Trial]:
        """Its trials; what dropout keeps is drawn too."""
        rng = np.random.default_rng([self.seed, 1])
        sizes = sizes or trials.draw_sizes(rng, self.accepts, self.use_bias)
        drawn = trials.draw(self.seed, self.accepts, sizes, core=self.core)
        return [with_dropout(trial, rng) for trial in drawn]


def random(seed: int) -> Configuration:
    """Any.

    >>> random(1) == random(1)
    True
    """
    rng = np.random.default_rng(seed)
    flags = ("cross", "mask", "causal", "padding", "query_padding", "training", "wide", "heads", "half", "value")
    drawn = dict(zip(flags, (rng.random(len(flags)) < 0.6).tolist(), strict=True))
    drawn["query_padding"] &= drawn["padding"]
    core, scores, use_bias = (rng.random(3) < (0.25, 0.5, 0.7)).tolist()
    return Configuration(seed, Accepts(**drawn), core, scores, use_bias)


def with_dropout(trial: Trial, rng: np.random.Generator) -> Trial:
    """The trial with what dropout keeps, or would keep, drawn."""
    if not trial.rate:
        return trial
    heads = trial.query.shape[1] if trial.core else trial.weights["query/kernel"].shape[0]
    shape = (trial.query.shape[0], heads, trial.query.shape[-2], trial.key.shape[-2])
    return keeping(trial, (rng.random(shape) >= trial.rate) / (1 - trial.rate))


def same(configuration: Configuration, only: Iterable[str] | None = None) -> list[tuple[str, ...]]:
    """The groups of ids that are one function in this configuration; "right" is among the ids.

    A mistake that is impossible in some trials raises there, which is an answer too; one that is impossible in all of
    them was not made, and is left out.

    Args:
        configuration: what is tried.
        only: ids; all of the attention, if not given.

    >>> plain = Configuration(0, Accepts(mask=False))
    >>> same(plain, ["scale-missing", "mask-missing", "scale-keys"])
    [('right', 'mask-missing')]
    """
    chosen = [BANK[id] for id in only] if only is not None else candidates("attention")
    ids = [RIGHT, *(mistake.id for mistake in chosen)]
    possible: set[int] = set()
    groups = [list(range(len(ids)))]
    for trial in sorted(configuration.draw(), key=_kinds_of_masks, reverse=True):
        # Who has been told from all others need not be run again.
        left = [index for group in groups for index in group if len(group) > 1]
        changes = {index: [chosen[index - 1].changes] if index else [] for index in left}
        found = {index: answer(trial, changes[index], configuration.scores) for index in left}
        possible |= {index for index, one in found.items() if one is not None}
        groups = [part for group in groups for part in _parts(group, found)]
    alike = [tuple(ids[index] for index in group if index in possible) for group in groups if len(group) > 1]
    return [group for group in alike if len(group) > 1]


def _kinds_of_masks(trial: Trial) -> int:
    """The more a trial has, the more mistakes it tells apart."""
    return (trial.mask is not None) + trial.causal + (trial.key_mask is not None)


def _parts(group: list[int], found: Mapping[int, np.ndarray | None]) -> list[list[int]]:
    """A group divided into those whose answers are the same."""
    if len(group) == 1:
        return [group]
    parts: list[list[int]] = []
    for index in group:
        part = next((part for part in parts if _close(found[part[0]], found[index])), None)
        if part is None:
            parts.append([index])
        else:
            part.append(index)
    return parts


def answer(trial: Trial, changes: Sequence[Any], scores: bool = True) -> np.ndarray | None:
    """All that a caller can see, as one row of numbers relative to the largest of their array; `None`: it raises.

    The first of them is the sum of the rest, which shows most differences.
    """
    try:
        state = run(trial, changes)
    except ImpossibleError:
        return None
    row = np.concatenate([[float(state["untouched"])], *(_seen(trial, array) for array in _arrays(state, scores))])
    return np.concatenate([[row.sum()], row])


def _arrays(state: State, scores: bool) -> list[np.ndarray]:
    return [np.asarray(state["output"]), *([np.asarray(state["returned"])] if scores else [])]


def _seen(trial: Trial, array: np.ndarray) -> np.ndarray:
    """One array as a row: its shape, what is not finite, and what is, but for rows that are not compared."""
    finite = np.isfinite(array)
    empty = trial.empty_rows()
    rows = empty[:, :, None] if array.ndim == 3 else empty[:, None, :, None]
    fits = all(one in (1, other) for one, other in zip(rows.shape, array.shape, strict=array.ndim in (3, 4)))
    compared = finite & ~np.broadcast_to(rows, array.shape) if fits else finite
    largest = max(float(np.max(np.abs(array), where=compared, initial=0.0)), 1e-30)
    numbers = np.where(compared, array, 0.0) / largest
    return np.concatenate([array.shape, [np.log(largest)], ~finite.ravel(), numbers.ravel()])


def _close(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    if one.shape != other.shape or abs(one[0] - other[0]) > APART * len(one):
        return False
    return bool((np.abs(one[1:] - other[1:]) <= APART).all())
