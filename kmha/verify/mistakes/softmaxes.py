"""Mistakes in the softmax over s (Vaswani et al. 2017, section 3.2.1, equation 1)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import State, Step, normalised, share_with_one_more, softmax
from kmha.verify.mistakes.entry import register

PAPER = "Vaswani et al. 2017, section 3.2.1"


def _naive(masked: np.ndarray, axes: Any) -> np.ndarray:
    """Return a softmax over `axes` that gives NaN where all its logits are -∞, a case that code rarely handles."""
    powers = np.exp(masked - masked.max(axis=axes, keepdims=True))
    return powers / powers.sum(axis=axes, keepdims=True)


ANNOTATED = "labmlai/annotated_deep_learning_paper_implementations#146, FudanNLP/fastNLP#254"
for _name, _axes, _over, _source in (
    ("queries", -2, "the queries, so columns sum to one", ANNOTATED),
    ("heads", 1, "the heads", PAPER),
    ("batch", 0, "the batch", PAPER),
    (
        "heads-and-batch",
        (0, 1),
        "heads and batch together, the first axis of (H·B, T, S)",
        "jadore801120/attention-is-all-you-need-pytorch#52",
    ),
    ("batch-and-queries", (0, 2), "batch and queries together, the first axis of (B·T, S)", "PetrochukM/PyTorch-NLP#2"),
    (
        "flattened",
        (-2, -1),
        "queries and keys together, so a head's whole matrix sums to one",
        "asked in lucidrains/perceiver-pytorch#46",
    ),
    (
        "heads-and-keys",
        (1, -1),
        "heads and keys together, so a query's scores of all heads sum to one",
        "facebookresearch/detr#247, singhgautam/slate#3",
    ),
    ("everything", None, "the whole array, so the scores of all items, heads and queries sum to one", PAPER),
):
    register(
        f"softmax-over-{_name}",
        f"You took the softmax over {_over}. Take it over the keys, the last axis, alone.",
        "the axis of the softmax",
        _source,
        scores=lambda state, right, axes=_axes: _naive(state["masked"], axes),
    )


def _sum_over_queries(state: State, right: Step) -> np.ndarray:
    largest = state["masked"].max(-1, keepdims=True)
    powers = np.exp(state["masked"] - np.where(np.isfinite(largest), largest, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(powers / powers.sum(-2, keepdims=True))


register(
    "softmax-sum-over-queries",
    "You divided by the sum over the queries, after subtracting each query's largest logit. Sum over the keys, the "
    "last axis.",
    "the sum in the softmax",
    PAPER,
    scores=_sum_over_queries,
)


def _zeroed(state: State, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return `of` applied to the scaled logits, with zeros where t may not attend to s."""
    return np.where(state["allowed"], of(state["scaled"]), 0.0)


HIDDEN = -1e9  # number that many layers fill in instead of -inf, whose opposite would make the whole row NaN


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


def _exponentials(state: State) -> np.ndarray:
    """Return exp of the logits, without subtracting the largest logit, in the candidate's dtype."""
    return np.exp(state["masked"].astype(state["trial"].dtype))


def _overflowing(state: State, right: Step) -> np.ndarray:
    powers = _exponentials(state)
    return (powers / powers.sum(axis=-1, keepdims=True)).astype("float64")


def _without_keepdims(masked: np.ndarray, subtracted: Any) -> np.ndarray:
    """Return a softmax whose row sums (B, H, T) are broadcast against (B, H, T, S)."""
    powers = np.exp(masked - subtracted)
    return powers / powers.sum(-1)


def _log_softmax(masked: np.ndarray) -> np.ndarray:
    shifted = masked - masked.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _shifted(masked: np.ndarray) -> np.ndarray:
    powers = np.exp(masked - masked.max())
    return powers / powers.sum(axis=-1, keepdims=True)


for _name, _says, _source, _change in (
    (
        "missing",
        "You mixed the values with the logits. Take their softmax first.",
        "flexflow/flexflow-train#467, PaddlePaddle/PaddleOCR#4556",
        lambda state, right: _zeroed(state, lambda logits: logits),
    ),
    (
        "missing-masked",
        "You mixed the values with the masked logits, so the large negative numbers at hidden positions are mixed too. "
        "Take the softmax first.",
        PAPER,
        lambda state, right: np.where(np.isfinite(state["masked"]), state["masked"], HIDDEN),
    ),
    (
        "twice",
        "You took the softmax twice. Take it once.",
        PAPER,
        lambda state, right: softmax(np.where(state["allowed"], right(state), -np.inf)),
    ),
    (
        "twice-unmasked",
        "You took the softmax twice, the second time without the mask, so hidden keys get a weight again. "
        "Take it once.",
        "zyy-2001/DisKT#6",
        lambda state, right: softmax(right(state)),
    ),
    (
        "of-opposite",
        "You took the softmax of the negative logits. Take it of the logits: the most similar keys get the most.",
        "a choice in CASIA-IVA-Lab/DANet#48",
        lambda state, right: softmax(np.where(state["allowed"], -state["scaled"], -np.inf)),
    ),
    (
        "of-opposite-masked",
        "You took the softmax of the negative masked logits, so only hidden keys get weights. Take it of the logits.",
        PAPER,
        lambda state, right: softmax(-np.where(np.isfinite(state["masked"]), state["masked"], HIDDEN)),
    ),
    (
        "sigmoid",
        "You used a sigmoid, so rows do not sum to one. Use a softmax.",
        "codekansas/keras-language-modeling#30",
        lambda state, right: _zeroed(state, _sigmoid),
    ),
    (
        "sigmoid-normalised",
        "You used a sigmoid and divided by the row's sum. Use a softmax.",
        "Wang-Tianwei/Decoupled-attention-network#14",
        lambda state, right: normalised(_zeroed(state, _sigmoid)),
    ),
    (
        "not-normalised",
        "You did not divide the exponentials by their sum. Divide each row by its sum.",
        PAPER,
        lambda state, right: _exponentials(state).astype("float64"),
    ),
    (
        "without-exponential",
        "You divided the logits by their row's sum without taking exponentials. Take exp of the logits first.",
        PAPER,
        lambda state, right: normalised(_zeroed(state, lambda logits: logits)),
    ),
    (
        "divided-by-keys",
        "You divided the logits by the number of keys. Take their softmax.",
        PAPER,
        lambda state, right: _zeroed(state, lambda logits: logits) / state["scaled"].shape[-1],
    ),
    (
        "rectified",
        "You used relu instead of exp and divided by the row's sum. Use a softmax.",
        PAPER,
        lambda state, right: normalised(_zeroed(state, lambda logits: np.maximum(logits, 0.0))),
    ),
    (
        "logarithm",
        "You used the logarithm of the softmax (log_softmax) as the scores. Use the softmax.",
        PAPER,
        lambda state, right: _log_softmax(state["masked"]),
    ),
    (
        "hard",
        "You gave all weight to the largest logit of a row (argmax). Use a softmax.",
        PAPER,
        lambda state, right: (
            1.0 * (state["allowed"] & (state["masked"] == state["masked"].max(axis=-1, keepdims=True)))
        ),
    ),
    (
        "base-two",
        "You took powers of 2 in the softmax. Take powers of e.",
        PAPER,
        lambda state, right: softmax(state["masked"] * np.log(2.0)),
    ),
    (
        "one-more",
        "You added one to the sum of the exponentials, so rows sum to less than one. Divide by the sum alone.",
        "a proposal: karpathy/llama2.c#59, kyegomez/AttentionIsOFFByOne#5",
        lambda state, right: right(state) * share_with_one_more(state["masked"]),
    ),
    (
        "overflow",
        "You took exp of large logits, which overflows. Subtract the row's largest logit first.",
        "pytorch/executorch#18407, NVIDIA/FasterTransformer#43, mila-iqia/blocks#727",
        _overflowing,
    ),
    (
        "sum-without-keepdims",
        "You divided by the sums without keepdims=True, so key s is divided by the sum of row s. Keep the last axis.",
        PAPER,
        lambda state, right: _without_keepdims(state["masked"], state["masked"].max(-1, keepdims=True)),
    ),
    (
        "unshifted-sum-without-keepdims",
        "You divided exp of the logits by the sums without keepdims=True, so key s is divided by the sum of row s. "
        "Keep the last axis.",
        PAPER,
        lambda state, right: _without_keepdims(state["masked"], 0.0),
    ),
    (
        "without-keepdims",
        "You subtracted the maxima and divided by the sums without keepdims=True, so key s gets the numbers of row s. "
        "Keep the last axis.",
        PAPER,
        lambda state, right: _without_keepdims(state["masked"], state["masked"].max(-1)),
    ),
    (
        "largest-of-all",
        "You subtracted the array's largest logit, so rows far below it are NaN. Subtract each row's own largest.",
        PAPER,
        lambda state, right: _shifted(state["masked"]),
    ),
):
    register(f"softmax-{_name}", _says, "the softmax", _source, scores=_change)
