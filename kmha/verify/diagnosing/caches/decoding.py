"""The functions that a diagnosis of a cache calls: a candidate's decoding without and with its cache."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Decoding:
    """A candidate's decoding, without and with its cache, as functions of NumPy arrays.

    Attributes:
        full: Function of tokens (B, T, I), or ids (B, T), that returns the output (B, T, E) without a cache.
        start: Function of the batch size and the number of positions of a request that returns an empty cache.
        step: Function of the tokens of a call, the cache, and the position of the call's first token. It returns the
            call's output (B, T, E) and the new cache.
        width: Number of input features (I), or 0 for ids.
        vocabulary: Number of ids.
        causal: Whether `full` is causal. If it is not, every position is computed as the end of a sequence of its own.
        several: Whether a request's first call may bring several positions.
        batches: Whether B may be chosen. If not, it is 1.
        positions: Function of tokens and the positions (T,) that they have in their request, like `full` without a
            cache, or `None` if positions cannot be chosen.
        weights: Canonical weights of a single causal attention that `full` computes, if known.
        dtype: Dtype that the candidate computes in.
        says: How kmha calls the candidate, as a phrase.
        guessed: Whether the candidate's call has optional arguments that kmha does not understand.
        capacity: Number of positions of a preallocated cache that the candidate keeps, or 0.
        fresh: Function that puts the candidate back into the state before its first call.
        kept: Whether all requests use the same cache. If not, each begins with an empty one.
        alone: Function of a sequence that calls the candidate with one position after another, if it takes no more.
        appends: Whether `step` appends to the cache what a call of the candidate returns.

    Example:

    >>> def step(tokens, cache, position):
    ...     cache = np.concatenate([cache, tokens], axis=1)  # the keys are the tokens, with uniform attention
    ...     return cache.mean(axis=1, keepdims=True), cache
    >>> averages = Decoding(
    ...     full=lambda tokens: np.cumsum(tokens, axis=1) / np.arange(1, tokens.shape[1] + 1)[:, None],
    ...     start=lambda batch, length: np.zeros((batch, 0, 3)),
    ...     step=step,
    ...     width=3,
    ...     several=False,
    ... )
    >>> from kmha.verify import diagnose
    >>> diagnose(averages).verdict
    'right'
    """

    full: Callable[[np.ndarray], Any]
    start: Callable[[int, int], Any]
    step: Callable[[np.ndarray, Any, int], tuple[Any, Any]]
    width: int = 0
    vocabulary: int = 0
    causal: bool = True
    several: bool = True
    batches: bool = True
    positions: Callable[[np.ndarray, np.ndarray], Any] | None = None
    weights: Mapping[str, np.ndarray] | None = None
    dtype: str = "float64"
    says: str = ""
    guessed: bool = False
    capacity: int = 0
    fresh: Callable[[], None] = lambda: None
    appends: bool = False
    kept: bool = True
    alone: Callable[..., Any] | None = None

    def tokens(self, rng: np.random.Generator, batch: int, length: int) -> np.ndarray:
        """Draw random tokens (B, T, I), or ids (B, T) of which none is 0."""
        if self.width:
            return rng.normal(size=(batch, length, self.width))
        return rng.integers(1, self.vocabulary, size=(batch, length))

    def decode(self, requests: Any, lengths: Any, capacity: int) -> np.ndarray:
        """Decode requests one after another, in calls with `lengths` positions, and return all outputs (B, T, E)."""
        outputs = []
        self.fresh()
        for tokens, each in zip(requests, lengths, strict=True):
            cache, position = self.start(len(tokens), capacity), 0
            for length in each:
                output, cache = self.step(tokens[:, position : position + length], cache, position)
                outputs.append(_rows(output, len(tokens), length))
                position += length
        return np.concatenate(outputs, axis=1)


def _rows(output: Any, batch: int, length: int) -> np.ndarray:
    """Return the output of a call as (B, T, E). Some models return only their last position, which has no axis."""
    output = np.asarray(output, "float64")
    if output.ndim == 2 and length == 1 and len(output) == batch:
        output = output[:, None]
    if output.shape[:2] != (batch, length):
        raise ValueError(f"expected an output of {batch} items and {length} positions. Received: {output.shape}.")
    return output
