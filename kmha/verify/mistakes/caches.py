"""Mistakes in what a key/value cache keeps, which must be the keys and values of a request's earlier positions."""

from collections.abc import Callable
from typing import Any

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.chains.caches import Call, Entry, entries
from kmha.verify.mistakes.entry import register

WRITE = "the line that writes the new key and value into the cache"
READ = "the line that reads the keys and values from the cache"
PAPER = "Pope et al. 2022, section 2.1"
OPERATORS = "DEFault++ (arXiv 2604.28118), cache operators"

Entries = list[Entry]
LONGEST = 500  # number of entries from which a cache is not doubled again


def stored(of: Callable[[Call, list[Call], Entries], Entries]) -> Change:
    """Return a change that keeps `of(call, earlier calls of the request, right entries)` in the cache."""

    def change(state: State, right: Step) -> Any:
        found = []
        for number, (call, kept) in enumerate(zip(state["calls"], right(state), strict=True)):
            earlier = [other for other in state["calls"][:number] if other.request == call.request]
            found.append(of(call, earlier, kept))
        return found

    return change


def _first_call(call: Call, earlier: list[Call], kept: Entries) -> Entries:
    return [entry for entry in kept if entry.position < earlier[0].stop] if earlier else kept


def _last_call(call: Call, earlier: list[Call], kept: Entries) -> Entries:
    return [entry for entry in kept if entry.position >= earlier[-1].start] if earlier else kept


def _call_behind(call: Call, earlier: list[Call], kept: Entries) -> Entries:
    return [entry for entry in kept if entry.position < earlier[-1].start] if earlier else kept


def _rolled(call: Call, earlier: list[Call], kept: Entries) -> Entries:
    """Return what is left in a cache that stays as long as the first call made it."""
    return kept[-earlier[0].stop :] if earlier else kept


def _replaced(call: Call, earlier: list[Call], kept: Entries) -> Entries:
    """Return what is left if every call after the first writes over the last entry."""
    found: Entries = []
    for before in earlier:
        found = found[:-1] + entries(*before)
    return found


def written_early(call: Call, earlier: list[Call], kept: Entries) -> Entries:
    """Return what is left if every call after the first writes one slot too early."""
    return [entry for entry in kept if entry.position != earlier[0].stop - 1] if earlier else kept


def _doubled(found: Entries) -> Entries:
    if len(found) > LONGEST:
        raise ImpossibleError("a cache that doubles in every call does not fit into memory")
    return found + found


def _each_call(of: Callable[[Entries], Entries]) -> Callable[[Call, list[Call], Entries], Entries]:
    """Return what is left if every call stores `of(entries)` instead of all entries."""

    def left(call: Call, earlier: list[Call], kept: Entries) -> Entries:
        found: Entries = []
        for before in earlier:
            found = of(found + entries(*before))
        return found

    return left


for _name, _says, _look, _source, _of in (
    (
        "withheld",
        "You did not attend to the cache: each call attends only to the positions that it brings. Concatenate the "
        "cached keys and values with the new ones.",
        READ,
        OPERATORS,
        lambda call, earlier, kept: [],
    ),
    (
        "stale",
        "You never updated the cache after the first call, so the positions that came later are forgotten. Return or "
        "assign the extended keys and values in every call.",
        WRITE,
        OPERATORS,
        _first_call,
    ),
    (
        "one-call-behind",
        "You attended to the cache as it was one call ago, so the positions of the last call are missing. Update it "
        "before you attend.",
        WRITE,
        OPERATORS,
        _call_behind,
    ),
    (
        "keeps-last-call",
        "You overwrote the cache instead of appending, so it contains only the positions of the last call. Concatenate "
        "along the axis of positions.",
        WRITE,
        PAPER,
        _last_call,
    ),
    (
        "written-early",
        "You wrote the new key and value one slot too early, over the last one of the first call. Write at the index "
        "of the new position.",
        WRITE,
        OPERATORS,
        written_early,
    ),
    (
        "loses-last",
        "You lost the last cached position in every call, off by one. Append after the last position.",
        WRITE,
        OPERATORS,
        _each_call(lambda found: found[:-1]),
    ),
    (
        "loses-first",
        "You lost the first cached position in every call, so the cache does not grow. Let it grow.",
        WRITE,
        OPERATORS,
        _each_call(lambda found: found[1:]),
    ),
    (
        "halves",
        "You lost the older half of the cache in every call. Keep all positions.",
        WRITE,
        OPERATORS,
        _each_call(lambda found: found[len(found) // 2 :]),
    ),
    (
        "doubles",
        "You appended the whole cache to itself in every call. Append only the new keys and values.",
        WRITE,
        PAPER,
        _each_call(_doubled),
    ),
    (
        "replaces-last",
        "You replaced the last cached key and value by the new ones, so the cache never grows. Append to it.",
        WRITE,
        PAPER,
        _replaced,
    ),
    (
        "drops-newest",
        "You read the cache without its last position, off by one. Read up to the index after the last position.",
        READ,
        OPERATORS,
        lambda call, earlier, kept: kept[:-1],
    ),
    (
        "drops-first",
        "You read the cache without its first position, off by one. Read from index 0.",
        READ,
        OPERATORS,
        lambda call, earlier, kept: kept[1:],
    ),
    (
        "drops-oldest",
        "You dropped the oldest keys and values whenever you appended new ones, so the cache stays as long as after "
        "the first call. Let it grow.",
        WRITE,
        PAPER,
        _rolled,
    ),
    (
        "first-half",
        "You kept only the first half of the cache. Keep all positions.",
        READ,
        OPERATORS,
        lambda call, earlier, kept: kept[: len(kept) // 2],
    ),
    (
        "second-half",
        "You kept only the second half of the cache. Keep all positions.",
        READ,
        OPERATORS,
        lambda call, earlier, kept: kept[len(kept) // 2 :],
    ),
):
    register(f"cache-{_name}", _says, _look, _source, stored=stored(_of))

# Prompts of the trials are shorter than most windows, so that a window shows only in a long request.
for _window in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16):
    register(
        f"cache-truncated-to-{_window}",
        f"You truncated the cache to its last {_window} position{'s' if _window > 1 else ''}. Keep all positions, "
        "unless attention is meant to have a sliding window without a cache too.",
        WRITE,
        OPERATORS,
        stored=stored(lambda call, earlier, kept, window=_window: kept[-window:]),  # type: ignore[misc]
    )
