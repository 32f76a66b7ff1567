"""Mistakes in the two products, of query and key and of scores and value, and in the scale 1/√O.

All of them are in equation 1 of Vaswani et al. 2017, section 3.2.1.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, matmul
from kmha.verify.mistakes.entry import register

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
    register(_id, _says, LOGITS, _source, logits=_product(_left, _right))

register(
    "mix-key",
    "The scores mix the keys in place of the values.",
    MIX,
    "fchollet/deep-learning-with-python-notebooks#261",
    mixed=lambda state, right: matmul(state["dropped"], state["heads"]["key"]),
)
register(
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
register(
    "mix-scores-transposed",
    "The scores are transposed before they mix the values: every value goes to the wrong query.",
    MIX,
    PAPER,
    mixed=lambda state, right: matmul(np.swapaxes(state["dropped"], -1, -2), state["heads"]["value"]),
)

SCALE = "the line that scales the product of query and key"


def _sizes(state: State) -> tuple[int, int, int, int]:
    """H, T, S, O."""
    query, key = state["heads"]["query"], state["heads"]["key"]
    return query.shape[1], query.shape[-2], key.shape[-2], query.shape[-1]


def _features(state: State) -> int:
    if state["trial"].core:
        raise ImpossibleError("the core knows nothing of the layer's input")
    return int(state["inputs"]["query"].shape[-1])


def _width(state: State) -> int:
    heads, _, _, size = _sizes(state)
    return heads * size


def _divided(says: str, name: str, source: str, divisor: Callable[[State], float]) -> None:
    register(f"scale-{name}", says, SCALE, source, scale=lambda state, right: 1 / divisor(state))


_divided(
    "The logits are not divided by √O.",
    "missing",
    "PAIR-code/tiny-transformers#71",
    lambda state: 1.0,
)
_divided(
    "The logits are divided by O in place of √O: the root is missing, or they are scaled twice.",
    "without-root",
    "delzac/cntkx#10, tensorflow/tensor2tensor#1900; twice: huggingface/transformers#38290",
    lambda state: _sizes(state)[3],
)
_divided(
    "The logits are multiplied by √O in place of divided.",
    "multiplied",
    "esceptico/perceiver-io#9, rasbt/LLMs-from-scratch#856",
    lambda state: 1 / math.sqrt(_sizes(state)[3]),
)
_divided(
    "The logits are multiplied by O: neither divided, nor by the root.",
    "multiplied-without-root",
    PAPER,
    lambda state: 1 / _sizes(state)[3],
)
_divided(
    "The logits are divided by √(H·O), the width of all heads together, in place of √O.",
    "all-heads",
    "lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11",
    lambda state: math.sqrt(_width(state)),
)
_divided(
    "The logits are divided by H·O, the width of all heads together, in place of √O.",
    "all-heads-without-root",
    PAPER,
    lambda state: _width(state),
)
_divided(
    "The logits are divided by √I, the root of the input's features, in place of √O.",
    "features",
    "FareedKhan-dev/train-llm-from-scratch#3, karpathy/ng-video-lecture#6",
    lambda state: math.sqrt(_features(state)),
)
_divided(
    "The logits are divided by I, the input's features, in place of √O.",
    "features-without-root",
    PAPER,
    _features,
)
_divided(
    "The logits are divided by √S, the root of the number of keys, in place of √O.",
    "keys",
    "asked in phlippe/uvadlc_notebooks#72",
    lambda state: math.sqrt(_sizes(state)[2]),
)
_divided(
    "The logits are divided by √T, the root of the number of queries, in place of √O.",
    "queries",
    "asked in phlippe/uvadlc_notebooks#72",
    lambda state: math.sqrt(_sizes(state)[1]),
)
_divided(
    "The logits are divided by √H, the root of the number of heads, in place of √O.",
    "heads",
    PAPER,
    lambda state: math.sqrt(_sizes(state)[0]),
)
_divided(
    "The logits are divided by √(O/H): the head size was divided by the number of heads once more.",
    "size-over-heads",
    "Vaswani et al. 2017, section 3.2.2: d_k = d_model / h, once",
    lambda state: math.sqrt(_sizes(state)[3] / _sizes(state)[0]),
)
_divided(
    "The logits are divided by √B: the size was read from the batch axis.",
    "batch",
    PAPER,
    lambda state: math.sqrt(state["heads"]["query"].shape[0]),
)

register(
    "scale-after-softmax",
    "The scores are divided by √O after the softmax, the logits before it are not: rows sum to 1/√O.",
    SCALE,
    "FrancescoSaverioZuppichini/ViT#2",
    scaled=lambda state, right: state["logits"],
    scores=lambda state, right: right(state) * state["scale"],
)
register(
    "scale-after-softmax-too",
    "The scores are divided by √O once more after the softmax: rows sum to 1/√O.",
    SCALE,
    PAPER,
    scores=lambda state, right: right(state) * state["scale"],
)
register(
    "scale-after-mask",
    "The logits are scaled after -10,000 was added where masked, so that the mask shrinks by √O: large logits leak.",
    "the order of the scaling and the mask",
    "awf/functional-transformer#8; the number: huggingface/transformers#10484",
    masked=lambda state, right: (state["logits"] + np.where(state["allowed"], 0.0, -1e4)) * state["scale"],
)


def _scaled_kernel(state: State, right: Step) -> Any:
    biased = dict(right(state))
    bias = state["weights"].get("query/bias")
    if bias is None:
        raise ImpossibleError("there is no bias")
    scale = 1 / math.sqrt(bias.shape[-1])
    return {**biased, "query": state["projected"]["query"] * scale + bias}


register(
    "scale-kernel-not-bias",
    "The scale is in the query's kernel, but the query's bias is not scaled.",
    "where the query is scaled: before its bias is added, or in converted weights",
    "Vaswani et al. 2017, section 3.2.1: the whole product is scaled",
    biased=_scaled_kernel,
    scaled=lambda state, right: state["logits"],
)
