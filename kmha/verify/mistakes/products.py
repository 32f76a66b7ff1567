"""Mistakes in the two products: of query and key, and of scores and value (section 3.2.1 of Vaswani et al. 2017)."""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, State, Step, matmul
from kmha.verify.mistakes.entry import add

PAPER = "Vaswani et al. 2017, section 3.2.1"
LOGITS = "the product that gives the logits"
MIX = "the product of scores and value"


def _product(left: str, right: str) -> Change:
    def change(state: State, _: Step) -> Any:
        heads = state["heads"]
        return matmul(heads[left], np.swapaxes(heads[right], -1, -2))

    return change


for _id, _says, _left, _right, _source in (
    ("logits-query-query", "The logits are query · query in place of query · key.", "query", "query", PAPER),
    ("logits-key-key", "The logits are key · key in place of query · key.", "key", "key", PAPER),
    ("logits-query-value", "The logits are query · value in place of query · key.", "query", "value", PAPER),
    (
        "logits-key-query",
        "The logits are key · query in place of query · key: they are transposed, or the two were swapped.",
        "key",
        "query",
        "asked in karpathy/llm.c#531",
    ),
):
    add(_id, _says, LOGITS, _source, logits=_product(_left, _right))

add(
    "mix-key",
    "The scores mix the keys in place of the values.",
    MIX,
    "fchollet/deep-learning-with-python-notebooks#261",
    mixed=lambda state, right: matmul(state["dropped"], state["heads"]["key"]),
)
add(
    "mix-key-value-swapped",
    "Key and value are swapped after projecting: the logits are query · value, and the keys are mixed.",
    "the order in which the projections are handed on",
    "pbloem/former#19",
    heads=lambda state, right: {
        "query": right(state)["query"],
        "key": right(state)["value"],
        "value": right(state)["key"],
    },
)
add(
    "mix-scores-transposed",
    "The scores are transposed before they mix the values: every value goes to the wrong query.",
    MIX,
    PAPER,
    mixed=lambda state, right: matmul(np.swapaxes(state["dropped"], -1, -2), state["heads"]["value"]),
)
