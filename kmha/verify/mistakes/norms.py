"""Mistakes in the layer normalizations of a block: their places and their formula.

Normalizations follow the residual connections in Vaswani et al. 2017, section 3.1, and precede the sublayers in Xiong
et al. 2020, arXiv 2002.04745. The formula is from Ba et al. 2016, arXiv 1607.06450, equations 3 and 4.
"""

import functools
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.chains.blocks import NORMS
from kmha.verify.mistakes.entry import register

VASWANI = "Vaswani et al. 2017, section 3.1"


def _place(place: str) -> Change:
    def change(state: State, right: Step) -> Any:
        if right(state) == place:
            raise ImpossibleError("the normalizations already stand there")
        return place

    return change


for _id, _says, _source, _to in (
    (
        "before",
        "You normalized before the sublayers (pre-norm). Normalize after the residual connections (post-norm).",
        "hkproj/pytorch-transformer#14, d2l-ai/d2l-en#803",
        "before",
    ),
    (
        "after",
        "You normalized after the residual connections (post-norm). Normalize before the sublayers (pre-norm).",
        "harvardnlp/annotated-transformer#13",
        "after",
    ),
    (
        "both",
        "You normalized both before each sublayer and after its residual connection. Normalize in only one of them.",
        VASWANI,
        "both",
    ),
    ("never", "You left out all normalizations. Add one for each sublayer.", VASWANI, "never"),
    (
        "inside-residual",
        "You computed x + norm(sublayer(x)). Normalize the sum (post-norm), or the sublayer's input (pre-norm).",
        "keitakurita/Practical_NLP_in_PyTorch#1, harvardnlp/annotated-transformer#110",
        "inside",
    ),
    (
        "replaces-input",
        "You overwrote x with norm(x) before the sublayer. Keep x itself for the residual connection.",
        "OpenNMT/OpenNMT-py#1375",
        "replaced",
    ),
):
    _look = "the order of sublayer, residual connection and normalization"
    register(f"norm-{_id}", _says, _look, _source, norm_place=_place(_to))

register(
    "norm-twice",
    "You applied every normalization twice. Apply each one once.",
    "the calls of the normalizations",
    VASWANI,
    normalize=lambda state, right: lambda x, gamma, beta: right(state)(right(state)(x, gamma, beta), gamma, beta),
)
register(
    "norm-last-twice",
    "You normalized the block's output a second time with the last normalization. Apply it once.",
    "the lines after the last residual connection",
    "harvardnlp/annotated-transformer#1",
    after_last=lambda state, right: state["last_norm"](right(state)),
)

WHICH = "the normalization that you call in each place"
SHARED = "bentrevett/pytorch-seq2seq#100, allenai/OLMo#222, henry9zhr/QANet-pytorch#7"
PLACES = {"norm1": (0, "self-attention"), "norm2": (1, "second attention"), "last_norm": (2, "feed-forward network")}


def _with_weights_of(*pairs: tuple[str, str]) -> Change:
    """Return a function that changes `block_weights`: for each pair (a, b), normalization a gets the weights of
    normalization b.
    """

    def change(state: State, right: Step) -> Any:
        weights, layers = right(state), NORMS[state["trial"].chain]
        new = {}
        for one, other in pairs:
            for part in ("gamma", "beta"):
                new[f"{layers[PLACES[one][0]]}/{part}"] = weights[f"{layers[PLACES[other][0]]}/{part}"]
        return {**weights, **new}

    return change


def _and_norm2(*places: str) -> dict[str, Change]:
    """Return an empty change if "norm2" is in `places`. It restricts a mistake to decoders, which have that step."""
    return {"norm2": lambda state, right: right(state)} if "norm2" in places else {}


for _step, (_, _which) in PLACES.items():
    _id = {"norm1": "attention", "norm2": "cross", "last_norm": "feed-forward"}[_step]
    register(
        f"norm-missing-{_id}",
        f"You left out the normalization of the {_which}. Call it.",
        WHICH,
        VASWANI,
        **{_step: lambda state, right: lambda x: x},
    )
    for _other, (_, _whose) in PLACES.items():
        if _other == _step:
            continue
        register(
            f"norm-shared-{_step}-{_other}".replace("_norm", "").replace("norm1", "1").replace("norm2", "2"),
            f"You used the normalization of the {_whose} for the {_which} too. Each has gain and bias of its own.",
            WHICH,
            SHARED,
            block_weights=_with_weights_of((_step, _other)),
            **_and_norm2(_step, _other),
        )
for _one, _other in (("norm1", "norm2"), ("norm1", "last_norm"), ("norm2", "last_norm")):
    register(
        f"norm-swapped-{_one}-{_other}".replace("_norm", "").replace("norm1", "1").replace("norm2", "2"),
        f"You swapped the normalizations of the {PLACES[_one][1]} and the {PLACES[_other][1]}. Call each in "
        "its own place: otherwise, trained weights of other code do not fit.",
        WHICH,
        SHARED,
        block_weights=_with_weights_of((_one, _other), (_other, _one)),
        **_and_norm2(_one, _other),
    )

BA = "Ba et al. 2016, section 3"
FORMULA = "the formula of the normalization"

for _name, _axes, _says, _source in (
    ("time", 1, "the positions", "jadore801120/attention-is-all-you-need-pytorch#17, lucidrains/segformer-pytorch#7"),
    ("batch", 0, "the batch", "google-research/bert#1088"),
    (
        "time-and-features",
        (1, 2),
        "positions and features together",
        "Qualcomm-AI-research/geometric-algebra-transformer#8, reczoo/FuxiCTR#23",
    ),
    (
        "batch-and-time",
        (0, 1),
        "batch and positions, as batch normalization does in training",
        "Kyubyong/transformer#40",
    ),
    ("everything", (0, 1, 2), "the whole array", "OpenNMT/OpenNMT-tf#6"),
):
    register(
        f"norm-over-{_name}",
        f"You normalized over {_says}. Normalize over the features alone, the last axis.",
        "the axis of the normalization",
        _source,
        norm_axes=lambda state, right, axes=_axes: axes,
    )


def _epsilon(epsilon: float) -> Change:
    def change(state: State, right: Step) -> Any:
        if right(state) == epsilon:
            raise ImpossibleError("the epsilon is already this")
        return epsilon

    return change


for _text, _says, _source in (
    ("1e-3", "which is Keras' default", "keras.layers.LayerNormalization, `epsilon=0.001`"),
    ("1e-5", "which is torch's default", "keras-team/keras-hub#642, huggingface/candle#271"),
    ("1e-6", "which the course's blocks use", "huggingface/candle#271"),
    ("1e-7", "which keras.config.epsilon() returns", BA),
    ("1e-8", "which optimizers use", BA),
    ("1e-12", "which BERT uses", "keras-team/keras-hub#642"),
    ("0", "which means no epsilon at all", BA),
):
    register(
        f"norm-epsilon-{_text}",
        f"You normalized with an epsilon of {_text}, {_says}. Set the epsilon that the block was given.",
        "the epsilon of the normalizations",
        _source,
        epsilon=_epsilon(float(_text)),
    )


for _id, _says, _source, _divisor in (
    (
        "epsilon-outside",
        "You added the epsilon to the standard deviation. Add it to the variance, inside the square root.",
        "hyunwoongko/transformer#7, hkproj/pytorch-transformer#31",
        lambda v, e: np.sqrt(v) + e,
    ),
    ("without-root", "You divided by the variance. Divide by its square root.", BA, lambda v, e: v + e),
    (
        "squared",
        "You divided by the square of the variance. Divide by its square root, the standard deviation.",
        "131250208/TPlinker-joint-extraction#37",
        lambda v, e: (v + e) ** 2,
    ),
    ("not-divided", "You did not divide. Divide by the standard deviation.", BA, lambda v, e: 1.0),
    ("multiplied", "You multiplied by the standard deviation. Divide by it.", BA, lambda v, e: 1 / np.sqrt(v + e)),
):
    register(
        f"norm-{_id}",
        _says,
        FORMULA,
        _source,
        deviation=lambda state, right, of=_divisor: lambda variance: of(variance, state["epsilon"]),
    )


def _count(x: np.ndarray, axes: Any) -> int:
    return int(np.prod(np.take(x.shape, axes)))


def _unbiased(state: State, right: Step) -> Any:
    def variance(x: np.ndarray) -> np.ndarray:
        count = _count(x, state["norm_axes"])
        return right(state)(x) * count / (count - 1)

    return variance


def _sum(state: State, right: Step) -> Any:
    return lambda x: right(state)(x) * _count(x, state["norm_axes"])


def _around_zero(state: State, right: Step) -> Any:
    return lambda x: np.mean(x**2, axis=state["norm_axes"], keepdims=True)


def _mean_squared(state: State, right: Step) -> Any:
    return lambda x: np.mean(x, axis=state["norm_axes"], keepdims=True) ** 2


def _not_centred(state: State, right: Step) -> Any:
    return lambda x: x


for _id, _says, _source, _changes in (
    (
        "unbiased",
        "You divided the sum of squares by n - 1 (the unbiased estimate, torch's default for std). Divide it by n.",
        "harvardnlp/annotated-transformer#119, FluxML/Flux.jl#529, codertimo/BERT-pytorch#30",
        {"variance": _unbiased},
    ),
    ("variance-summed", "You summed the squares for the variance. Average them.", BA, {"variance": _sum}),
    (
        "variance-around-zero",
        "You took the mean of the squares as the variance. Subtract the mean before you square.",
        BA,
        {"variance": _around_zero},
    ),
    (
        "mean-squared",
        "You took the square of the mean as the variance. Take the mean of the squares.",
        "Zhang & Sennrich 2019, arXiv 1910.07467, equation 4",
        {"variance": _mean_squared},
    ),
    ("not-centred", "You did not subtract the mean. Subtract it before you divide.", BA, {"centre": _not_centred}),
    (
        "root-mean-square",
        "You only divided by the root mean square (RMSNorm). Subtract the mean, then divide by the standard deviation.",
        "Zhang & Sennrich 2019, arXiv 1910.07467, against " + BA,
        {"centre": _not_centred, "variance": _around_zero},
    ),
    (
        "moving-statistics",
        "You normalized with stored mean 0 and variance 1 (untrained batch norm). Compute both from the features.",
        "Kyubyong/transformer#40",
        {"centre": _not_centred, "variance": lambda state, right: lambda x: np.ones(x.shape[-1])},
    ),
):
    register(f"norm-{_id}", _says, FORMULA, _source, **_changes)


# The last column computes the result from the original step, the normalized x, gamma and beta.
for _id, _did, _do, _formula in (
    ("gain-missing", "left out the gain", "Multiply by gamma", lambda right, n, g, b: right(n, 1.0, b)),
    ("bias-missing", "left out the bias", "Add beta at the end", lambda right, n, g, b: right(n, g, 0.0)),
    (
        "affine-twice",
        "applied gain and bias twice",
        "Apply them once",
        lambda right, n, g, b: right(right(n, g, b), g, b),
    ),
    ("bias-first", "added the bias before the gain", "Multiply by gamma first", lambda right, n, g, b: (n + b) * g),
    ("gain-from-one", "added one to the gain", "Multiply by gamma as it is", lambda right, n, g, b: right(n, 1 + g, b)),
    (
        "gain-bias-swapped",
        "swapped gain and bias",
        "Multiply by gamma, add beta",
        lambda right, n, g, b: right(n, b, g),
    ),
    ("gain-divides", "divided by the gain", "Multiply by gamma", lambda right, n, g, b: right(n, 1 / g, b)),
):
    register(
        f"norm-{_id}",
        f"You {_did} of the normalizations. {_do}.",
        "the gain and the bias of the normalization",
        BA,
        affine=lambda state, right, of=_formula: functools.partial(of, right(state)),
    )
