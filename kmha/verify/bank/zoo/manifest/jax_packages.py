"""Entries of packages on JAX.

Left out, because they are not the standard attention, or make what the bank calls a mistake: attention that splits
heads without a transpose (`nanodl`), that does not scale (`jax.experimental.pallas`), or on graphs (`jraph`).
`eqxvision` and `gemma` do not import.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, WIDTH, with_arguments


def with_key(*arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a function that calls an Equinox class with these arguments and a key of random numbers."""

    def make(found: Any) -> Any:
        import jax

        return found(*arguments, **more, key=jax.random.key(0))

    return make


def _with_rngs(*arguments: Any, **more: Any) -> Callable[[Any], Any]:
    def make(found: Any) -> Any:
        from flax import nnx

        return found(*arguments, **more, rngs=nnx.Rngs(0))

    return make


def _jax(
    package: str, where: str, kind: str, make: Callable[[Any], Any] | None = None, mask: str = "attends", norm: str = ""
) -> Entry:
    return Entry(package, where, kind, "jax", make, norm=norm, mask=mask)


ENTRIES = (
    _jax("jax", "jax.nn:dot_product_attention", "attention"),
    _jax("flax", "flax.linen:dot_product_attention", "attention"),
    _jax("flax", "flax.nnx:dot_product_attention", "attention"),
    _jax("flax", "flax.linen:MultiHeadDotProductAttention", "attention"),
    _jax("flax", "flax.linen:MultiHeadDotProductAttention", "attention", with_arguments(HEADS, use_bias=False)),
    _jax("flax", "flax.linen:SelfAttention", "attention"),
    _jax("flax", "flax.nnx:MultiHeadAttention", "attention"),
    _jax("flax", "flax.nnx:MultiHeadAttention", "attention", _with_rngs(HEADS, WIDTH, decode=False)),
    _jax("dm-haiku", "haiku:MultiHeadAttention", "attention"),
    _jax("equinox", "equinox.nn:MultiheadAttention", "attention"),
    _jax("equinox", "equinox.nn:MultiheadAttention", "attention", with_key(HEADS, WIDTH, use_query_bias=True)),
    _jax("equinox", "equinox.nn._attention:dot_product_attention", "attention"),
    _jax("equinox", "equinox.nn:RotaryPositionalEmbedding", "embedding", mask=""),
    _jax("equimo", "equimo.layers.attention:Attention", "attention"),
    _jax("equimo", "equimo.layers.attention:Attention", "attention", with_key(WIDTH, HEADS, qkv_bias=False)),
    _jax("equimo", "equimo.layers.attention:AttentionBlock", "encoder", mask="", norm="pre"),
    _jax("equimo", "equimo.layers.attention:AttentionBlock", "encoder", with_key(WIDTH, HEADS), mask="", norm="pre"),
)
