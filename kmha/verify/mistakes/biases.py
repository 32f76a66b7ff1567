"""Mistakes in the biases of the four projections.

Without its bias, the key gives the same scores: it adds the same to all logits of a row. So there is no such mistake.
"""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Change, ImpossibleError, State, Step, project
from kmha.verify.mistakes.entry import register

LOOK = "where the biases are added, or the converted weights"
PAPER = "Vaswani et al. 2017, section 3.2.2"
FORGOTTEN = "sbryngelson/ANEForge#253, paiml/aprender#2769, shadowpa0327/Palu#8"


def _without(*roles: str) -> Change:
    """A change of `weights` that leaves these biases out."""
    names = {f"{role}/bias" for role in roles}

    def change(state: State, right: Step) -> Any:
        weights = right(state)
        if not names & weights.keys():
            raise ImpossibleError("there is no bias to forget")
        return {name: array for name, array in weights.items() if name not in names}

    return change


def _bias(state: State, role: str) -> np.ndarray:
    bias = state["weights"].get(f"{role}/bias")
    if bias is None:
        raise ImpossibleError(f"the {role}'s projection has no bias")
    return bias


def _each(of: Any, *roles: str) -> Change:
    """A change of `weights`: the biases of `roles` go through `of`."""

    def change(state: State, right: Step) -> Any:
        weights = right(state)
        state = {**state, "weights": weights}
        return {**weights, **{f"{role}/bias": of(_bias(state, role)) for role in roles}}

    return change


for _id, _says, _roles in (
    ("bias-missing-query", "The query's bias is forgotten.", ("query",)),
    ("bias-missing-value", "The value's bias is forgotten.", ("value",)),
    ("bias-missing-output", "The output's bias is forgotten.", ("attention_output",)),
    ("bias-missing-query-key-value", "The biases of query, key and value are forgotten.", ROLES),
    (
        "bias-missing-value-output",
        "The biases of value and output are forgotten.",
        ("value", "attention_output"),
    ),
    (
        "bias-missing-query-output",
        "The biases of query and output are forgotten.",
        ("query", "attention_output"),
    ),
    ("bias-missing-all", "All biases are forgotten.", (*ROLES, "attention_output")),
):
    register(_id, _says, LOOK, FORGOTTEN, weights=_without(*_roles))


def _size_first(bias: np.ndarray) -> np.ndarray:
    return bias.reshape(bias.shape[::-1]).T


def _first_head(bias: np.ndarray) -> np.ndarray:
    return np.broadcast_to(bias[:1], bias.shape)


for _id, _says, _change in (
    (
        "bias-size-first",
        "The biases of query, key and value are read as (O, H) in place of (H, O).",
        _each(_size_first, *ROLES),
    ),
    (
        "bias-of-first-head",
        "The first head's biases of query, key and value are used for all heads.",
        _each(_first_head, *ROLES),
    ),
):
    register(_id, _says, LOOK, PAPER, weights=_change)


def _swapped(one: str, other: str) -> Change:
    def change(state: State, right: Step) -> Any:
        weights = right(state)
        state = {**state, "weights": weights}
        return {**weights, f"{one}/bias": _bias(state, other), f"{other}/bias": _bias(state, one)}

    return change


for _one, _other in (("query", "key"), ("query", "value"), ("key", "value")):
    register(
        f"bias-{_one}-{_other}-swapped",
        f"The biases of {_one} and {_other} are swapped.",
        LOOK,
        PAPER,
        weights=_swapped(_one, _other),
    )


def _before(state: State, right: Step) -> Any:
    """(x + b) W in place of x W + b: it fits where I is H·O."""
    result = {}
    for role in ROLES:
        bias, array = _bias(state, role).reshape(-1), state["inputs"][role]
        if array.shape[-1] != bias.size:
            raise ImpossibleError("the bias does not fit the input")
        result[role] = project(array + bias, state["weights"][f"{role}/kernel"])
    return result


def _per_item(state: State, right: Step) -> Any:
    """Biases of query, key and value, once for each of the batch's items."""
    batch = state["trial"].query.shape[0]
    return {role: array + batch * _bias(state, role) for role, array in state["projected"].items()}


def _times(state: State, count: int) -> np.ndarray:
    return state["merged"] + count * _bias(state, "attention_output")


register(
    "bias-before-projection",
    "The biases of query, key and value are added before the product with the kernel in place of after it.",
    LOOK,
    PAPER,
    biased=_before,
)
register(
    "bias-per-item",
    "The biases of query, key and value are added once for every item of the batch: B times.",
    LOOK,
    PAPER,
    biased=_per_item,
)
register(
    "bias-output-per-item",
    "The output's bias is added once for every item of the batch: B times.",
    LOOK,
    PAPER,
    output=lambda state, right: _times(state, state["trial"].query.shape[0]),
)
register(
    "bias-output-per-head",
    "The output's bias is added in every head: H times.",
    "the sum over the heads, where each is projected by itself",
    "once per group of heads: Wenyueh/MinivLLM#80, PaddlePaddle/Paddle#35186",
    output=lambda state, right: _times(state, state["heads"]["query"].shape[1]),
)


def _averaged(state: State, right: Step) -> Any:
    _bias(state, "attention_output")
    return right(state) / state["heads"]["query"].shape[1]


register(
    "bias-output-averaged",
    "The output is averaged over the heads, its bias with it.",
    "the sum over the heads",
    "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
    output=_averaged,
)
