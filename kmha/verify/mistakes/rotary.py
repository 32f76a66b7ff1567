"""Mistakes in rotary positions, which turn each pair of features by an angle (Su et al. 2021, section 3.4)."""

from collections.abc import Callable

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.chains.embedding import of_pairs, pairs, rotation, turned
from kmha.verify.mistakes.entry import register

PAPER = "Su et al. 2021 (RoFormer), section 3.4.2"
TABLES = "the lines that compute the cosines and sines"
RIGHT = "Turn each pair (x, y) to (x cos - y sin, x sin + y cos)."
Turn = Callable[..., tuple[np.ndarray, np.ndarray]]
TURN = "the line that multiplies the features by cosines and sines"


def _are_neighbours(state: State, right: Step) -> bool:
    """Return whether the design choice pairs features 2i and 2i + 1, instead of i and i + d/2."""
    return np.array_equal(right(state), turned(state["looked_up"], *rotation(state["angles"]), True))


def _turned_as(of: Turn) -> Change:
    """Return a change to `of(x, y, cos, sin)` of the first and second features of all pairs."""

    def change(state: State, right: Step) -> np.ndarray:
        neighbours = _are_neighbours(state, right)
        return of_pairs(*of(*pairs(state["looked_up"], neighbours), *rotation(state["angles"])), neighbours)

    return change


def _rotation_between(plain: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the cosines and sines (P, O/2) that turned heads (B, H, P, O), and whether neighbours are a pair."""
    if not np.array_equal(plain, after):
        for neighbours in (True, False):
            (x, y), (new_x, new_y) = pairs(plain, neighbours), pairs(after, neighbours)
            squares = (x**2 + y**2).sum((0, 1))
            cos = (x * new_x + y * new_y).sum((0, 1)) / squares
            sin = (x * new_y - y * new_x).sum((0, 1)) / squares
            if np.allclose(turned(plain, cos, sin, neighbours), after):
                return cos, sin, neighbours
    raise ImpossibleError("no queries and keys are turned")


def _heads_turned_as(of: Turn, *roles: str) -> Change:
    """Return a change of the heads of these roles in attention with rotary positions, as in `_turned_as`."""

    def change(state: State, right: Step) -> dict[str, np.ndarray]:
        plain, heads = {role: np.swapaxes(each, 1, 2) for role, each in state["biased"].items()}, right(state)
        new = {}
        for role in roles:
            turned_role = "key" if role == "value" else role
            cos, sin, neighbours = _rotation_between(plain[turned_role], heads[turned_role])
            new[role] = of_pairs(*of(*pairs(plain[role], neighbours), cos, sin), neighbours)
        return {**heads, **new}

    return change


for _id, _says, _look, _of in (
    (
        "sines-only",
        f"You used sines for the cosines too. {RIGHT}",
        TABLES,
        lambda x, y, cos, sin: (x * sin - y * sin, x * sin + y * sin),
    ),
    (
        "cosines-only",
        f"You used cosines for the sines too. {RIGHT}",
        TABLES,
        lambda x, y, cos, sin: (x * cos - y * cos, x * cos + y * cos),
    ),
    (
        "sine-cosine-swapped",
        f"You exchanged cosines and sines. {RIGHT}",
        TABLES,
        lambda x, y, cos, sin: (x * sin - y * cos, x * cos + y * sin),
    ),
    (
        "sign-missing",
        f"You left out the minus. {RIGHT}",
        TURN,
        lambda x, y, cos, sin: (x * cos + y * sin, x * sin + y * cos),
    ),
    (
        "backwards",
        "You turned the features the other way. Scores stay the same if queries and keys are both turned so, "
        "but weights of other code need (x cos - y sin, x sin + y cos).",
        TURN,
        lambda x, y, cos, sin: (x * cos + y * sin, y * cos - x * sin),
    ),
    (
        "second-half-not-turned",
        "You turned the first feature of each pair alone. The second becomes x sin + y cos.",
        TURN,
        lambda x, y, cos, sin: (x * cos - y * sin, y),
    ),
):
    register(f"rotary-{_id}", _says, _look, PAPER, added=_turned_as(_of))
    if _id != "backwards":  # which attention does not show
        register(f"rotary-{_id}-in-attention", _says, _look, PAPER, heads=_heads_turned_as(_of, "query", "key"))
for _id, _says, _of, _role in (
    ("query-not", "You turned the keys, but not the queries. Turn both.", lambda x, y, *_: (x, y), "query"),
    ("key-not", "You turned the queries, but not the keys. Turn both.", lambda x, y, *_: (x, y), "key"),
    (
        "value-too",
        "You turned the values too. Turn queries and keys alone.",
        lambda x, y, cos, sin: (x * cos - y * sin, x * sin + y * cos),
        "value",
    ),
):
    register(f"rotary-{_id}", _says, "the call that turns them", PAPER, heads=_heads_turned_as(_of, _role))


def _mixed(array: np.ndarray, cos: np.ndarray, sin: np.ndarray, neighbours: bool) -> np.ndarray:
    """Return vectors turned in pairs by tables for halves, or in halves by tables for pairs."""
    of_first, of_second = (pairs(of_pairs(each, each, not neighbours), neighbours) for each in (cos, sin))
    x, y = pairs(array, neighbours)
    return of_pairs(x * of_first[0] - y * of_second[0], x * of_second[1] + y * of_first[1], neighbours)


def _heads_mixed(state: State, right: Step) -> dict[str, np.ndarray]:
    heads, found = dict(right(state)), {}
    for role in ("query", "key"):
        plain = np.swapaxes(state["biased"][role], 1, 2)
        found[role] = _mixed(plain, *_rotation_between(plain, heads[role]))
    return {**heads, **found}


_PAIRED = (
    "You paired features in two ways: 2i with 2i + 1, and i with i + d/2. Use one of them for tables and for vectors.",
    "the lines that double the angles, and that split the vectors",
    "raiyanyahya/how-to-train-your-gpt#6",
)
register(
    "rotary-pairs-mixed",
    *_PAIRED,
    added=lambda state, right: _mixed(state["looked_up"], *rotation(state["angles"]), _are_neighbours(state, right)),
)
register("rotary-pairs-mixed-in-attention", *_PAIRED, heads=_heads_mixed)
