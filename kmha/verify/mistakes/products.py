"""Mistakes in the two products, of query and key and of scores and value, and in the scale 1/√O.

Equation 1 of Vaswani et al. 2017, section 3.2.1, has all three.
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
    ("logits-query-query", "You multiplied query by query. The logits are query · key.", "query", "query", PAPER),
    ("logits-key-key", "You multiplied key by key. The logits are query · key.", "key", "key", PAPER),
    ("logits-query-value", "You multiplied query by value. The logits are query · key.", "query", "value", PAPER),
    (
        "logits-key-query",
        "You swapped query and key in the product, which transposes the logits. The logits are query · key: (T, S).",
        "key",
        "query",
        "asked in karpathy/llm.c#531",
    ),
):
    register(_id, _says, LOGITS, _source, logits=_product(_left, _right))

register(
    "mix-key",
    "You mixed the keys with the scores. Mix the values.",
    MIX,
    "fchollet/deep-learning-with-python-notebooks#261",
    mixed=lambda state, right: matmul(state["dropped"], state["heads"]["key"]),
)
register(
    "mix-key-value-swapped",
    "You swapped key and value after projecting them. The key gives the logits, and the value is mixed.",
    "the order in which you pass on the projections",
    "pbloem/former#19",
    heads=lambda state, right: {
        "query": right(state)["query"],
        "key": right(state)["value"],
        "value": right(state)["key"],
    },
)
register(
    "mix-scores-transposed",
    "You transposed the scores before mixing, so every value goes to the wrong query. Multiply the scores (T, "
    "S) by the values (S, O).",
    MIX,
    PAPER,
    mixed=lambda state, right: matmul(np.swapaxes(state["dropped"], -1, -2), state["heads"]["value"]),
)

SCALE = "the line that scales the product of query and key"


def _sizes(state: State) -> tuple[int, int, int, int]:
    """Return H, T, S and O."""
    query, key = state["heads"]["query"], state["heads"]["key"]
    return query.shape[1], query.shape[-2], key.shape[-2], query.shape[-1]


def _features(state: State) -> int:
    if state["trial"].core:
        raise ImpossibleError("the core does not know the layer's input")
    return int(state["inputs"]["query"].shape[-1])


def _width(state: State) -> int:
    heads, _, _, size = _sizes(state)
    return heads * size


def _divided(says: str, name: str, source: str, divisor: Callable[[State], float]) -> None:
    register(f"scale-{name}", says, SCALE, source, scale=lambda state, right: 1 / divisor(state))


_divided(
    "You did not scale the logits. Divide them by √O before the softmax.",
    "missing",
    "PAIR-code/tiny-transformers#71",
    lambda state: 1.0,
)
_divided(
    "You divided the logits by O, by leaving out the root or scaling twice. Divide them once by √O.",
    "without-root",
    "delzac/cntkx#10, tensorflow/tensor2tensor#1900; twice: huggingface/transformers#38290",
    lambda state: _sizes(state)[3],
)
_divided(
    "You multiplied the logits by √O. Divide them by it.",
    "multiplied",
    "esceptico/perceiver-io#9, rasbt/LLMs-from-scratch#856",
    lambda state: 1 / math.sqrt(_sizes(state)[3]),
)
_divided(
    "You multiplied the logits by O. Divide them by √O.",
    "multiplied-without-root",
    PAPER,
    lambda state: 1 / _sizes(state)[3],
)
_divided(
    "You divided the logits by √(H·O), where H·O is the width of all heads together. Divide them by √O, where "
    "O is the size of one head.",
    "all-heads",
    "lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11",
    lambda state: math.sqrt(_width(state)),
)
_divided(
    "You divided the logits by H·O, the width of all heads together. Divide them by √O, where O is the size of "
    "one head.",
    "all-heads-without-root",
    PAPER,
    lambda state: _width(state),
)
_divided(
    "You divided the logits by √I, where I is the number of input features. Divide them by √O, where O is the "
    "size of one head.",
    "features",
    "FareedKhan-dev/train-llm-from-scratch#3, karpathy/ng-video-lecture#6",
    lambda state: math.sqrt(_features(state)),
)
_divided(
    "You divided the logits by I, the number of input features. Divide them by √O, where O is the size of one head.",
    "features-without-root",
    PAPER,
    _features,
)
_divided(
    "You divided the logits by √S, where S is the number of keys. Divide them by √O, where O is the size of one head.",
    "keys",
    "asked in phlippe/uvadlc_notebooks#72",
    lambda state: math.sqrt(_sizes(state)[2]),
)
_divided(
    "You divided the logits by √T, where T is the number of queries. Divide them by √O, where O is the size of "
    "one head.",
    "queries",
    "asked in phlippe/uvadlc_notebooks#72",
    lambda state: math.sqrt(_sizes(state)[1]),
)
_divided(
    "You divided the logits by √H, where H is the number of heads. Divide them by √O, where O is the size of one head.",
    "heads",
    PAPER,
    lambda state: math.sqrt(_sizes(state)[0]),
)
_divided(
    "You divided the logits by √(O/H): you divided the head size by the number of heads once more. Divide them by √O.",
    "size-over-heads",
    "Vaswani et al. 2017, section 3.2.2: d_k = d_model / h, once",
    lambda state: math.sqrt(_sizes(state)[3] / _sizes(state)[0]),
)
_divided(
    "You divided the logits by √B: you read the size from the batch axis. Divide them by √O.",
    "batch",
    PAPER,
    lambda state: math.sqrt(state["heads"]["query"].shape[0]),
)

register(
    "scale-after-softmax",
    "You divided the scores by √O after the softmax, so rows sum to 1/√O. Divide the logits before it.",
    SCALE,
    "FrancescoSaverioZuppichini/ViT#2",
    scaled=lambda state, right: state["logits"],
    scores=lambda state, right: right(state) * state["scale"],
)
register(
    "scale-after-softmax-too",
    "You divided by √O both before and after the softmax, so rows sum to 1/√O. Divide only the logits.",
    SCALE,
    PAPER,
    scores=lambda state, right: right(state) * state["scale"],
)
register(
    "scale-after-mask",
    "You scaled the logits after adding -10,000 to the hidden ones, which weakens the mask by √O, so large "
    "logits leak. Scale first.",
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
    "You scaled the query's kernel but not its bias. Scale both, or scale the query after adding the bias.",
    "the line that scales the query, or the weights that you converted",
    "Vaswani et al. 2017, section 3.2.1: the whole product is scaled",
    biased=_scaled_kernel,
    scaled=lambda state, right: state["logits"],
)
