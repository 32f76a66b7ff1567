"""The calling conventions that a signature does not show: the layout of inputs, masks and weights.

`kmha.verify.diagnosing.convention_search` tries all usual conventions.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Trial
from kmha.verify.choices import CHOICES

ALL_ROLES = (*ROLES, "attention_output")

# Layouts of inputs. The inputs of a core (attention without weights) have as many features as a head.
HEADS = "(B, H, P, O)"
MIDDLE = "(B, P, H, O)"
ONE_KEY = "(B, H, T, O), with one key and value (B, S, O) for all heads"
BATCH = "(B, P, I)"
SINGLE = "(P, I)"
MIDDLE_SINGLE = "(P, H, O)"
SINGLES = (SINGLE, MIDDLE_SINGLE)
TIME = "(P, B, I)"
IDS = "(B, P)"  # token ids, for an encoding that only takes its number of positions from them
COUNT = "P, their number alone"  # for an encoding that takes a number of positions
LISTS: dict[str, tuple[str, ...]] = {
    "[query, key, value]": ("query", "key", "value"),
    "[query, value, key]": ("query", "value", "key"),
    "[query, key]": ("query", "key"),
}

# Shapes of a mask, as functions of a mask (B, T, S) and H, and of a padding mask, as functions of a mask (B, S).
MASK_SHAPES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "B,1,T,S": lambda mask, heads: mask[:, None],
    "B,T,S": lambda mask, heads: mask,
    "B,H,T,S": lambda mask, heads: np.repeat(mask[:, None], heads, axis=1),
    "T,S": lambda mask, heads: mask[0],
    "B,S": lambda mask, heads: mask[:, -1],
    "B,1,1,S": lambda mask, heads: mask[:, None, -1:],
    "T,S,B": lambda mask, heads: np.moveaxis(mask, 0, -1),
    "B·H,T,S": lambda mask, heads: np.repeat(mask, heads, axis=0),  # as torch's
    "H·B,T,S": lambda mask, heads: np.tile(mask, (heads, 1, 1)),
}
SAME_FOR_ROWS = ("B,S", "B,1,1,S")  # shapes of a mask that is the same for all queries
PADDING_SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "B,S": lambda mask: mask,
    "B,1,1,S": lambda mask: mask[:, None, None],
    "B,1,S": lambda mask: mask[:, None],
    "S": lambda mask: mask[0],
}
MASK_DTYPES = ("bool", "float", "int32")
# Meanings of True (or 1) in a mask. With "adds", the mask is added to the logits.
MASK_MEANINGS = ("attends", "hides", "adds")
HIDDEN = -1e9  # number that a mask adds to hidden logits


@dataclasses.dataclass(frozen=True)
class Convention:
    """The parts of a candidate's calling convention that the signature does not show.

    Attributes:
        weights: Form or arrangement of the weights.
        mask_shape: Shape of a mask, a key of `MASK_SHAPES`.
        mask_dtype: Dtype of a mask.
        padding_shape: Shape of a padding mask, a key of `PADDING_SHAPES`.
        dtype: Dtype of inputs and weights.
        causal: Whether the candidate is causal without being asked.
        entry: Layout of the inputs, such as `BATCH`.
        one_head: Whether the candidate has a single head and weights without an axis of heads.
        framework: Framework of the arrays, if several are possible.
        choices: Ids of the design choices that the candidate makes, in `kmha.verify.choices`.
        mask_meaning: Meaning of True (or 1) in a mask, one of `MASK_MEANINGS`.
        padding_meaning: Meaning of True (or 1) in a padding mask.
        guessed: Required arguments that no role explains, each with its value as `guessing` names it.
        norm_epsilon: Epsilon of normalizations inside attention.
        sizes: Kind of sizes, one of `trials.SIZE_KINDS`.
    """

    weights: Any = None
    mask_shape: str = "B,1,T,S"
    mask_dtype: str = "bool"
    padding_shape: str = "B,S"
    dtype: str = "float64"
    causal: bool = False
    entry: str = BATCH
    one_head: bool = False
    framework: str = ""
    choices: tuple[str, ...] = ()
    mask_meaning: str = "attends"
    padding_meaning: str = "attends"
    guessed: tuple[tuple[str, str], ...] = ()
    norm_epsilon: float = 1e-5
    sizes: str = "different"


def adapt(trial: Trial, convention: Convention, present: frozenset[str] | None) -> Trial:
    """Return the trial as this candidate can run it.

    Args:
        trial: Trial as drawn, before any change.
        convention: Calling convention. If inputs have no batch axis, only one item is kept. A mask (T, S) is the same
            for all items, and a mask (B, S) for all queries.
        present: Names of the canonical weights that the candidate has, or `None` if unknown. A missing bias is no
            mistake, and a projection without a kernel is the identity.
    """
    changes: dict[str, Any] = {}
    if convention.causal:
        changes["causal"] = True
    if convention.choices:
        changes["choices"] = tuple(CHOICES[id].changes for id in convention.choices)
    if "causal-bottom-right" in convention.choices:
        changes["more"] = {**trial.more, "corner": "bottom right"}
    if present is not None and not trial.core:
        changes["weights"] = _weights(trial, present)
    trial = dataclasses.replace(trial, **changes) if changes else trial
    if convention.entry in SINGLES:
        return _one_item(trial)
    if convention.entry == ONE_KEY:
        key = np.broadcast_to(trial.key[:, :1], trial.key.shape)
        same = trial.value is trial.key
        value = key if same else np.broadcast_to(trial.value[:, :1], trial.value.shape)
        trial = dataclasses.replace(trial, key=key, value=value)
    if trial.mask is not None and convention.mask_shape == "T,S":
        trial = dataclasses.replace(trial, mask=np.broadcast_to(trial.mask[-1:], trial.mask.shape))
    if trial.mask is not None and convention.mask_shape in SAME_FOR_ROWS:
        trial = dataclasses.replace(trial, mask=np.broadcast_to(trial.mask[:, -1:], trial.mask.shape))
    return trial


def _weights(trial: Trial, present: frozenset[str]) -> dict[str, np.ndarray]:
    if trial.chain != "attention":
        found = {name: array for name, array in trial.weights.items() if name in present}
        for name, array in trial.weights.items():
            if name.endswith("attention_output/kernel") and name not in found:  # the heads joined are its output
                found[name] = np.eye(array.shape[0] * array.shape[1]).reshape(*array.shape[:2], -1)
            elif name == "ffn/dense2/kernel" and name not in found:  # a network of one layer
                found[name] = np.eye(len(array))
        return found
    heads, _, size = trial.weights["query/kernel"].shape
    return with_identity_kernels({name: array for name, array in trial.weights.items() if name in present}, heads, size)


def with_identity_kernels(weights: Mapping[str, np.ndarray], heads: int, size: int) -> dict[str, np.ndarray]:
    """Return the weights with an identity for every missing kernel.

    >>> with_identity_kernels({}, 2, 3)["query/kernel"].shape
    (2, 6, 3)
    """
    weights = dict(weights)
    for role in ALL_ROLES:
        name = f"{role}/kernel"
        if role == "attention_output" and "value/kernel" in weights:
            size = weights["value/kernel"].shape[-1]
        width = heads * size
        if name not in weights:
            axes = (heads, size, width) if role == "attention_output" else (width, heads, size)
            kernel = np.eye(width).reshape(axes)
            weights[name] = kernel if role == "attention_output" else np.swapaxes(kernel, 0, 1)
    return weights


def _one_item(trial: Trial) -> Trial:
    """Return the trial with one item of the batch alone: the last one that has padding, if any has."""
    padded: list[int] = [] if trial.key_mask is None else np.flatnonzero(~trial.key_mask.all(axis=1)).tolist()
    one = slice(padded[-1], padded[-1] + 1) if padded else slice(-1, None)
    masks = {name: getattr(trial, name) for name in ("mask", "key_mask", "query_mask")}
    changes = {name: mask[one] for name, mask in masks.items() if mask is not None}
    return trial.with_inputs(lambda array: array[one], **changes)
