"""Mistakes in how the heads are split (Vaswani et al. 2017, section 3.2.2)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.chains.attention import ROLES, Change, ImpossibleError, State, Step
from kmha.verify.mistakes.entry import register

LOOK = "where the projections are split into heads"
PAPER = "Vaswani et al. 2017, section 3.2.2"


def _roles(of: Callable[[np.ndarray], np.ndarray], roles: tuple[str, ...] = ROLES) -> Change:
    """A change of `heads` that takes the biased (B, P, H, O) of some roles through `of`."""

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
    "The heads are split by a reshape without a transpose: positions and features are mixed.",
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
    "The heads are split, and merged, by reshapes without a transpose: a head is made of neighbouring positions.",
    LOOK,
    "reczoo/FuxiCTR#30, 649453932/Chinese-Text-Classification-Pytorch#53",
    heads=_roles(_reshaped),
    joined=_merged_so,
)
for _role in ROLES:
    register(
        f"heads-reshaped-{_role}",
        f"The heads of the {_role} alone are split by a reshape without a transpose.",
        LOOK,
        "reczoo/FuxiCTR#30",
        heads=_roles(_reshaped, (_role,)),
    )
register(
    "heads-size-first",
    "The features are split as (O, H) in place of (H, O): a head gets every H-th feature.",
    LOOK,
    PAPER,
    heads=_roles(_size_first),
)


def _not_transposed(state: State, right: Step) -> Any:
    return dict(state["biased"])


def _unmasked(state: State, right: Step) -> Any:
    if state["trial"].masked:
        raise ImpossibleError("the mask does not fit a product over the heads")
    return np.ones((1, 1, 1, 1), bool)


register(
    "heads-attend-to-heads",
    "The heads are not moved before the positions: at every position the heads attend to each other.",
    LOOK,
    PAPER,
    heads=_not_transposed,
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


register(
    "heads-all-first",
    "Every head computes what the first computes.",
    "the loop over the heads",
    PAPER,
    heads=_head(0),
)
register(
    "heads-all-last",
    "Every head computes what the last computes: a loop's variable is read after the loop.",
    "the loop over the heads",
    PAPER,
    heads=_head(-1),
)
register(
    "heads-one-key-value",
    "All heads share the first head's key and value.",
    LOOK,
    PAPER,
    heads=_head(0, ("key", "value")),
)
register(
    "heads-one-query",
    "All heads share the first head's query.",
    LOOK,
    PAPER,
    heads=_head(0, ("query",)),
)


def _split_input(state: State, right: Step) -> Any:
    """Head h sees the h-th part of the features only, with that part of its kernel."""
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
    "The input's features are split into heads before projecting: a head sees only its part of them.",
    "whether the split is before the projections",
    "MarcoMeter/episodic-transformer-memory-ppo#22, aladdinpersson/Machine-Learning-Collection#3",
    projected=_split_input,
)


def _split_input_first(state: State, right: Step) -> Any:
    """Every head: its part of the features, and the first head's kernel for that part."""
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
    "The input's features are split into heads before projecting, and all parts go through one small kernel.",
    "whether the split is before the projections",
    "MarcoMeter/episodic-transformer-memory-ppo#22",
    projected=_split_input_first,
)
