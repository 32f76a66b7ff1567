"""Mistakes in the products query · key and scores · value, and in the scale 1/√O.

Equation 1 of Vaswani et al. 2017, section 3.2.1, has all three.
"""

import math
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step, matmul
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.2.1"
MIX = "the product of scores and value"


def _product(left: str, right: str) -> Change:
    return lambda state, _: matmul(state["heads"][left], np.swapaxes(state["heads"][right], -1, -2))


for _left, _right, _did, _source in (
    ("query", "query", "multiplied query by query", PAPER),
    ("key", "key", "multiplied key by key", PAPER),
    ("query", "value", "multiplied query by value", PAPER),
    ("key", "query", "swapped query and key, which transposes the logits", "asked in karpathy/llm.c#531"),
):
    register(
        f"logits-{_left}-{_right}",
        f"You {_did}. The logits are query · key: (T, S).",
        "the product that gives the logits",
        _source,
        logits=_product(_left, _right),
    )

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
    heads=lambda state, right: {**right(state), "key": right(state)["value"], "value": right(state)["key"]},
)
register(
    "mix-scores-transposed",
    "You transposed the scores, so every value goes to the wrong query. Multiply scores (T, S) by values (S, O).",
    MIX,
    PAPER,
    mixed=lambda state, right: matmul(np.swapaxes(state["dropped"], -1, -2), state["heads"]["value"]),
)


def _at_query(state: State, right: Step) -> Any:
    scores, values = state["dropped"], state["heads"]["value"]
    if scores.shape[-2] != scores.shape[-1]:
        raise ImpossibleError("there are not as many values as queries")
    return scores.sum(-1, keepdims=True) * values


register(
    "mix-at-query",
    "You multiplied each score by the value at the query's own position, so that values are not mixed. Multiply it by "
    "the value at its key's position, and sum over the keys.",
    MIX,
    PAPER,
    mixed=_at_query,
)

SCALE = "the line that scales the product of query and key"


def _power(letters: str, exponent: float) -> Change:
    """Return a change of the scale to a power of the product of these sizes, such as "HO"."""

    def change(state: State, right: Step) -> Any:
        query, key = state["heads"]["query"], state["heads"]["key"]
        if letters == "I" and state["trial"].core:
            raise ImpossibleError("the core does not know the layer's input")
        sizes = dict(zip("BHTOSI", (*query.shape, key.shape[-2], state["inputs"]["query"].shape[-1]), strict=True))
        return math.prod(sizes[letter] for letter in letters) ** exponent

    return change


VITS = "lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR#11"
LECTURES = "FareedKhan-dev/train-llm-from-scratch#3, karpathy/ng-video-lecture#6"
ASKED = "asked in phlippe/uvadlc_notebooks#72"
for _id, _says, _exponent, _source in (
    (
        "missing",
        "You did not scale the logits. Divide them by √O before the softmax.",
        0,
        "PAIR-code/tiny-transformers#71",
    ),
    (
        "without-root",
        "You divided the logits by O, by leaving out the root or scaling twice. Divide them once by √O.",
        -1,
        "delzac/cntkx#10, tensorflow/tensor2tensor#1900; twice: huggingface/transformers#38290",
    ),
    (
        "multiplied",
        "You multiplied the logits by √O. Divide them by it.",
        0.5,
        "esceptico/perceiver-io#9, rasbt/LLMs-from-scratch#856",
    ),
    (
        "fourth-root",
        "You divided the logits by the fourth root of O, as if only one of query and key were scaled by it. Divide "
        "them by √O: scale both, or one of them by 1/√O.",
        -0.25,
        PAPER,
    ),
    ("multiplied-without-root", "You multiplied the logits by O. Divide them by √O.", 1, PAPER),
):
    register(f"scale-{_id}", _says, SCALE, _source, scale=_power("O", _exponent))
for _id, _divisor, _letters, _exponent, _source in (
    ("all-heads", "√(H·O), where H·O is the width of all heads together", "HO", -0.5, VITS),
    ("all-heads-without-root", "H·O, the width of all heads together", "HO", -1, PAPER),
    ("features", "√I, where I is the number of input features", "I", -0.5, LECTURES),
    ("features-without-root", "I, the number of input features", "I", -1, PAPER),
    ("keys", "√S, where S is the number of keys", "S", -0.5, ASKED),
    ("queries", "√T, where T is the number of queries", "T", -0.5, ASKED),
    ("heads", "√H, where H is the number of heads", "H", -0.5, PAPER),
    ("batch", "√B, where B is the batch size", "B", -0.5, PAPER),
):
    register(
        f"scale-{_id}",
        f"You divided the logits by {_divisor}. Divide them by √O, where O is the size of one head.",
        SCALE,
        _source,
        scale=_power(_letters, _exponent),
    )


def _half_of_inverse(state: State, right: Step) -> Any:
    _, heads, _, size = state["heads"]["query"].shape
    if heads == 2:
        raise ImpossibleError("with two heads it is the width of all heads, without the root")
    return 0.5 / size


register(
    "scale-half-of-inverse",
    "You divided the logits by 2·O: `O ** -1 / 2` is half of 1/O. Divide them by √O, with `O ** -0.5`.",
    SCALE,
    PAPER,
    scale=_half_of_inverse,
)
register(
    "scale-size-over-heads",
    "You divided the logits by √(O/H): you divided the head size by the number of heads once more. Divide them by √O.",
    SCALE,
    "Vaswani et al. 2017, section 3.2.2: d_k = d_model / h, once",
    scale=lambda state, right: math.sqrt(state["heads"]["query"].shape[1] / state["heads"]["query"].shape[3]),
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
    "You scaled the logits after adding -10,000 to hidden ones, so large logits leak. Scale first.",
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


def _biases(state: State, right: Step) -> Any:
    """Return what a design choice adds to the scaled logits, such as linear biases."""
    added = right(state) - state["logits"] * state["scale"]
    if not added.any():
        raise ImpossibleError("nothing is added to the logits")
    return added


for _id, _says, _factor in (
    (
        "opposite",
        "You rewarded far keys: the biases grow with the distance. Subtract slope · distance.",
        lambda h: -1.0,
    ),
    (
        "from-one",
        "You started the slopes of the linear biases at 1. With H heads, start at 2^(-8/H), and multiply by it.",
        lambda h: 2.0 ** (8 / h),
    ),
):
    register(
        f"linear-biases-{_id}",
        _says,
        "the biases that you add to the logits",
        "Press et al. 2022, arXiv 2108.12409, section 3",
        scaled=lambda state, right, of=_factor: (
            state["logits"] * state["scale"] + _biases(state, right) * of(state["logits"].shape[1])
        ),
    )
