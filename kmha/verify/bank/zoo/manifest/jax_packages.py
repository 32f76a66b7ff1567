"""Entries of packages on JAX.

Left out, because they are not the standard attention, or make what the bank calls a mistake: attention that splits
heads without a transpose (`nanodl`), that does not scale (`jax.experimental.pallas`), or on graphs (`jraph`).
`eqxvision` and `gemma` do not import.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, WIDTH, of, with_arguments, with_rngs


def with_key(*arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a function that calls an Equinox class with these arguments and a key of random numbers."""

    def make(found: Any) -> Any:
        import jax

        return found(*arguments, **more, key=jax.random.key(0))

    return make


_flax = of("flax", "flax.", "jax")
_equinox = of("equinox", "equinox.", "jax")
_equimo = of("equimo", "equimo.layers.attention:", "jax")

ENTRIES = (
    Entry("jax", "jax.nn:dot_product_attention", "attention", "jax", mask="attends"),
    _flax("linen:dot_product_attention", "attention", mask="attends"),
    _flax("nnx:dot_product_attention", "attention", mask="attends"),
    _flax("linen:MultiHeadDotProductAttention", "attention", mask="attends"),
    _flax("linen:MultiHeadDotProductAttention", "attention", with_arguments(HEADS, use_bias=False), mask="attends"),
    _flax("linen:SelfAttention", "attention", mask="attends"),
    _flax("nnx:MultiHeadAttention", "attention", mask="attends"),
    _flax("nnx:MultiHeadAttention", "attention", with_rngs(HEADS, WIDTH, decode=False), mask="attends"),
    Entry("dm-haiku", "haiku:MultiHeadAttention", "attention", "jax", mask="attends"),
    _equinox("nn:MultiheadAttention", "attention", mask="attends"),
    _equinox("nn:MultiheadAttention", "attention", with_key(HEADS, WIDTH, use_query_bias=True), mask="attends"),
    _equinox("nn._attention:dot_product_attention", "attention", mask="attends"),
    _equinox("nn:RotaryPositionalEmbedding", "embedding"),
    _equimo("Attention", "attention", mask="attends"),
    _equimo("Attention", "attention", with_key(WIDTH, HEADS, qkv_bias=False), mask="attends"),
    _equimo("AttentionBlock", "encoder", norm="pre"),
    _equimo("AttentionBlock", "encoder", with_key(WIDTH, HEADS), norm="pre"),
)
