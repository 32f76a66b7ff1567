"""Mistakes in the softmax over s (Vaswani et al. 2017, section 3.2.1, equation 1)."""

from collections.abc import Callable

import numpy as np

from kmha.verify.chains.attention import Change, State, softmax
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.2.1"


def _over(axes: tuple[int, ...]) -> Change:
    """Where all logits along `axes` are -∞, NaN: unlike a row, such a column is no case that code provides for."""
    return lambda state, right: _naive(state["masked"], axes)


def _naive(masked: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    powers = np.exp(masked - masked.max(axis=axes, keepdims=True))
    return powers / powers.sum(axis=axes, keepdims=True)


for _name, _axes, _says, _source in (
    (
        "queries",
        (-2,),
        "The softmax runs over the queries in place of the keys: columns sum to one.",
        "labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254",
    ),
    (
        "heads",
        (1,),
        "The softmax runs over the heads in place of the keys.",
        PAPER,
    ),
    ("batch", (0,), "The softmax runs over the batch in place of the keys.", PAPER),
    (
        "heads-and-batch",
        (0, 1),
        "The softmax runs over heads and batch together, the first axis of (H·B, T, S), in place of the keys.",
        "jadore801120/attention-is-all-you-need-pytorch#52",
    ),
    (
        "batch-and-queries",
        (0, 2),
        "The softmax runs over batch and queries together, the first axis of (B·T, S), in place of the keys.",
        "PetrochukM/PyTorch-NLP#2",
    ),
    (
        "flattened",
        (-2, -1),
        "The softmax runs over queries and keys together: a head's whole matrix sums to one.",
        "asked in lucidrains/perceiver-pytorch#46",
    ),
    (
        "heads-and-keys",
        (1, -1),
        "The softmax runs over heads and keys together: a query's scores of all heads sum to one.",
        "facebookresearch/detr#247, singhgautam/slate#3",
    ),
    (
        "everything",
        (0, 1, 2, 3),
        "The softmax runs over the whole array: the scores of all items, heads and queries sum to one.",
        PAPER,
    ),
):
    register(f"softmax-over-{_name}", _says, "the axis of the softmax", _source, scores=_over(_axes))


def _zeroed(state: State, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A function of the scaled logits, and zero where nobody may attend."""
    return np.where(state["allowed"], of(state["scaled"]), 0.0)


def _normalised(powers: np.ndarray) -> np.ndarray:
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


def _exponentials(state: State) -> np.ndarray:
    """exp of the logits as they are, in the candidate's dtype."""
    return np.exp(state["masked"].astype(state["trial"].dtype))


for _name, _says, _source, _change in (
    (
        "missing",
        "There is no softmax: the logits themselves mix the values.",
        "flexflow/flexflow-train#467, PaddlePaddle/PaddleOCR#4556",
        lambda state, right: _zeroed(state, lambda logits: logits),
    ),
    (
        "twice",
        "The softmax is taken twice: the scores go through a second one.",
        PAPER,
        lambda state, right: softmax(np.where(state["allowed"], right(state), -np.inf)),
    ),
    (
        "twice-unmasked",
        "The softmax is taken twice, the second time without the mask: what was hidden gets a share again.",
        "zyy-2001/DisKT#6",
        lambda state, right: softmax(right(state)),
    ),
    (
        "of-opposite",
        "The softmax is of the negative logits: the least alike get the most.",
        "a choice in CASIA-IVA-Lab/DANet#48",
        lambda state, right: softmax(np.where(state["allowed"], -state["scaled"], -np.inf)),
    ),
    (
        "sigmoid",
        "A sigmoid stands in the place of the softmax: rows do not sum to one.",
        "codekansas/keras-language-modeling#30",
        lambda state, right: _zeroed(state, _sigmoid),
    ),
    (
        "sigmoid-normalised",
        "A sigmoid, divided by its row's sum, stands in the place of the softmax.",
        "Wang-Tianwei/Decoupled-attention-network#14",
        lambda state, right: _normalised(_zeroed(state, _sigmoid)),
    ),
    (
        "not-normalised",
        "The exponentials are not divided by their sum.",
        PAPER,
        lambda state, right: _exponentials(state).astype("float64"),
    ),
    (
        "without-exponential",
        "The logits are divided by their row's sum without taking exponentials.",
        PAPER,
        lambda state, right: _normalised(_zeroed(state, lambda logits: logits)),
    ),
    (
        "divided-by-keys",
        "The logits are divided by the number of keys, and there is no softmax.",
        PAPER,
        lambda state, right: _zeroed(state, lambda logits: logits) / state["scaled"].shape[-1],
    ),
    (
        "rectified",
        "The logits below zero are cut off and the rest divided by their sum: relu in the place of the exponential.",
        PAPER,
        lambda state, right: _normalised(_zeroed(state, lambda logits: np.maximum(logits, 0.0))),
    ),
    (
        "logarithm",
        "The logarithm of the softmax (log_softmax) is used as the scores.",
        PAPER,
        lambda state, right: np.where(state["allowed"], np.log(right(state)), 0.0),
    ),
    (
        "hard",
        "Only the largest logit of a row counts: argmax in the place of the softmax.",
        PAPER,
        lambda state, right: np.where(
            state["allowed"] & (state["masked"] == state["masked"].max(axis=-1, keepdims=True)), 1.0, 0.0
        ),
    ),
    (
        "base-two",
        "The softmax takes powers of 2 in place of e.",
        PAPER,
        lambda state, right: softmax(state["masked"] * np.log(2.0)),
    ),
    (
        "one-more",
        "One is added to the sum of the exponentials: rows sum to less than one.",
        "a proposal: karpathy/llama2.c#59, kyegomez/AttentionIsOFFByOne#5",
        lambda state, right: right(state) * _with_one(state["masked"]),
    ),
    (
        "overflow",
        "The exponentials overflow: the row's largest logit is not taken off before.",
        "pytorch/executorch#18407, NVIDIA/FasterTransformer#43, mila-iqia/blocks#727",
        lambda state, right: (_exponentials(state) / _exponentials(state).sum(axis=-1, keepdims=True)).astype(
            "float64"
        ),
    ),
    (
        "largest-of-all",
        "The largest logit of the whole array is taken off in place of the row's: rows far below it underflow to NaN.",
        PAPER,
        lambda state, right: _shifted(state["masked"]),
    ),
):
    register(f"softmax-{_name}", _says, "the softmax", _source, scores=_change)


def _with_one(masked: np.ndarray) -> np.ndarray:
    """Σ exp / (1 + Σ exp)."""
    largest = np.maximum(masked.max(axis=-1, keepdims=True), 0.0)
    total = np.exp(masked - largest).sum(axis=-1, keepdims=True)
    return total / (total + np.exp(-largest))


def _shifted(masked: np.ndarray) -> np.ndarray:
    powers = np.exp(masked - masked.max())
    return powers / powers.sum(axis=-1, keepdims=True)
