"""Mistakes in the biases of the four projections.

The key's bias is not among them: it adds the same number to all logits of a row, which leaves the scores as they are.
"""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Change, ImpossibleError, State, Step, project
from kmha.verify.mistakes.entry import register

LOOK = "the lines that add the biases, or the weights that you converted"
PAPER = "Vaswani et al. 2017, section 3.2.2"
FORGOTTEN = "sbryngelson/ANEForge#253, paiml/aprender#2769, shadowpa0327/Palu#8"


def _without(*roles: str) -> Change:
    """Return a change of `weights` without these biases."""
    names = {f"{role}/bias" for role in roles}

    def change(state: State, right: Step) -> Any:
        weights = right(state)
        if not names & weights.keys():
            raise ImpossibleError("there is no bias to leave out")
        return {name: array for name, array in weights.items() if name not in names}

    return change


def _bias(state: State, role: str) -> np.ndarray:
    bias = state["weights"].get(f"{role}/bias")
    if bias is None:
        raise ImpossibleError(f"the {role}'s projection has no bias")
    return bias


def _each(of: Any, *roles: str) -> Change:
    """Return a change of `weights` that applies `of` to the biases of `roles`."""

    def change(state: State, right: Step) -> Any:
        weights = right(state)
        state = {**state, "weights": weights}
        return {**weights, **{f"{role}/bias": of(_bias(state, role)) for role in roles}}

    return change


for _id, _says, _roles in (
    ("bias-missing-query", "You did not add the query's bias. Add it after the product with the kernel.", ("query",)),
    ("bias-missing-value", "You did not add the value's bias. Add it after the product with the kernel.", ("value",)),
    (
        "bias-missing-output",
        "You did not add the output's bias. Add it after the product with the output kernel.",
        ("attention_output",),
    ),
    (
        "bias-missing-query-key-value",
        "You did not add the biases of query, key and value. Add each after the product with its kernel.",
        ROLES,
    ),
    (
        "bias-missing-value-output",
        "You did not add the biases of value and output. Add each after the product with its kernel.",
        ("value", "attention_output"),
    ),
    (
        "bias-missing-query-output",
        "You did not add the biases of query and output. Add each after the product with its kernel.",
        ("query", "attention_output"),
    ),
    (
        "bias-missing-all",
        "You did not add any bias. Each of the four projections has one.",
        (*ROLES, "attention_output"),
    ),
):
    register(_id, _says, LOOK, FORGOTTEN, weights=_without(*_roles))


def _size_first(bias: np.ndarray) -> np.ndarray:
    return bias.reshape(bias.shape[::-1]).T


def _first_head(bias: np.ndarray) -> np.ndarray:
    return np.broadcast_to(bias[:1], bias.shape)


for _id, _says, _change in (
    (
        "bias-size-first",
        "You read the biases of query, key and value as (O, H). Their axes are (H, O).",
        _each(_size_first, *ROLES),
    ),
    (
        "bias-of-first-head",
        "You used the first head's biases of query, key and value for all heads. Each head has its own.",
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
        f"You swapped the biases of {_one} and {_other}. Add each bias to its own projection.",
        LOOK,
        PAPER,
        weights=_swapped(_one, _other),
    )


def _before(state: State, right: Step) -> Any:
    """Compute (x + b) W instead of x W + b; possible where I is H·O."""
    result = {}
    for role in ROLES:
        bias, array = _bias(state, role).reshape(-1), state["inputs"][role]
        if array.shape[-1] != bias.size:
            raise ImpossibleError("the bias does not fit the input")
        result[role] = project(array + bias, state["weights"][f"{role}/kernel"])
    return result


def _per_item(state: State, right: Step) -> Any:
    """Add the biases of query, key and value once for each item of the batch."""
    batch = state["trial"].query.shape[0]
    return {role: array + batch * _bias(state, role) for role, array in state["projected"].items()}


def _times(state: State, count: int) -> np.ndarray:
    return state["merged"] + count * _bias(state, "attention_output")


register(
    "bias-before-projection",
    "You added the biases of query, key and value before the product with the kernel. Add them after it.",
    LOOK,
    PAPER,
    biased=_before,
)
register(
    "bias-per-item",
    "You added the biases of query, key and value B times, once for each item of the batch. Add them once.",
    LOOK,
    PAPER,
    biased=_per_item,
)
register(
    "bias-output-per-item",
    "You added the output's bias B times, once for each item of the batch. Add it once.",
    LOOK,
    PAPER,
    output=lambda state, right: _times(state, state["trial"].query.shape[0]),
)
register(
    "bias-output-per-head",
    "You added the output's bias H times, once in every head. Add it once, after the sum over the heads.",
    "the sum over the heads, if you project each head separately",
    "once per group of heads: Wenyueh/MinivLLM#80, PaddlePaddle/Paddle#35186",
    output=lambda state, right: _times(state, state["heads"]["query"].shape[1]),
)


def _averaged(state: State, right: Step) -> Any:
    _bias(state, "attention_output")
    return right(state) / state["heads"]["query"].shape[1]


register(
    "bias-output-averaged",
    "You divided the output by the number of heads, bias and all. Sum the heads' projections instead of "
    "averaging them.",
    "the sum over the heads",
    "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
    output=_averaged,
)
