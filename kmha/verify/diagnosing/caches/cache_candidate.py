"""A key/value cache as a candidate: decoding with the cache is compared with decoding without it, call by call.

The candidate's own uncached output is what is right. If kmha can read the weights of a single attention, it computes
what each mistake would give with these weights. If not, it calls the candidate without a cache on the sequence that a
mistake makes of the request.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Trial
from kmha.verify.chains.caches import NAME, Attend, SequenceAttend, WeightsAttend, trial_of
from kmha.verify.diagnosing.caches.decoding import Decoding
from kmha.verify.diagnosing.candidate import Candidate, quietly
from kmha.verify.diagnosing.matching import Answer
from kmha.verify.diagnosing.slips import error_line
from kmha.verify.tolerance import is_close

# The calls of each trial: for each request, the number of positions in each call.
TRIALS: dict[str, list[list[int]]] = {
    "one position in each call": [[1] * 6],
    "a prompt of 3": [[3, 1, 1, 1]],
    "a prompt of 6": [[6, 1, 1]],
    "one item": [[4, 1, 1, 1]],
    "a shorter request after another": [[4, 1, 1], [2, 1, 1]],
    "a longer request after another": [[2, 1], [3, 1, 1, 1]],
    "many positions": [[16, 1, 1, 1]],
}
# Not every cache is meant for this, so a difference is no mistake.
SEVERAL = "several positions in each call"
BATCH, CAPACITY = 3, 20  # one capacity, because some frameworks compile each shape anew


@dataclasses.dataclass(frozen=True)
class CacheSizes:
    """The batch size and the sizes of a token."""

    batch: int
    width: int
    vocabulary: int

    def __str__(self) -> str:
        return f"B={self.batch}, " + (f"I={self.width}" if self.width else f"{self.vocabulary} token ids")


class CacheCandidate(Candidate):
    """A candidate's decoding with a cache."""

    chain = NAME

    def __init__(self, decoding: Decoding, name: str) -> None:
        self.decoding, self.name = decoding, name
        self.framework = "numpy"

    def sizes(self, rng: np.random.Generator) -> Any:
        return CacheSizes(BATCH if self.decoding.batches else 1, self.decoding.width, self.decoding.vocabulary)

    def attend(self) -> Attend:
        """Return how mistakes are computed: with the candidate's weights, or with its uncached calls."""
        decoding = self.decoding
        if decoding.weights is not None:
            return WeightsAttend(dict(decoding.weights))
        ordered = self._is_ordered()
        if decoding.positions is not None:
            return SequenceAttend(decoding.positions, ordered, positions=True, causal=decoding.causal)
        return SequenceAttend(decoding.full, ordered, causal=decoding.causal)

    def _is_ordered(self) -> bool:
        """Return whether the uncached output at the last position depends on the order of earlier positions."""
        tokens = self.decoding.tokens(np.random.default_rng(5), 2, 5)
        with quietly():
            right, other = self.decoding.full(tokens), self.decoding.full(tokens[:, [2, 0, 3, 1, 4]])
        return not is_close(np.asarray(other)[:, -1], np.asarray(right)[:, -1], "float32")

    def iter_trials(self, seed: int, sizes: Any) -> Iterator[Trial]:
        rng, decoding = np.random.default_rng(seed), self.decoding
        more = decoding.several, decoding.capacity, decoding.kept
        yield from draw_trials(rng, self.attend(), decoding.tokens, sizes.batch, *more)

    def draw(self, seed: int, sizes: Any) -> list[Trial]:
        return [trial for trial in self.iter_trials(seed, sizes) if self.decoding.several or trial.name != SEVERAL]

    def answer(self, trial: Trial) -> Answer:
        more = trial.more
        try:
            with self._reported(trial.name), quietly():
                output = self.decoding.decode(more["requests"], more["lengths"], more["capacity"])
        except (Exception, SystemExit) as error:  # untrusted code may raise anything
            return Answer(error=error_line(error))
        return Answer(output, dtype=self.decoding.dtype)

    def code(self, trial: Trial) -> list[str]:
        return []


def draw_trials(
    rng: np.random.Generator,
    attend: Attend,
    tokens: Callable[[np.random.Generator, int, int], np.ndarray],
    batch: int = BATCH,
    several: bool = True,
    capacity: int = 0,
    kept: bool = True,
) -> Iterator[Trial]:
    """Yield all trials of a cache.

    Args:
        rng: Source of the tokens.
        attend: How a position is computed without a cache.
        tokens: Function of `rng`, B and T that draws tokens.
        batch: Batch size (B) of all trials but one.
        several: Whether a call may bring several positions.
        capacity: Number of positions of a preallocated cache, or 0 for a few more than the longest trial needs.
        kept: Whether all requests use the same cache.
    """
    for name, lengths in {**TRIALS, SEVERAL: [[3, 2, 3]]}.items():
        if not several:
            lengths = [[1] * sum(each) for each in lengths]
        items = 1 if name == "one item" else batch
        requests = [tokens(rng, items, sum(each)) for each in lengths]
        yield trial_of(name, requests, lengths, capacity or CAPACITY, attend, kept)


def influences(decoding: Decoding, trial: Trial, item: int) -> list[frozenset[tuple[int, int, int]]]:
    """Return for each decoded position of an item the tokens that change its output: (item, request, position)."""
    more = trial.more

    def decode(requests: Any) -> np.ndarray:
        with quietly():
            return decoding.decode(requests, more["lengths"], more["capacity"])

    right = decode(more["requests"])
    found: list[set[tuple[int, int, int]]] = [set() for _ in range(right.shape[1])]
    scale = float(np.abs(right).max())
    for request, tokens in enumerate(more["requests"]):
        for other in range(len(tokens)):
            for position in range(tokens.shape[1]):
                changed = [each.copy() for each in more["requests"]]
                new = changed[request][other, position]
                changed[request][other, position] = new + 1 if decoding.width else new % (decoding.vocabulary - 1) + 1
                far = np.abs(decode(changed)[item] - right[item]).max(axis=-1)
                for row in np.flatnonzero(far > INFLUENCE * scale):
                    found[row].add((other, request, position))
    return [frozenset(each) for each in found]


INFLUENCE = 1e-6  # a smaller change, relative to the largest output, is rounding
