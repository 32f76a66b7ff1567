"""Mistakes in what a mask does to the logits: which number is added or filled in, and when.

The last four show in float16 alone, whose largest number is 65,504. The chain computes in float64, so these changes
round to float16 what would have overflowed. Rounding errors are not mistakes here; infinities and NaN are.
"""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, State, Step, softmax
from kmha.verify.mistakes.entry import register
from kmha.verify.mistakes.masks import allowed_without, parts_of

LOOK = "the line that applies the mask to the logits"
PAPER = "Vaswani et al. 2017, section 3.2.3: illegal connections are set to -∞"


def _added(number: float) -> Change:
    """`number` is added where nobody may attend."""
    return lambda state, right: state["scaled"] + np.where(state["allowed"], 0.0, number)


def _filled(number: float) -> Change:
    return lambda state, right: np.where(state["allowed"], state["scaled"], number)


def _drowned(state: State, right: Step) -> Any:
    """float32 has steps of 64 at 1e9."""
    drowned = (np.float32(-1e9) + state["scaled"].astype("float32")).astype("float64")
    return np.where(state["allowed"], drowned, -np.inf) if state["trial"].masked else right(state)


def _masked_trial(change: Change) -> Change:
    """The change in trials that have a mask; code that does without one does nothing there."""

    def changed(state: State, right: Step) -> Any:
        return change(state, right) if state["trial"].masked else right(state)

    return changed


for _id, _says, _source, _change in (
    (
        "mask-added-ones",
        "The mask is added to the logits as 1 and 0: what is hidden loses 1, not everything.",
        "huggingface/transformers#41443",
        _added(-1.0),
    ),
    (
        "mask-added-opposite-ones",
        "The inverted mask is added to the logits as 1 and 0: what is hidden gains 1.",
        "asked in huggingface/transformers#24897",
        _added(1.0),
    ),
    (
        "mask-zeroes-logits",
        "Hidden logits become 0 in place of -∞ (multiplied by the mask, or filled with 1e-9): they keep a share.",
        "georg-wolflein/good-features#1, awslabs/gluonts#1401, hyunwoongko/transformer#10",
        _filled(0.0),
    ),
    (
        "mask-zeroes-allowed",
        "The logits are multiplied by the inverted mask: what may be attended becomes 0.",
        "explained in huggingface/transformers#542",
        _masked_trial(lambda state, right: state["scaled"] * ~state["allowed"]),
    ),
    (
        "mask-adds-10",
        "Only -10 is added where masked: what is hidden keeps exp(-10) of its share.",
        "huggingface/transformers#10484",
        _added(-10.0),
    ),
    (
        "mask-adds-100",
        "Only -100 is added where masked: large logits leak.",
        "huggingface/transformers#10484",
        _added(-100.0),
    ),
    (
        "mask-adds-10000",
        "Only -10,000 is added where masked: logits of thousands leak.",
        "huggingface/transformers#10484",
        _added(-1e4),
    ),
    (
        "mask-fills-10",
        "Hidden logits become -10 in place of -∞: they keep a share.",
        "huggingface/transformers#10484",
        _filled(-10.0),
    ),
    (
        "mask-fills-100",
        "Hidden logits become -100 in place of -∞: rows whose other logits are as low attend to them.",
        "huggingface/transformers#10484",
        _filled(-100.0),
    ),
    (
        "mask-fills-10000",
        "Hidden logits become -10,000 in place of -∞: rows whose other logits are as low attend to them.",
        "huggingface/transformers#10484",
        _filled(-1e4),
    ),
    (
        "mask-fills-least",
        "Hidden logits become the smallest logit of the array in place of -∞.",
        PAPER,
        lambda state, right: np.where(state["allowed"], state["scaled"], state["scaled"].min()),
    ),
    (
        "mask-multiplies-by-minus-1e9",
        "Hidden logits are multiplied by -1e9 in place of having it added: negative ones become the largest.",
        PAPER,
        lambda state, right: np.where(state["allowed"], state["scaled"], state["scaled"] * -1e9),
    ),
    (
        "mask-drowns-logits",
        "-1e9 is added to the allowed logits as well: float32 rounds them away, and what is allowed gets equal scores.",
        "harvard-edge/cs249r_book#1785",
        _drowned,
    ),
    (
        "mask-forbids-zeros",
        "Logits of exactly 0 are taken for masked ones.",
        "smolorg/smoltropix#5",
        lambda state, right: np.where(state["scaled"] == 0, state["trial"].fill, right(state)),
    ),
):
    register(_id, _says, LOOK, _source, masked=_change)


def _divided(scores: np.ndarray) -> np.ndarray:
    return scores / scores.sum(-1, keepdims=True)


def _empty_is_nan(state: State, right: Step) -> Any:
    """Of a row with only -∞, the largest is -∞ too, and -∞ less -∞ is NaN."""
    return np.where(state["allowed"].any(-1, keepdims=True), right(state), np.nan)


for _id, _says, _source, _change in (
    (
        "mask-after-softmax",
        "The mask is applied after the softmax, and rows are not divided by their new sum: it is less than one.",
        "huggingface/pytorch-image-models#2236",
        lambda state, right: softmax(state["scaled"]) * state["allowed"],
    ),
    (
        "mask-after-softmax-renormalised",
        "The mask is applied after the softmax; each row is divided by its new sum, which is 0 where hidden logits are "
        "far larger than the others.",
        "abisee/pointer-generator#88",
        lambda state, right: _divided(softmax(state["scaled"]) * state["allowed"]),
    ),
    (
        "mask-infinite-after-softmax",
        "Hidden scores become ∞ after the softmax.",
        "lucidrains/memory-compressed-attention#2",
        lambda state, right: np.where(state["allowed"], softmax(state["scaled"]), np.inf),
    ),
    (
        "mask-adds-1e9-after-softmax",
        "-1e9 is added after the softmax in place of before: hidden scores are huge and negative.",
        "lucidrains/memory-compressed-attention#2",
        lambda state, right: softmax(state["scaled"]) + np.where(state["allowed"], 0.0, -1e9),
    ),
    (
        "mask-empty-row-nan",
        "A row with nothing to attend to is NaN: all of its logits are -∞.",
        "pytorch/pytorch#143287, patrick-kidger/equinox#274, tracel-ai/burn#4697",
        _empty_is_nan,
    ),
):
    register(_id, _says, "the order of mask and softmax", _source, scores=_change)


def _zero_keys(state: State, right: Step) -> Any:
    """Keys whose features are all 0 are taken for padding."""
    key = state["inputs"]["key"]
    some = (key != 0).any(-1)
    return right(state) & (some[:, :, None, :] if key.ndim == 4 else some[:, None, None, :])


register(
    "mask-from-zero-keys",
    "Keys whose features are all 0 are taken for padding, whatever the mask says.",
    "where the padding mask is computed",
    "Kyubyong/transformer#33, Kyubyong/transformer#69",
    allowed=_zero_keys,
)


def _without_padding(state: State, roles: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The inputs of `roles`, zero at padding."""
    inputs, mask = state["inputs"], state["trial"].key_mask
    if mask is None:
        return inputs
    real = mask[:, None, :, None] if state["trial"].core else mask[..., None]
    return {**inputs, **{role: inputs[role] * real for role in roles}}


def _unpadded(state: State, _: Step) -> np.ndarray:
    return allowed_without(state, "key_mask")


def _zeroed_heads(role: str) -> Change:
    def change(state: State, right: Step) -> Any:
        mask, heads = state["trial"].key_mask, right(state)
        return heads if mask is None else {**heads, role: heads[role] * mask[:, None, :, None]}

    return change


register(
    "padding-zeroes-inputs",
    "The input is set to 0 at padding, and attended all the same.",
    "where the padding mask is used",
    "castorini/castor#176",
    inputs=lambda state, right: _without_padding({**state, "inputs": right(state)}, ("key", "value")),
    allowed=_unpadded,
)
for _role in ("key", "value"):
    register(
        f"padding-zeroes-{_role}",
        f"The {_role} is set to 0 at padding, and padding keeps its share of the softmax.",
        "where the padding mask is used",
        "castorini/castor#176",
        heads=_zeroed_heads(_role),
        allowed=_unpadded,
    )

DTYPE = "the dtype in which logits and mask are computed"


def _half(array: Any) -> np.ndarray:
    """Rounded to float16, what is too large becoming infinite."""
    return np.asarray(array).astype("float16").astype("float64")


def _in_half(change: Change) -> Change:
    return lambda state, right: change(state, right) if state["trial"].dtype == "float16" else right(state)


def _plain(state: State, right: Step) -> Any:
    """The softmax of what is not all finite: ∞ - ∞ is NaN."""
    masked = state["masked"]
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _overflowing(state: State, right: Step) -> Any:
    logits = right(state)
    return np.where(np.abs(logits) > 65519, np.sign(logits) * np.inf, logits)


register(
    "half-logits-overflow",
    "In float16 query · key overflows before it is scaled: rows are NaN.",
    "whether the query is scaled before the product, or the product computed in float32",
    "ultralytics/ultralytics#24990, pytorch/pytorch#119131, stanford-crfm/mistral#66",
    logits=_in_half(_overflowing),
    scores=_in_half(_plain),
)


def _times_infinity(state: State, right: Step) -> Any:
    """(1 - mask) · -1e9, where -1e9 is -∞: 0 · -∞ is NaN."""
    return state["scaled"] + np.where(state["allowed"], np.nan, -np.inf) if state["trial"].masked else right(state)


register(
    "half-mask-times-infinity",
    "In float16 -1e9 is -∞, and (1 - mask) · -∞ is NaN wherever nothing is hidden.",
    DTYPE,
    "google/flax#982, openai/gpt-2#122",
    masked=_in_half(_times_infinity),
    scores=_in_half(_plain),
)
register(
    "half-mask-infinite",
    "In float16 -1e9 is -∞: a row with nothing to attend to is NaN.",
    DTYPE,
    "facebookresearch/fairseq#3575, tatp22/linformer-pytorch#19",
    scores=_in_half(_plain),
)


def _least_twice(state: State, right: Step) -> Any:
    """-65,504 for each of two masks, one added to the other: -∞ where both hide."""
    hidden = sum((np.where(part, 0.0, 1.0) for part in parts_of(state["trial"])), np.zeros(()))
    hidden = np.broadcast_to(hidden, state["trial"].allowed().shape)[:, None]
    return np.where(hidden > 1, -np.inf, np.where(hidden == 1, -65504.0, state["scaled"]))


register(
    "half-mask-twice",
    "In float16 two masks of -65,504 each are added: -∞ where both hide, and a row of these is NaN.",
    DTYPE,
    "NVIDIA-NeMo/Automodel#2658",
    masked=_in_half(_least_twice),
    scores=_in_half(_plain),
)
