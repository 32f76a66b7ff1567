"""Mistakes in how a mask changes the logits: the number that is added or filled in, and the step that does it.

The last four mistakes show in float16 alone, where the largest number is 65,504. The chain computes in float64, so the
changes round to float16 the numbers that overflow. Infinities and NaN are mistakes here, but rounding errors are not.
"""

from typing import Any

import numpy as np

from kmha.verify.chains.attention import Change, State, Step, allowed_without, normalised, softmax
from kmha.verify.mistakes.entry import register
from kmha.verify.mistakes.mask_choice import parts_of

LOOK = "the line that applies the mask to the logits"
PAPER = "Vaswani et al. 2017, section 3.2.3: illegal connections are set to -∞"
ASKED = "asked in huggingface/transformers#24897"
LEAK = "huggingface/transformers#10484"


def _drowned(state: State, right: Step) -> Any:
    """Add -1e9 to all logits in float32. Near -1e9, float32 numbers are 64 apart."""
    drowned = (np.float32(-1e9) + state["scaled"].astype("float32")).astype("float64")
    return np.where(state["allowed"], drowned, -np.inf) if state["trial"].masked else right(state)


for _id, _number, _did, _source in (
    ("added-ones", -1.0, "added the mask as 1 and 0, so hidden logits lose only 1", "huggingface/transformers#41443"),
    ("added-opposite-ones", 1.0, "added the inverted mask as 1 and 0, so hidden logits gain 1", ASKED),
    ("adds-10", -10.0, "added only -10 to hidden logits, so each still gets exp(-10) times its weight", LEAK),
    ("adds-100", -100.0, "added only -100 to hidden logits, so large ones leak", LEAK),
    ("adds-10000", -1e4, "added only -10,000 to hidden logits, so logits in the thousands leak", LEAK),
):
    register(
        f"mask-{_id}",
        f"You {_did}. Set them to -∞.",
        LOOK,
        _source,
        masked=lambda state, right, number=_number: state["scaled"] + np.where(state["allowed"], 0.0, number),
    )
for _number in (10, 100, 10000):
    register(
        f"mask-fills-{_number}",
        f"You set hidden logits to -{_number:,}, so rows with allowed logits as low attend to them. Set them to -∞.",
        LOOK,
        LEAK,
        masked=lambda state, right, number=_number: np.where(state["allowed"], state["scaled"], -number),
    )
for _id, _did, _number in (
    ("adds-large", "added 1e9 to hidden logits, or -1e9 to allowed ones", True),
    ("fills-large", "set hidden logits to 1e9", False),
):
    register(
        f"mask-{_id}",
        f"You {_did}, so only hidden positions are attended to. Set hidden logits to -∞.",
        LOOK,
        PAPER,
        masked=lambda state, right, added=_number: np.where(
            state["allowed"], state["scaled"], state["scaled"] * added + 1e9
        ),
    )
for _id, _says, _source, _change in (
    (
        "mask-zeroes-logits",
        "You set hidden logits to 0 (by multiplying with the mask, or filling in 1e-9), so each hidden position "
        "still gets the weight exp(0) = 1 before normalization. Set them to -∞.",
        "georg-wolflein/good-features#1, awslabs/gluonts#1401, hyunwoongko/transformer#10",
        lambda state, right: np.where(state["allowed"], state["scaled"], 0.0),
    ),
    (
        "mask-zeroes-allowed",
        "You multiplied the logits by the inverted mask, which sets the allowed ones to 0. Set the hidden ones to -∞.",
        "explained in huggingface/transformers#542",
        lambda state, right: state["scaled"] * ~state["allowed"] if state["trial"].masked else right(state),
    ),
    (
        "mask-fills-least",
        "You set hidden logits to the smallest logit of the array. Set them to -∞.",
        PAPER,
        lambda state, right: np.where(state["allowed"], state["scaled"], state["scaled"].min()),
    ),
    (
        "mask-multiplies-by-minus-1e9",
        "You multiplied hidden logits by -1e9, which makes negative ones the largest. Add -1e9, or set them to -∞.",
        PAPER,
        lambda state, right: np.where(state["allowed"], state["scaled"], state["scaled"] * -1e9),
    ),
    (
        "mask-drowns-logits",
        "You added -1e9 to allowed logits too, so float32 rounds all to one number. Leave allowed logits as they are.",
        "harvard-edge/cs249r_book#1785",
        _drowned,
    ),
    (
        "mask-forbids-zeros",
        "You treated logits of exactly 0 as masked. Decide by the mask, not by the logits.",
        "smolorg/smoltropix#5",
        lambda state, right: np.where(state["scaled"] == 0, state["trial"].fill, right(state)),
    ),
):
    register(_id, _says, LOOK, _source, masked=_change)


def _masked_softmax(state: State) -> np.ndarray:
    return softmax(state["scaled"]) * state["allowed"]


def _empty_is_nan(state: State, right: Step) -> Any:
    """Return NaN for a row of -∞, because its largest logit is -∞, and -∞ - (-∞) is NaN."""
    return np.where(state["allowed"].any(-1, keepdims=True), right(state), np.nan)


for _id, _says, _source, _change in (
    (
        "mask-after-softmax",
        "You applied the mask after the softmax, so rows sum to less than one. Mask the logits instead.",
        "huggingface/pytorch-image-models#2236",
        lambda state, right: _masked_softmax(state),
    ),
    (
        "mask-after-softmax-renormalised",
        "You masked after the softmax and divided rows by their new sums, which may be 0. Mask the logits instead.",
        "abisee/pointer-generator#88",
        lambda state, right: _masked_softmax(state) / _masked_softmax(state).sum(-1, keepdims=True),
    ),
    (
        "mask-after-softmax-renormalised-zeros",
        "You masked after the softmax, or after you subtracted the largest logit of a row, and divided rows by their "
        "new sums. Where a hidden logit is far above the visible ones, nothing is left of these, and the scores are 0. "
        "Mask the logits instead.",
        "funkeras 0.9.0, ScaledDotProductAttention",
        lambda state, right: normalised(_masked_softmax(state)),
    ),
    (
        "mask-infinite-after-softmax",
        "You set hidden scores to ∞ after the softmax. Set hidden logits to -∞ before it.",
        "lucidrains/memory-compressed-attention#2",
        lambda state, right: np.where(state["allowed"], softmax(state["scaled"]), np.inf),
    ),
    (
        "mask-adds-1e9-after-softmax",
        "You added -1e9 after the softmax, so hidden scores are huge and negative. Add it to the logits.",
        "lucidrains/memory-compressed-attention#2",
        lambda state, right: softmax(state["scaled"]) + np.where(state["allowed"], 0.0, -1e9),
    ),
    (
        "mask-empty-row-nan",
        "You returned NaN for a row with nothing to attend to, whose logits are all -∞. Return zeros for such a row.",
        "pytorch/pytorch#143287, patrick-kidger/equinox#274, tracel-ai/burn#4697",
        _empty_is_nan,
    ),
):
    register(_id, _says, "the order of mask and softmax", _source, scores=_change)


def _zero_keys(state: State, right: Step) -> Any:
    """Hide keys whose features are all 0."""
    key = state["inputs"]["key"]
    some = (key != 0).any(-1)
    return right(state) & (some[:, :, None, :] if key.ndim == 4 else some[:, None, None, :])


register(
    "mask-from-zero-keys",
    "You treated keys whose features are all 0 as padding. Decide by the mask, not by the features.",
    "the line that computes the padding mask",
    "Kyubyong/transformer#33, Kyubyong/transformer#69",
    allowed=_zero_keys,
)


def _without_padding(state: State, right: Step) -> dict[str, np.ndarray]:
    """Return the inputs, with zeros in key and value at padding."""
    inputs, mask = right(state), state["trial"].key_mask
    if mask is None:
        return inputs
    real = mask[:, None, :, None] if state["trial"].core else mask[..., None]
    return {**inputs, "key": inputs["key"] * real, "value": inputs["value"] * real}


def _zeroed_heads(role: str) -> Change:
    def change(state: State, right: Step) -> Any:
        mask, heads = state["trial"].key_mask, right(state)
        return heads if mask is None else {**heads, role: heads[role] * mask[:, None, :, None]}

    return change


for _id, _what, _changes in (
    ("inputs", "input", {"inputs": _without_padding}),
    ("key", "key", {"heads": _zeroed_heads("key")}),
    ("value", "value", {"heads": _zeroed_heads("value")}),
):
    register(
        f"padding-zeroes-{_id}",
        f"You set the {_what} to 0 at padding, so padding keeps a weight in the softmax. Mask the logits at padding.",
        "the lines that use the padding mask",
        "castorini/castor#176",
        **_changes,
        allowed=lambda state, right: allowed_without(state, "key_mask"),
    )

DTYPE = "the dtype of logits and mask"


def _in_half(change: Change) -> Change:
    return lambda state, right: change(state, right) if state["trial"].dtype == "float16" else right(state)


def _plain(state: State, right: Step) -> Any:
    """Return a softmax that does not handle infinite logits, where ∞ - ∞ is NaN."""
    masked = state["masked"]
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _overflowing(state: State, right: Step) -> Any:
    logits = right(state)
    return np.where(np.abs(logits) > 65519, np.sign(logits) * np.inf, logits)


register(
    "half-logits-overflow",
    "You multiplied query and key in float16 before scaling, which overflows. Scale first, or multiply in float32.",
    "the product of query and key: its dtype, and where you scale",
    "ultralytics/ultralytics#24990, pytorch/pytorch#119131, stanford-crfm/mistral#66",
    logits=_in_half(_overflowing),
    scores=_in_half(_plain),
)


def _times_infinity(state: State, right: Step) -> Any:
    """Compute (1 - mask) · -1e9 in float16, where -1e9 is -∞, and 0 · -∞ is NaN."""
    return state["scaled"] + np.where(state["allowed"], np.nan, -np.inf) if state["trial"].masked else right(state)


register(
    "half-mask-times-infinity",
    "You added (1 - mask) · -1e9 in float16, where it is 0 · -∞: NaN. Add float16's lowest number, or use `where`.",
    DTYPE,
    "google/flax#982, openai/gpt-2#122",
    masked=_in_half(_times_infinity),
    scores=_in_half(_plain),
)
register(
    "half-mask-infinite",
    "You added -1e9 in float16, where it is -∞: a row of these is NaN. Add float16's lowest number.",
    DTYPE,
    "facebookresearch/fairseq#3575, tatp22/linformer-pytorch#19",
    scores=_in_half(_plain),
)


def _least_twice(state: State, right: Step) -> Any:
    """Add -65,504 for each of two masks, which gives -∞ where both masks hide."""
    hidden = sum((np.where(part, 0.0, 1.0) for part in parts_of(state["trial"])), np.zeros(()))
    hidden = np.broadcast_to(hidden, state["trial"].allowed().shape)[:, None]
    return np.where(hidden > 1, -np.inf, np.where(hidden == 1, -65504.0, state["scaled"]))


register(
    "half-mask-twice",
    "You added -65,504 for each of two masks in float16: -∞ where both hide. Combine the masks first, and add once.",
    DTYPE,
    "NVIDIA-NeMo/Automodel#2658",
    masked=_in_half(_least_twice),
    scores=_in_half(_plain),
)
