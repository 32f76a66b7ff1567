"""Seal what a released course compares with an answer but does not show: known mistakes, and results that are words.

A known mistake is sealed with the results of its wrong answer, so that only who makes it can read it. A released course
contains neither wrong answers nor their results. Results are summed up as a few rounded projections, and a hash of
these is the key to the mistake's name. The projections are compared up to the tolerance of the checks: a projection
that is close to the edge of its rounding interval is tried in the next interval too.

>>> right, wrong = [CallResult(np.array([2.0, 5.0]))], [CallResult(np.array([3.0, 7.5]))]
>>> book = {}
>>> seal(book, {"id": "tripled"}, wrong, right, [1e-5])
>>> opened(book, [CallResult(np.array([3.0, 7.5 + 1e-9]))], right, [1e-5])
{'id': 'tripled'}
>>> opened(book, [CallResult(np.array([3.0, 7.6]))], right, [1e-5]) is None
True
"""

import contextlib
import hashlib
import itertools
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kmha.sandbox.results import CallResult

PROJECTIONS = 4
FINEST, COARSEST = 1e-3, 0.05  # bounds of the rounding interval, relative to the largest expected element
MAX_TRIES = 64
LONGEST = 10_000  # characters of words that are compared
NAN, LARGEST = 1.7, 1e12  # NaN, which has no projection, counts as this number, and infinity as the largest

Book = dict[str, str]
Token = tuple[str, ...]  # what may stand at this place, the most likely first


def seal(
    book: Book,
    mistake: Mapping[str, str],
    results: Sequence[CallResult | None],
    expected: Sequence[CallResult],
    tolerances: Sequence[float],
) -> None:
    """Add a mistake to a book, unless an earlier mistake, or the solution, gives the same results.

    Args:
        book: Sealed mistakes.
        mistake: What to seal.
        results: Results of the wrong answer, or `None` for calls that are not compared.
        expected: The solution's results.
        tolerances: For each call, the relative tolerance of its checks.
    """
    key = next(_keys(results, expected, tolerances))
    compared = [None if one is None else other for one, other in zip(results, expected, strict=True)]
    right = next(_keys(compared, expected, tolerances))
    if key != right:
        text = json.dumps(mistake).encode()
        book.setdefault(_name(key), bytes(a ^ b for a, b in zip(text, _stream(key, len(text)), strict=True)).hex())


def opened(
    book: Mapping[str, str],
    results: Sequence[CallResult | None],
    expected: Sequence[CallResult],
    tolerances: Sequence[float],
) -> dict[str, str] | None:
    """Return the mistake whose results these are, or `None`. The arguments are those of `seal`."""
    for key in itertools.islice(_keys(results, expected, tolerances), MAX_TRIES):
        if text := book.get(_name(key)):
            data = bytes.fromhex(text)
            with contextlib.suppress(ValueError):  # the book is damaged
                found = json.loads(bytes(a ^ b for a, b in zip(data, _stream(key, len(data)), strict=True)))
                return found if isinstance(found, dict) else None
    return None


def is_words(value: Any) -> bool:
    """Return whether a result is a text, or contains nothing but texts."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    return isinstance(value, str) if inner is None else bool(inner) and all(map(is_words, inner))


def seal_words(words: Any) -> str:
    """Return a hash of a result that is words."""
    salt = secrets.token_hex(8)
    return f"{salt} {_hash(salt, words)}"


def are_sealed(words: Any, sealed: Any) -> bool:
    """Return whether a result, which can be anything, is the words of a hash."""
    salt, _, wanted = str(sealed).partition(" ")
    return is_words(words) and _hash(salt, words) == wanted


def _hash(salt: str, words: Any) -> str:
    text = json.dumps(words, sort_keys=True).encode()[:LONGEST]
    return hashlib.scrypt(text, salt=salt.encode(), n=2**13, r=8, p=1).hex()


def _name(key: bytes) -> str:
    return hashlib.sha256(b"name" + key).hexdigest()[:24]


def _stream(key: bytes, length: int) -> bytes:
    return hashlib.shake_256(b"stream" + key).digest(length)


def _keys(
    results: Sequence[CallResult | None], expected: Sequence[CallResult], tolerances: Sequence[float]
) -> Iterator[bytes]:
    """Yield the keys of some results, the most likely first."""
    tokens: list[Token] = []
    for result, right, tolerance in zip(results, expected, tolerances, strict=True):
        tokens += [("not compared",)] if result is None else _result_tokens(result, _scale(right.value), tolerance)
    for chosen in itertools.product(*tokens):
        yield hashlib.sha256("\n".join(chosen).encode()).digest()


def _result_tokens(result: CallResult, scale: float, tolerance: float) -> list[Token]:
    if result.error is not None:
        return [(f"raised {result.error.get('kind')}",)]
    return [(f"changed {sorted(result.changed)}",), *_tokens(result.value, scale, tolerance)]


def _tokens(value: Any, scale: float, tolerance: float) -> Iterator[Token]:
    if isinstance(value, Mapping):
        yield (f"dict {sorted(map(str, value))}",)
        for _, each in sorted(value.items(), key=lambda pair: str(pair[0])):
            yield from _tokens(each, scale, tolerance)
    elif isinstance(value, tuple | list):
        yield (f"list {len(value)}",)
        for each in value:
            yield from _tokens(each, scale, tolerance)
    elif value is None or isinstance(value, str):
        yield (repr(value),)
    else:
        array = np.asarray(value)
        yield (f"array {array.shape} {array.dtype.kind == 'b'}",)
        if array.dtype.kind in "biufc":
            yield from _array_tokens(array, scale, tolerance)


def _array_tokens(array: np.ndarray, scale: float, tolerance: float) -> Iterator[Token]:
    """Yield the interval of each projection, and the neighbouring interval if the projection is close to it."""
    flat = array.ravel()
    parts = np.concatenate([flat.real, flat.imag]) if array.dtype.kind == "c" else flat
    with np.errstate(all="ignore"):  # the numbers are untrusted
        scaled = parts.astype(np.float64) / scale
    numbers = np.clip(np.where(np.isnan(scaled), NAN, scaled), -LARGEST, LARGEST)
    if numbers.size > PROJECTIONS:
        # The numbers of a legacy generator never change.
        weights = np.random.RandomState(numbers.size).normal(size=(PROJECTIONS, numbers.size))
        numbers = weights @ numbers / np.sqrt(numbers.size)
    width = min(max(FINEST, 100 * tolerance), COARSEST)
    close = min(0.5, 3 * tolerance / width + 1e-6)
    for place in numbers / width + 0.37:  # round numbers are not at the edge of an interval
        whole, rest = int(np.floor(place)), place - np.floor(place)
        other = [whole - 1] if rest < close else [whole + 1] if rest > 1 - close else []
        yield tuple(map(str, [whole, *other]))


def _scale(value: Any) -> float:
    """Return the largest finite absolute number in a result, or 1 if there is none."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, tuple | list):
        return max((_scale(each) for each in value), default=1.0)
    if isinstance(value, str) or value is None:
        return 1.0
    array = np.asarray(value)
    sizes = np.abs(array[np.isfinite(array)]) if array.dtype.kind in "biufc" else array[:0]
    return float(max(sizes, default=0.0)) or 1.0
