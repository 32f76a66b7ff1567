"""Mistakes in the biases of the four projections.

The key's bias has no mistakes, because it adds the same number to all logits of a row, which changes no score.
"""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Change, ImpossibleError, State, Step, project
from kmha.verify.mistakes.entry import register

LOOK = "the lines that add the biases, or the weights that you converted"
PAPER = "Vaswani et al. 2017, section 3.2.2"


def _without(*roles: str) -> Change:
    """Return a change of `weights` that removes the biases of these roles."""
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


def _each(of: Any) -> Change:
    """Return a change of `weights` that applies `of` to the biases of query, key and value."""

    def change(state: State, right: Step) -> Any:
        weights = right(state)
        state = {**state, "weights": weights}
        return {**weights, **{f"{role}/bias": of(_bias(state, role)) for role in ROLES}}

    return change


for _id, _biases, _roles in (
    ("query", "the query's bias", ("query",)),
    ("value", "the value's bias", ("value",)),
    ("output", "the output's bias", ("attention_output",)),
    ("query-key-value", "the biases of query, key and value", ROLES),
    ("value-output", "the biases of value and output", ("value", "attention_output")),
    ("query-output", "the biases of query and output", ("query", "attention_output")),
    ("all", "any of the four biases", (*ROLES, "attention_output")),
):
    register(
        f"bias-missing-{_id}",
        f"You did not add {_biases}. Add each bias after the product with its kernel.",
        LOOK,
        "sbryngelson/ANEForge#253, paiml/aprender#2769, shadowpa0327/Palu#8",
        weights=_without(*_roles),
    )

for _id, _says, _of in (
    (
        "bias-size-first",
        "You read the biases of query, key and value as (O, H). Their axes are (H, O).",
        lambda bias: bias.reshape(bias.shape[::-1]).T,
    ),
    (
        "bias-of-first-head",
        "You used the first head's biases of query, key and value for all heads. Each head has its own.",
        lambda bias: np.broadcast_to(bias[:1], bias.shape),
    ),
):
    register(_id, _says, LOOK, PAPER, weights=_each(_of))


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
    """Compute (x + b) W instead of x W + b. This is possible if I is H·O."""
    result = {}
    for role in ROLES:
        bias, array = _bias(state, role).reshape(-1), state["inputs"][role]
        if array.shape[-1] != bias.size:
            raise ImpossibleError("the bias does not fit the input")
        result[role] = project(array + bias, state["weights"][f"{role}/kernel"])
    return result


def _per_item(state: State, right: Step) -> Any:
    """Add the biases of query, key and value as many times as the batch has items."""
    batch = state["trial"].query.shape[0]
    return {role: array + batch * _bias(state, role) for role, array in state["projected"].items()}


def _times(state: State, count: int) -> np.ndarray:
    return state["merged"] + count * _bias(state, "attention_output")


for _id, _says, _change in (
    (
        "bias-before-projection",
        "You added the biases of query, key and value before the product with the kernel. Add them after it.",
        _before,
    ),
    (
        "bias-per-item",
        "You added the biases of query, key and value B times, once for each item of the batch. Add them once.",
        _per_item,
    ),
):
    register(_id, _says, LOOK, PAPER, biased=_change)
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
    "You divided the output by the number of heads, bias and all. Sum the heads' projections.",
    "the sum over the heads",
    "ttsugriy.github.io/llm-first-principles stage 5, mistake 5",
    output=_averaged,
)
