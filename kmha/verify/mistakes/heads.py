"""Mistakes in how the heads are split (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Change, ImpossibleError, State, Step
from kmha.verify.mistakes.entry import register

LOOK = "the line that splits the projections into heads"
ORDER = "the order of projecting and splitting"
PAPER = "Vaswani et al. 2017, section 3.2.2"


def _roles(of: Callable[[np.ndarray], np.ndarray], roles: tuple[str, ...] = ROLES) -> Change:
    """Return a change of `heads` that applies `of` to the arrays `biased` (B, P, H, O) of some roles."""

    def change(state: State, right: Step) -> Any:
        return {**right(state), **{role: of(state["biased"][role]) for role in roles}}

    return change


def _reshaped(array: np.ndarray) -> np.ndarray:
    batch, positions, heads, size = array.shape
    return array.reshape(batch, heads, positions, size)


def _size_first(array: np.ndarray) -> np.ndarray:
    batch, positions, heads, size = array.shape
    return array.reshape(batch, positions, size, heads).transpose(0, 3, 1, 2)


register(
    "heads-reshaped",
    "You split the heads with a reshape alone. Reshape to (B, P, H, O), then transpose to (B, H, P, O).",
    LOOK,
    "reczoo/FuxiCTR#30",
    heads=_roles(_reshaped),
)


def _merged_so(state: State, right: Step) -> Any:
    if state["trial"].core:
        raise ImpossibleError("the core does not merge its heads")
    return state["mixed"].reshape(right(state).shape)


register(
    "heads-reshaped-and-merged",
    "You split and merged the heads with reshapes alone. Transpose after splitting and before merging.",
    LOOK,
    "reczoo/FuxiCTR#30, 649453932/Chinese-Text-Classification-Pytorch#53",
    heads=_roles(_reshaped),
    joined=_merged_so,
)
for _role in ROLES:
    register(
        f"heads-reshaped-{_role}",
        f"You split the heads of the {_role} with a reshape alone. Reshape to (B, P, H, O), then transpose.",
        LOOK,
        "reczoo/FuxiCTR#30",
        heads=_roles(_reshaped, (_role,)),
    )
register(
    "heads-size-first",
    "You split the features as (O, H), so a head gets every H-th feature. This learns as well, but trained weights of "
    "other code do not fit. Split them as (H, O).",
    LOOK,
    PAPER,
    heads=_roles(_size_first),
)


def _unmasked(state: State, right: Step) -> Any:
    if state["trial"].masked:
        raise ImpossibleError("the mask does not fit a product over the heads")
    return np.ones((1, 1, 1, 1), bool)


register(
    "heads-attend-to-heads",
    "You let the heads of a position attend to each other. Transpose to (B, H, P, O) before the product.",
    LOOK,
    PAPER,
    heads=lambda state, right: dict(state["biased"]),
    allowed=_unmasked,
    dropped=lambda state, right: state["scores"],
    mixed=lambda state, right: np.swapaxes(right(state), 1, 2),
)


def _head(index: int, roles: tuple[str, ...] = ROLES) -> Change:
    def change(state: State, right: Step) -> Any:
        heads = right(state)
        chosen = {role: np.broadcast_to(heads[role][:, [index]], heads[role].shape) for role in roles}
        return {**heads, **chosen}

    return change


LOOP = "the loop over the heads"
for _id, _did, _look, _change in (
    ("all-first", "computed every head as the first one", LOOP, _head(0)),
    ("all-last", "computed every head as the last one, perhaps from a loop's variable after the loop", LOOP, _head(-1)),
    ("one-key-value", "used the first head's key and value in all heads", LOOK, _head(0, ("key", "value"))),
    *((f"one-{role}", f"used the first head's {role} in all heads", LOOK, _head(0, (role,))) for role in ROLES),
):
    _says = f"You {_did}. Each head has its own query, key and value."
    register(f"heads-{_id}", _says, _look, PAPER, heads=_change)


def _split_input(state: State, right: Step) -> Any:
    """Give head h only the h-th part of the features, and only the corresponding part of its kernel."""
    if state["trial"].core:
        raise ImpossibleError("nothing is projected")
    result = {}
    for role in ROLES:
        array, kernel = state["inputs"][role], state["weights"][f"{role}/kernel"]
        heads, features, _ = kernel.shape
        if array.shape[-1] != features or features % heads:
            raise ImpossibleError(f"{features} features cannot be split into {heads} heads")
        part = features // heads
        pieces = [array[..., h * part : (h + 1) * part] @ kernel[h, h * part : (h + 1) * part] for h in range(heads)]
        result[role] = np.stack(pieces, axis=2)
    return result


register(
    "heads-split-input",
    "You split the input into heads before projecting, so a head sees only its part. Project all features, then split.",
    ORDER,
    "MarcoMeter/episodic-transformer-memory-ppo#22, aladdinpersson/Machine-Learning-Collection#3",
    projected=_split_input,
)


def _split_input_first(state: State, right: Step) -> Any:
    """Give each head its part of the features, and the first head's kernel for that part."""
    weights = dict(state["weights"])
    for role in ROLES:
        kernel = weights.get(f"{role}/kernel")
        if kernel is None or kernel.shape[1] % kernel.shape[0]:
            raise ImpossibleError("nothing to split")
        heads, features, _ = kernel.shape
        part = features // heads
        same = np.zeros_like(kernel)
        for h in range(heads):
            same[h, h * part : (h + 1) * part] = kernel[0, :part]
        weights[f"{role}/kernel"] = same
    return right({**state, "weights": weights})


register(
    "heads-split-input-one-kernel",
    "You split the input into heads and projected all parts with one small kernel. Project all features, then split.",
    ORDER,
    "MarcoMeter/episodic-transformer-memory-ppo#22",
    projected=_split_input_first,
)
