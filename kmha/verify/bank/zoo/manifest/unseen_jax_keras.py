"""Held-out entries of packages on JAX, Keras and NumPy, chosen later.

Left out, because they are not the standard attention, or make what the bank calls a mistake: flash attention for TPUs
(`flaxdiff`); relative positions, mixed heads, and sinusoids whose frequencies are multiplied instead of raised to a
power (`jax-models`); masks given as lengths, and additive attention (`d2l`). Later versions of `d2l` pin an old NumPy.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.keras_packages import built
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, WIDTH, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

FLAXDIFF = {"query_dim": WIDTH, "heads": HEADS, "dim_head": SIZE}


def _causal(found: Any) -> Any:
    def attention(query: Any, key: Any, value: Any) -> Any:
        return found(query, key, value, is_causal=True)[0]

    return attention


def _with_heads(found: Any) -> Any:
    """Return a function that splits its inputs (B, T, H·D) into heads."""

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        return found(query, key, value, attn_mask, q_num_heads=HEADS, kv_num_heads=HEADS)[0]

    return attention


def _d2l(inputs: int, *arguments: Any) -> Callable[[Any], Any]:
    """Return a function that makes a layer with these arguments, built by a call without a mask."""

    def make(found: Any) -> Any:
        import numpy as np

        layer = found(*arguments)
        layer(*(np.zeros((2, 7, WIDTH), "float32") for _ in range(inputs)), None)
        return layer

    return make


_onnx = of("onnx", "onnx.reference.ops.op_attention:", "numpy")
_flaxdiff = of("flaxdiff", "flaxdiff.models.", "jax")
_jax_models = of("jax-models", "jax_models.", "jax")
_medicai = of("medicai", "medicai.models.", "keras")
_d2l_part = of("d2l", "d2l.tensorflow:", "keras")

ENTRIES: tuple[Entry, ...] = (
    _onnx("_compute_attention", "attention", mask="attends"),
    _onnx("_compute_attention", "attention", _causal),
    _onnx(
        "_compute_attention",
        "attention",
        _with_heads,
        mask="attends",
        options={"arguments": {"num_heads": HEADS}},
    ),
    _flaxdiff("attention:NormalAttention", "attention", args(**FLAXDIFF)),
    _flaxdiff(
        "attention:BasicTransformerBlock",
        "decoder",
        args(**FLAXDIFF),
        norm="pre",
        options={"arguments": {"causal": False}},
    ),
    _flaxdiff("vit_common:PositionalEncoding", "embedding", args(LENGTH, WIDTH)),
    _jax_models("layers:Attention", "attention", args(WIDTH, HEADS, use_bias=True, deterministic=True)),
    _jax_models("models.masked_autoencoder:Block", "encoder", args(WIDTH, HEADS, deterministic=True), norm="pre"),
    _medicai("vit.vit_layers:ViTEncoderBlock", "encoder", built(HEADS, WIDTH, INNER), norm="pre"),
    _medicai("mit.mit_layers:SegFormerMultiheadAttention", "attention", built(WIDTH, HEADS, 1, 1)),
    _d2l_part("DotProductAttention", "attention", _d2l(3, 0.0)),
    _d2l_part("MultiHeadAttention", "attention", _d2l(3, WIDTH, WIDTH, WIDTH, WIDTH, HEADS, 0.0)),
    _d2l_part(
        "EncoderBlock",
        "encoder",
        _d2l(1, WIDTH, WIDTH, WIDTH, WIDTH, -1, INNER, HEADS, 0.0),
        norm="post",
    ),
    _d2l_part("PositionalEncoding", "embedding", built(WIDTH, 0.0)),
)
