"""Time several functions in turn, so that other load on the machine affects all of them alike."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

FEWEST_ROUNDS = 3  # number of rounds to make even if the time is over
MOST_RUNS = 200  # maximum number of runs of a function in a round

Round = dict[str, list[float]]


def rounds(
    functions: Mapping[str, Callable[[], Any]],
    count: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Round]:
    """Yield the milliseconds of each function's runs, one round at a time.

    In a round, every function runs a few times before the next function does. Each round begins with another function.
    Quick functions run more often, so that all functions get about the same share of the time.

    Args:
        functions: Functions to time, keyed by name, each of which has run before as a warm-up.
        count: Number of rounds.
        seconds: Approximate time for all rounds. `FEWEST_ROUNDS` rounds are always made.
        clock: Function that returns seconds.

    >>> [[*times] for times in rounds({"a": int, "b": float}, count=3, seconds=0)]
    [['a', 'b'], ['b', 'a'], ['a', 'b']]
    """
    share = 1000 * seconds / (count * len(functions))
    names, start = list(functions), clock()
    runs = dict.fromkeys(names, 1)
    for done in range(count):
        if done >= FEWEST_ROUNDS and clock() - start > seconds:
            return
        first = done % len(names)
        turns = {name: functions[name] for name in names[first:] + names[:first]}
        measured = _round(turns, runs, clock)
        if done == 0 and max(_fitting(share, measured).values()) > 1:
            runs = _fitting(share, _round(turns, dict.fromkeys(names, 3), clock))
            start = clock()
            measured = _round(turns, runs, clock)
        yield measured


def _round(functions: Mapping[str, Callable[[], Any]], runs: Mapping[str, int], clock: Callable[[], float]) -> Round:
    return {name: [_milliseconds(function, clock) for _ in range(runs[name])] for name, function in functions.items()}


def _fitting(share: float, measured: Round) -> dict[str, int]:
    """Return the number of runs of each function that fill its share of the milliseconds."""
    return {name: max(1, min(MOST_RUNS, round(share / max(min(one), 1e-3)))) for name, one in measured.items()}


def _milliseconds(function: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    function()
    return 1000 * (clock() - start)
