"""Mistakes in what a position reads from a key/value cache: other requests, other items, wrong values or positions.

`kmha.verify.mistakes.caches` has the mistakes in what a cache keeps.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.chains.caches import EMPTY, Call, Entry, entries
from kmha.verify.mistakes.caches import OPERATORS, PAPER, READ, WRITE, Entries, stored, written_early
from kmha.verify.mistakes.entry import register

MASK = "the line that makes the mask for the positions of a call"
RESET = "where the cache is made or cleared before a request"
PLACE = "the line that computes the positions of a call"


def _visible(of: Callable[[State, Call, Entries, Entries, int], Entries]) -> Change:
    """Return a change that makes `of(state, call, stored, own, index)` visible to the call's position `index`."""

    def change(state: State, right: Step) -> Any:
        rows = zip(state["calls"], state["stored"], state["appended"], strict=True)
        return [[of(state, call, stored, own, index) for index in range(len(own))] for call, stored, own in rows]

    return change


def _before(state: State, call: Call) -> Entries:
    """Return all entries of the requests before a call's request."""
    lengths = [sum(each) for each in state["trial"].more["lengths"]]
    return [entry for request in range(call.request) for entry in entries(request, 0, lengths[request])]


def _lengths_before(state: State, call: Call) -> tuple[int, ...]:
    """Return the number of positions in each call of the last request, or of none if the cache is not the same."""
    more = state["trial"].more
    return more["lengths"][call.request - 1] if call.request and more["kept"] else (0,)


def _leftover(state: State, call: Call, stored: Entries, own: Entries, index: int) -> Entries:
    """Return also the slots that the last request wrote and this request has not yet written over."""
    return stored + own[: index + 1] + entries(call.request - 1, call.stop, sum(_lengths_before(state, call)))


def _whole_buffer(state: State, call: Call, stored: Entries, own: Entries, index: int) -> Entries:
    """Return also all slots after the call's last position."""
    found = _leftover(state, call, stored, own, index)
    written = max(call.stop, sum(_lengths_before(state, call)))
    return found + [EMPTY] * (state["trial"].more["capacity"] - written)


def _slot_too_many(state: State, call: Call, stored: Entries, own: Entries, index: int) -> Entries:
    """Return also the last slot of the call, which was not written because the call wrote one slot too early."""
    if not call.start:
        return stored + own[: index + 1]
    slot, before = call.stop - 1, _lengths_before(state, call)
    position = slot if slot < before[0] - 1 else slot + 1  # the request before wrote one slot too early too
    return stored + own[: index + 1] + [Entry(call.request - 1, position) if position < sum(before) else EMPTY]


for _name, _says, _look, _source, _sees in (
    (
        "without-own",
        "You attended to the cache alone, so a position does not see its own key and value. Append them first.",
        READ,
        PAPER,
        lambda state, call, stored, own, index: (stored + own[:index]) if stored or index else own[:1],
    ),
    (
        "chunk-not-causal",
        "You let the positions of one call see each other's future. If a call brings several positions, hide s > t.",
        MASK,
        PAPER,
        lambda state, call, stored, own, index: stored + own,
    ),
    (
        "causal-corner",
        "You aligned the causal mask of a call to the upper left corner, so its first position sees only the first key "
        "(as `is_causal=True` does in torch where T ≠ S). Align it to the lower right.",
        MASK,
        "pytorch/pytorch#103082, Dao-AILab/flash-attention#517",
        lambda state, call, stored, own, index: (stored + own)[: index + 1],
    ),
    (
        "leaks",
        "You did not reset the cache, so a request attends to the requests before it. Start each request with an empty "
        "cache.",
        RESET,
        OPERATORS,
        lambda state, call, stored, own, index: _before(state, call) + stored + own[: index + 1],
    ),
    (
        "leaks-and-hides",
        "You did not reset the cache, but counted positions from 0, so a request attends to the beginning of an "
        "earlier request and not to itself. Start each request with an empty cache.",
        RESET,
        OPERATORS,
        lambda state, call, stored, own, index: (_before(state, call) + stored + own)[: call.start + index + 1],
    ),
    (
        "leftovers",
        "You left the last request's keys and values in the slots that this request has not reached, and no mask hides "
        "them. Clear the cache, or hide the slots after the current position.",
        RESET,
        PAPER,
        _leftover,
    ),
    (
        "empty-slots-visible",
        "You attended to the slots of the cache that nothing was written to, whose keys are 0. Hide the slots after "
        "the current position.",
        MASK,
        PAPER,
        _whole_buffer,
    ),
    (
        "appended-twice",
        "You appended each key and value twice, so every cached position counts twice. Append once.",
        WRITE,
        PAPER,
        lambda state, call, stored, own, index: [each for each in stored for _ in range(2)] + own[: index + 1],
    ),
    (
        "own-twice",
        "You appended the new keys and values to a cache that already had them, so a position sees itself twice. "
        "Append once.",
        WRITE,
        PAPER,
        lambda state, call, stored, own, index: stored + own[: index + 1] + (own[: index + 1] if stored else []),
    ),
):
    register(f"cache-{_name}", _says, _look, _source, visible=_visible(_sees))

register(
    "cache-written-early-into-slots",
    "You wrote the new key and value one slot too early in a preallocated cache, over the last one of the first call, "
    "and read a slot that nothing was written to. Write at the index of the new position.",
    WRITE,
    OPERATORS,
    stored=stored(written_early),
    visible=_visible(_slot_too_many),
)


def _turned(batch: int, age: int) -> np.ndarray:
    return np.arange(batch)[:: -1 if age % 2 else 1]


def _items(of: Callable[[int, int], np.ndarray]) -> Change:
    """Return a change that reads stored entries of the items `of(B, calls since the entry was stored)`."""
    return lambda state, right: of


for _name, _which, _reorder in (
    ("first-item", "item 0", lambda batch, age: np.zeros(batch, int)),
    ("next-item", "the next item", lambda batch, age: np.roll(np.arange(batch), -1)),
    ("previous-item", "the previous item", lambda batch, age: np.roll(np.arange(batch), 1)),
    ("reversed-items", "the items in reverse order", lambda batch, age: np.arange(batch)[::-1]),
    ("later-items", "one item further in every call", lambda batch, age: np.roll(np.arange(batch), -age)),
    ("earlier-items", "one item less far in every call", lambda batch, age: np.roll(np.arange(batch), age)),
    ("turned-items", "the items in reverse order, turned in every call", lambda batch, age: _turned(batch, age)),
):
    register(
        f"cache-of-{_name}",
        f"You let each item of the batch attend to the cache of {_which}. Keep the batch axis of the cache in the "
        "order of the inputs, and reorder both together.",
        READ,
        PAPER,
        items=_items(_reorder),
    )


def _valued(of: Callable[[Entries, Call], Entries]) -> Change:
    """Return a change that mixes the values of `of(entries, call)`. The keys stay."""

    def change(state: State, right: Step) -> Any:
        return [[of(row, call) for row in rows] for rows, call in zip(right(state), state["calls"], strict=True)]

    return change


def _late(row: Entries, call: Call) -> Entries:
    """Return the entries shifted by one slot, as if a value were written one call after its key."""
    return [row[0], *row[:-1]] if call.start else row


register(
    "cache-values-late",
    "You appended the values one position later than the keys, so each key has the value of the position before it. "
    "Append both at the same index.",
    WRITE,
    PAPER,
    valued=_valued(_late),
)


def _heads(of: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Change:
    return lambda state, right: of


def _rounded(dtype: str) -> Any:
    def rounded(key: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        import ml_dtypes

        narrow = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
        return tuple(each.astype(narrow).astype(each.dtype) for each in (key, value))  # type: ignore[return-value]

    return rounded


for _name, _says, _change in (
    (
        "values-missing",
        "You appended the keys to the cache, and not the values, which are 0 there. Append both.",
        lambda key, value: (key, np.zeros_like(value)),
    ),
    (
        "keys-missing",
        "You appended the values to the cache, and not the keys, which are 0 there. Append both.",
        lambda key, value: (np.zeros_like(key), value),
    ),
    (
        "keys-as-values",
        "You stored the keys as values too. Store the projected values.",
        lambda key, value: (key, key),
    ),
    (
        "values-as-keys",
        "You stored the values as keys too. Store the projected keys.",
        lambda key, value: (value, value),
    ),
    (
        "keys-and-values-exchanged",
        "You exchanged keys and values when you stored or read them. Keep their order.",
        lambda key, value: (value, key),
    ),
    *(
        (
            dtype,
            f"You stored the keys and values in {dtype}, so they lose digits. Store them in the dtype that you compute "
            "in, or say that this is intended.",
            _rounded(dtype),
        )
        for dtype in ("float16", "bfloat16")
    ),
):
    register(f"cache-{_name}", _says, WRITE, PAPER, stored_heads=_heads(_change))


def _positions(of: Callable[[Entry, Call, int], int]) -> Change:
    """Return a change that gives an entry the position `of(entry, its call, number of its call in the request)`."""

    def change(state: State, right: Step) -> Any:
        if not state["trial"].more["attend"].positions:
            raise ImpossibleError("the candidate takes no positions")
        found: dict[Entry, int] = {}
        for request, lengths in enumerate(state["trial"].more["lengths"]):
            calls = [call for call in state["calls"] if call.request == request]
            for number, call in zip(range(len(lengths)), calls, strict=True):
                found |= {entry: of(entry, call, number) for entry in entries(*call)}
        return lambda entry: found[entry]

    return change


for _name, _says, _place in (
    (
        "position-restarts",
        "You counted positions from 0 in every call. Start at the number of positions that the cache contains.",
        lambda entry, call, number: entry.position - call.start,
    ),
    (
        "position-ahead",
        "You counted positions one too far after the first call. Start at the number of cached positions.",
        lambda entry, call, number: entry.position + (number > 0),
    ),
    (
        "position-behind",
        "You counted positions one too few after the first call. Start at the number of cached positions.",
        lambda entry, call, number: entry.position - (number > 0),
    ),
    (
        "position-counts-calls",
        "You took the number of the call as the position. Count positions, because a call may bring several.",
        lambda entry, call, number: number + entry.position - call.start,
    ),
):
    register(f"cache-{_name}", _says, PLACE, PAPER, positions=_positions(_place))
