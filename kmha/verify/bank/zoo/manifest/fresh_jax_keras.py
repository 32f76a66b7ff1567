"""Entries of packages on JAX and Keras.

Left out, because they are not the standard attention, or make what the bank calls a mistake: a mask of -10,000
(`flaxmodels`, `transformers-keras`, `bert-for-tf2`); an activation after the feed-forward network (`jumanji`); a
residual path that skips the normalization (the post-norm block of `kauldron`); residual connections without a
normalization, and weights on oneself hidden (`deepctr`); sines first, then cosines (`kerasfactory`).
`tensorflow-addons`, `TensorFlowASR`, `tf-transformers`, `neural-tangents` and `numpy-ml` do not import, and `trax`
takes minutes to.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.jax_packages import with_key
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, WIDTH, of, with_arguments


def _kauldron_block(found: Any) -> Any:
    return found.from_spec(num_heads=HEADS, mlp_size=INNER, normalize_qk=False)


_flash = of("flash-attention-jax", "flash_attention_jax:", "jax")
_kauldron = of("kauldron", "kauldron.modules:", "jax")

ENTRIES = (
    _flash("attention", "attention", mask="attends"),
    _flash("causal_attention", "attention"),
    _flash("flash_attention", "attention", mask="attends"),
    _flash("causal_flash_attention", "attention"),
    Entry(
        "esm2quinox",
        "esm2quinox._layer:TransformerLayer",
        "encoder",
        "jax",
        with_key(WIDTH, INNER, HEADS),
        norm="pre",
        mask="hides",
    ),
    _kauldron("ImprovedMultiHeadDotProductAttention", "attention", mask="attends"),
    _kauldron(
        "ImprovedMultiHeadDotProductAttention",
        "attention",
        with_arguments(HEADS, use_bias=False),
        mask="attends",
    ),
    _kauldron("PreNormBlock", "encoder", _kauldron_block, norm="pre", mask="attends"),
    Entry("kerasfactory", "kerasfactory.layers:TransformerBlock", "encoder", "keras", norm="pre"),
)
