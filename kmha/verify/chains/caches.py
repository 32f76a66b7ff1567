"""Decoding with a key/value cache, as a chain of named steps: what each call stores, and what each position attends to.

A *request* is a sequence that is decoded. A *call* brings one or more positions of a request. An `Entry` stands for one
position of a request, and for its key and value in the cache. The steps say for every call which entries its positions
attend to. The numbers come from `attend`, which computes one position without a cache.

| step | result |
| --- | --- |
| `calls` | all calls in order: (request, start, stop) |
| `stored` | for each call, the entries that the cache contains before it |
| `appended` | for each call, the entries of its own positions |
| `visible` | for each position of each call, the entries whose keys it attends to |
| `valued` | for each position of each call, the entries whose values it mixes |
| `items` | a function (B, calls since an entry was stored) of the items (B,) whose entries are read, or `None` |
| `positions` | a function of an entry: the position that its key is rotated to, or whose embedding it has |
| `stored_heads` | a change of the keys and values (B, H, S, O) of stored entries, or `None` |
| `decoded` | the outputs of all positions (B, T, E), which are also stored under "output" |
| `untouched` | whether the inputs are still as they were |

The trial's `more` contains `requests` (arrays (B, P, I) of features or (B, P) of ids), `lengths` (for each request, the
number of positions in each call), `capacity` (the positions that a preallocated cache has), `kept` and `attend`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kmha.verify.chains.attention import CHAINS, ImpossibleError, State, Step, Trial, run

NAME = "cache"


class Call(NamedTuple):
    """A call that brings the positions `start` to `stop` of a request."""

    request: int
    start: int
    stop: int


class Entry(NamedTuple):
    """A position of a request, with its key and value."""

    request: int
    position: int


EMPTY = Entry(-1, -1)  # a slot of a preallocated cache that nothing was written to, so that its key and value are 0
HeadsChange = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """One position, and the entries that it attends to.

    Attributes:
        query: Tokens (B, 1, I) of the position.
        keys: Tokens (B, S, I) whose keys the position attends to.
        values: Tokens (B, S, I) whose values it mixes, or `None` for the same tokens.
        empty: For each key, whether it is an empty slot of the cache.
        old: For each key, whether it was in the cache before the call.
        own: Index of the position's own entry among the keys, or `None`.
        positions: For each key, its position in the request.
        stored: Change of the keys and values that were in the cache before, or `None`.
    """

    query: np.ndarray
    keys: np.ndarray
    values: np.ndarray | None
    empty: np.ndarray
    old: np.ndarray
    own: int | None
    positions: tuple[int, ...]
    stored: HeadsChange | None


class Attend:
    """Attention from one position to entries, computed without a cache.

    Attributes:
        positions: Whether `__call__` uses the positions of a question.
    """

    positions = False

    def whole(self, tokens: np.ndarray) -> np.ndarray:
        """Return the outputs (B, T, E) of a whole causal request (B, T, I)."""
        raise NotImplementedError

    def __call__(self, question: Question) -> np.ndarray:
        """Return the output (B, E) for one position.

        Raises:
            ImpossibleError: This cannot be computed from outside the candidate.
        """
        raise NotImplementedError


class SequenceAttend(Attend):
    """Attention of a candidate that is seen from outside: its uncached output for a sequence that ends with the query.

    Args:
        full: Function of tokens (B, T, I), and of their positions (T,) if `positions`, that returns the output
            (B, T, E).
        ordered: Whether the order of the earlier tokens matters.
        positions: Whether `full` takes positions.
        causal: Whether `full` is causal. If it is not, each position is the end of a sequence of its own.
    """

    def __init__(self, full: Callable[..., Any], ordered: bool, positions: bool = False, causal: bool = True) -> None:
        self.full, self.ordered, self.positions, self.causal = full, ordered, positions, causal
        self.memory: dict[Any, np.ndarray] = {}

    def whole(self, tokens: np.ndarray) -> np.ndarray:
        if self.causal:
            return self._full(tokens, None)
        return np.stack([self._full(tokens[:, : stop + 1], None)[:, -1] for stop in range(tokens.shape[1])], axis=1)

    def _full(self, tokens: np.ndarray, positions: tuple[int, ...] | None) -> np.ndarray:
        if self.positions and positions is None:
            positions = tuple(range(tokens.shape[1]))
        key = (tokens.shape, tokens.tobytes(), positions)
        if key not in self.memory:
            try:
                found = self.full(tokens) if positions is None else self.full(tokens, np.array(positions))
            except Exception as error:  # untrusted code may raise anything, for example for a long sequence
                raise ImpossibleError(str(error)) from None
            self.memory[key] = np.asarray(found, "float64")
        return self.memory[key]

    def __call__(self, question: Question) -> np.ndarray:
        own = question.own
        if question.stored is not None or own is None or question.values is not None or question.empty.any():
            raise ImpossibleError("a candidate computes only sequences that end with the query")
        order = [index for index in range(question.keys.shape[1]) if index != own] + [own]
        if self.ordered and not self.positions and own != len(order) - 1:
            raise ImpossibleError("the order of the sequence matters")
        places = tuple(question.positions[index] for index in order) if self.positions else None
        return self._full(question.keys[:, order], places)[:, -1]


class WeightsAttend(Attend):
    """Attention with canonical weights, which can attend to anything."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self.weights = weights

    def whole(self, tokens: np.ndarray) -> np.ndarray:
        return np.asarray(run(Trial("", tokens, tokens, tokens, self.weights, causal=True))["output"])

    def __call__(self, question: Question) -> np.ndarray:
        def heads(state: State, right: Step) -> Any:
            found = dict(right(state))
            key, value = found["key"].copy(), found["value"].copy()
            key[:, :, question.empty] = value[:, :, question.empty] = 0.0
            old = question.old
            if question.stored is not None:
                key[:, :, old], value[:, :, old] = question.stored(key[:, :, old], value[:, :, old])
            return {**found, "key": key, "value": value}

        values = question.keys if question.values is None else question.values
        trial = Trial("", question.query, question.keys, values, self.weights)
        return np.asarray(run(trial, [{"heads": heads}])["output"])[:, 0]


def _calls(state: State) -> list[Call]:
    found = []
    for request, lengths in enumerate(state["trial"].more["lengths"]):
        stops = np.cumsum(lengths).tolist()
        found += [Call(request, stop - length, stop) for length, stop in zip(lengths, stops, strict=True)]
    return found


def entries(request: int, start: int, stop: int) -> list[Entry]:
    """Return the entries of the positions from `start` to before `stop`."""
    return [Entry(request, position) for position in range(start, stop)]


def _visible(state: State) -> list[list[list[Entry]]]:
    return [
        [stored + own[: index + 1] for index in range(len(own))]
        for stored, own in zip(state["stored"], state["appended"], strict=True)
    ]


def _decoded(state: State) -> np.ndarray:
    attend, requests = state["trial"].more["attend"], state["trial"].more["requests"]
    outputs = []
    for number, call in enumerate(state["calls"]):
        for index, entry in enumerate(entries(*call)):
            visible, valued = state["visible"][number][index], state["valued"][number][index]
            if _is_right(state, entry, visible, valued):
                outputs.append(attend.whole(requests[entry.request])[:, entry.position])
            else:
                outputs.append(attend(_question(state, number, entry, visible, valued)))
    state["output"] = np.stack(outputs, axis=1)
    return state["output"]


def _is_right(state: State, entry: Entry, visible: list[Entry], valued: list[Entry]) -> bool:
    """Return whether the position attends to its own request up to itself, and to nothing else."""
    right = entries(entry.request, 0, entry.position + 1)
    places = all(state["positions"](each) == each.position for each in right)
    return visible == right == valued and places and state["stored_heads"] is None and state["items"] is None


def _question(state: State, number: int, entry: Entry, visible: list[Entry], valued: list[Entry]) -> Question:
    if not visible or len(valued) != len(visible):
        raise ImpossibleError("there is nothing to attend to")
    requests = state["trial"].more["requests"]
    keys = np.stack([_tokens(state, number, each) for each in visible], axis=1)
    values = None if valued == visible else np.stack([_tokens(state, number, each) for each in valued], axis=1)
    own = set(state["appended"][number])
    return Question(
        requests[entry.request][:, [entry.position]],
        keys,
        values,
        np.array([each == EMPTY for each in visible]),
        np.array([each not in own for each in visible]),
        len(visible) - 1 - visible[::-1].index(entry) if entry in visible else None,
        tuple(state["positions"](each) for each in visible),
        state["stored_heads"],
    )


def _tokens(state: State, number: int, entry: Entry) -> np.ndarray:
    """Return the tokens (B, I) of an entry, those of stored entries from other items if `items` says so."""
    tokens = state["trial"].more["requests"][max(entry.request, 0)][:, max(entry.position, 0)]
    items = items_of(state, number, entry)
    return tokens if items is None else tokens[items]


def items_of(state: State, number: int, entry: Entry) -> np.ndarray | None:
    """Return for each item of call `number` the item (B,) whose entry it attends to, or `None` for its own."""
    if state["items"] is None or entry in state["appended"][number]:
        return None
    age = sum(other.request == entry.request and other.start > entry.position for other in state["calls"][: number + 1])
    return np.asarray(state["items"](len(state["trial"].query), age))


CACHE: dict[str, Step] = {
    "calls": _calls,
    "stored": lambda state: [entries(call.request, 0, call.start) for call in state["calls"]],
    "appended": lambda state: [entries(*call) for call in state["calls"]],
    "visible": _visible,
    "valued": lambda state: state["visible"],
    "items": lambda state: None,
    "positions": lambda state: lambda entry: entry.position,
    "stored_heads": lambda state: None,
    "decoded": _decoded,
    "untouched": lambda state: True,
}

CHAINS[NAME] = CACHE


def trial_of(
    name: str,
    requests: Sequence[np.ndarray],
    lengths: Sequence[Sequence[int]],
    capacity: int,
    attend: Attend,
    kept: bool = True,
) -> Trial:
    """Return a trial that decodes `requests` one after another, in calls with `lengths` positions.

    `kept` says whether all requests use the same cache, so that a preallocated one may contain what an earlier request
    wrote. If not, each request begins with an empty cache.

    >>> rng = np.random.default_rng(0)
    >>> shapes = {"query": (2, 4, 3), "key": (2, 4, 3), "value": (2, 4, 3), "attention_output": (2, 3, 4)}
    >>> attend = WeightsAttend({f"{role}/kernel": rng.normal(size=shape) for role, shape in shapes.items()})
    >>> trial = trial_of("prompt", [rng.normal(size=(3, 5, 4))], [[3, 1, 1]], 8, attend)
    >>> run(trial)["output"].shape
    (3, 5, 4)
    """
    positions = sum(sum(each) for each in lengths)
    query = np.zeros((len(requests[0]), positions, 1))
    more: dict[str, Any] = {"requests": tuple(requests), "lengths": tuple(map(tuple, lengths)), "kept": kept}
    return Trial(name, query, query, query, chain=NAME, more={**more, "capacity": capacity, "attend": attend})
