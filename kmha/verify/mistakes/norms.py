"""Mistakes in the layer normalizations of a block: where they stand, and their formula.

They stand after the residual connections in Vaswani et al. 2017, section 3.1, and before the sublayers in Xiong et al.
2020, arXiv 2002.04745. The formula is that of Ba et al. 2016, arXiv 1607.06450, equations 3 and 4.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, ImpossibleError, State, Step
from kmha.verify.chains.blocks import NORMS
from kmha.verify.mistakes.entry import register

VASWANI = "Vaswani et al. 2017, section 3.1"


def _place(place: str) -> Change:
    def change(state: State, right: Step) -> Any:
        if right(state) == place:
            raise ImpossibleError("that is where it should be")
        return place

    return change


for _id, _says, _source, _to in (
    (
        "norm-before",
        "The normalizations stand before the sublayers (pre-norm) in place of after the residual connections.",
        "hkproj/pytorch-transformer#14, d2l-ai/d2l-en#803",
        "before",
    ),
    (
        "norm-after",
        "The normalizations stand after the residual connections (post-norm) in place of before the sublayers.",
        "harvardnlp/annotated-transformer#13",
        "after",
    ),
    ("norm-both", "There is a normalization before each sublayer and after its residual connection.", VASWANI, "both"),
    ("norm-never", "All normalizations are missing.", VASWANI, "never"),
    (
        "norm-inside-residual",
        "Only what a sublayer gives is normalized, before the residual connection: x + norm(sublayer(x)).",
        "keitakurita/Practical_NLP_in_PyTorch#1, harvardnlp/annotated-transformer#110",
        "inside",
    ),
    (
        "norm-replaces-input",
        "x is overwritten by its normalization before the sublayer, so that the residual connection adds the latter.",
        "OpenNMT/OpenNMT-py#1375",
        "replaced",
    ),
):
    register(
        _id, _says, "the order of sublayer, residual connection and normalization", _source, norm_place=_place(_to)
    )

register(
    "norm-twice",
    "Every normalization is applied twice.",
    "how often the normalizations are called",
    VASWANI,
    normalize=lambda state, right: lambda x, gamma, beta: right(state)(right(state)(x, gamma, beta), gamma, beta),
)
register(
    "norm-last-twice",
    "What the block gives is normalized once more by the last normalization.",
    "what stands after the last residual connection",
    "harvardnlp/annotated-transformer#1",
    after_last=lambda state, right: state["last_norm"](right(state)),
)

WHICH = "which normalization is called where"
SHARED = "bentrevett/pytorch-seq2seq#100, allenai/OLMo#222, henry9zhr/QANet-pytorch#7"
PLACES = {"norm1": (0, "self-attention"), "norm2": (1, "second attention"), "last_norm": (2, "feed-forward network")}


def _taken(*taken: tuple[str, str]) -> Change:
    """A change of `block_weights`: for each (a, b), the norm a gets the weights of b."""

    def change(state: State, right: Step) -> Any:
        weights, layers = right(state), NORMS[state["trial"].chain]
        new = {}
        for one, other in taken:
            for part in ("gamma", "beta"):
                new[f"{layers[PLACES[one][0]]}/{part}"] = weights[f"{layers[PLACES[other][0]]}/{part}"]
        return {**weights, **new}

    return change


def _and_norm2(*places: str) -> dict[str, Change]:
    """So that a mistake of the second attention's normalization is one of decoders only."""
    return {"norm2": lambda state, right: right(state)} if "norm2" in places else {}


for _step, (_, _which) in PLACES.items():
    _id = {"norm1": "attention", "norm2": "cross", "last_norm": "feed-forward"}[_step]
    register(
        f"norm-missing-{_id}",
        f"The normalization of the {_which} is missing.",
        WHICH,
        VASWANI,
        **{_step: lambda state, right: lambda x: x},
    )
    for _other, (_, _whose) in PLACES.items():
        if _other == _step:
            continue
        register(
            f"norm-shared-{_step}-{_other}".replace("_norm", "").replace("norm1", "1").replace("norm2", "2"),
            f"The normalization of the {_which} is that of the {_whose}: they share their weights.",
            WHICH,
            SHARED,
            block_weights=_taken((_step, _other)),
            **_and_norm2(_step, _other),
        )
for _one, _other in (("norm1", "norm2"), ("norm1", "last_norm"), ("norm2", "last_norm")):
    register(
        f"norm-swapped-{_one}-{_other}".replace("_norm", "").replace("norm1", "1").replace("norm2", "2"),
        f"The normalizations of the {PLACES[_one][1]} and of the {PLACES[_other][1]} are exchanged.",
        WHICH,
        SHARED,
        block_weights=_taken((_one, _other), (_other, _one)),
        **_and_norm2(_one, _other),
    )

BA = "Ba et al. 2016, section 3"
FORMULA = "the formula of the normalization"

for _name, _axes, _says, _source in (
    (
        "time",
        1,
        "The normalization runs over the positions in place of the features.",
        "jadore801120/attention-is-all-you-need-pytorch#17, lucidrains/segformer-pytorch#7",
    ),
    ("batch", 0, "The normalization runs over the batch in place of the features.", "google-research/bert#1088"),
    (
        "time-and-features",
        (1, 2),
        "The normalization runs over positions and features together.",
        "Qualcomm-AI-research/geometric-algebra-transformer#8, reczoo/FuxiCTR#23",
    ),
    (
        "batch-and-time",
        (0, 1),
        "The normalization takes the statistics of batch and positions: batch normalization, as in training.",
        "Kyubyong/transformer#40",
    ),
    ("everything", (0, 1, 2), "The normalization runs over the whole array.", "OpenNMT/OpenNMT-tf#6"),
):
    register(
        f"norm-over-{_name}",
        _says,
        "the axis of the normalization",
        _source,
        norm_axes=lambda state, right, axes=_axes: axes,
    )


def _epsilon(epsilon: float) -> Change:
    def change(state: State, right: Step) -> Any:
        if right(state) == epsilon:
            raise ImpossibleError("that is the right one")
        return epsilon

    return change


for _text, _says, _source in (
    ("1e-3", "as in Keras' default", "keras.layers.LayerNormalization, `epsilon=0.001`"),
    ("1e-5", "as in torch's default", "keras-team/keras-hub#642, huggingface/candle#271"),
    ("1e-6", "as in the course's blocks", "huggingface/candle#271"),
    ("1e-7", "as keras.config.epsilon() gives", BA),
    ("1e-8", "as the optimizers have it", BA),
    ("1e-12", "as in BERT", "keras-team/keras-hub#642"),
    ("0", "which means that there is none", BA),
):
    register(
        f"norm-epsilon-{_text}",
        f"The normalizations' epsilon is {_text}, {_says}.",
        "the epsilon of the normalizations",
        _source,
        epsilon=_epsilon(float(_text)),
    )


def _deviation(of: Callable[[np.ndarray, float], Any]) -> Change:
    """A change of what a normalization divides by: of variance and epsilon."""
    return lambda state, right: lambda variance: of(variance, state["epsilon"])


for _id, _says, _source, _of in (
    (
        "norm-epsilon-outside",
        "The epsilon is added to the standard deviation, outside of the root.",
        "hyunwoongko/transformer#7, hkproj/pytorch-transformer#31",
        lambda variance, epsilon: np.sqrt(variance) + epsilon,
    ),
    (
        "norm-without-root",
        "The normalization divides by the variance, not by its root.",
        BA,
        lambda variance, epsilon: variance + epsilon,
    ),
    (
        "norm-squared",
        "The normalization divides by the variance's square in place of its root.",
        "131250208/TPlinker-joint-extraction#37",
        lambda variance, epsilon: (variance + epsilon) ** 2,
    ),
    (
        "norm-not-divided",
        "The normalization subtracts the mean, and does not divide by the standard deviation.",
        BA,
        lambda variance, epsilon: 1.0,
    ),
    (
        "norm-multiplied",
        "The normalization multiplies by the standard deviation in place of dividing.",
        BA,
        lambda variance, epsilon: 1 / np.sqrt(variance + epsilon),
    ),
):
    register(_id, _says, FORMULA, _source, deviation=_deviation(_of))


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


def _not_centred(state: State, right: Step) -> Any:
    return lambda x: x


for _id, _says, _source, _changes in (
    (
        "norm-unbiased",
        "The standard deviation is the unbiased one, with n - 1 (torch's default), in place of n.",
        "harvardnlp/annotated-transformer#119, FluxML/Flux.jl#529, codertimo/BERT-pytorch#30",
        {"variance": _unbiased},
    ),
    (
        "norm-variance-summed",
        "The squares are summed in place of averaged: the variance is larger by the number of features.",
        BA,
        {"variance": _sum},
    ),
    (
        "norm-variance-around-zero",
        "The variance is the mean of the squares: the mean is not taken off before squaring.",
        BA,
        {"variance": _around_zero},
    ),
    ("norm-not-centred", "The normalization does not subtract the mean.", BA, {"centre": _not_centred}),
    (
        "norm-root-mean-square",
        "The normalization divides by the root of the mean square, and subtracts no mean (RMSNorm).",
        "Zhang & Sennrich 2019, arXiv 1910.07467, against " + BA,
        {"centre": _not_centred, "variance": _around_zero},
    ),
    (
        "norm-moving-statistics",
        "The normalization uses stored statistics, mean 0 and variance 1: an untrained batch normalization.",
        "Kyubyong/transformer#40",
        {"centre": _not_centred, "variance": lambda state, right: lambda x: np.ones(x.shape[-1])},
    ),
):
    register(_id, _says, FORMULA, _source, **_changes)

GAIN = "the gain and the bias of the normalization"


def _affine(of: Callable[..., np.ndarray]) -> Change:
    """A change of normal · gamma + beta: of the right function, normal, gamma and beta."""
    return lambda state, right: lambda normal, gamma, beta: of(right(state), normal, gamma, beta)


for _id, _says, _formula in (
    ("norm-gain-missing", "The gain is left out.", lambda right, normal, gamma, beta: right(normal, 1.0, beta)),
    ("norm-bias-missing", "The bias is left out.", lambda right, normal, gamma, beta: right(normal, gamma, 0.0)),
    (
        "norm-affine-twice",
        "Gain and bias are applied twice.",
        lambda right, normal, gamma, beta: right(right(normal, gamma, beta), gamma, beta),
    ),
    ("norm-bias-first", "The bias is added before the gain.", lambda right, n, gamma, beta: (n + beta) * gamma),
    ("norm-gain-from-one", "One is added to the gain.", lambda right, n, gamma, beta: right(n, 1 + gamma, beta)),
    ("norm-gain-bias-swapped", "Gain and bias are swapped.", lambda right, n, gamma, beta: right(n, beta, gamma)),
    ("norm-gain-divides", "The gain divides.", lambda right, n, gamma, beta: right(n, 1 / gamma, beta)),
):
    register(
        _id,
        f"The normalizations' formula is wrong: {_says[0].lower()}{_says[1:]}",
        GAIN,
        BA,
        affine=_affine(_formula),
    )
