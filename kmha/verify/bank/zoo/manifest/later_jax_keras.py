"""Entries of packages on JAX, Keras and NumPy, chosen last, from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
heads that are split without a transpose (`jaxformers`, `nanodl`); a scale by the number of features instead of its root
(`kattention`); a scale that is applied twice (`transformer-flows`, `ablanx`); queries and keys scaled for all heads
together (`tf-settransformer`, `np-family`); a method inside the constructor (`perceiver`); `arabictagger`; `fttjax`;
activations of projections and a mask of -10,000 (`langml`); tensor2tensor's timescales, and an addon that no longer
imports (`opennmt-tf`). `flaim`, `jvt`, `vit-flax`, `vitax` and `keras-vit` import what newer versions of JAX, Flax,
Keras or `transformers` lack; `diffbio` and `nnx-lm` import packages that do not install here.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.jax_packages import with_key
from kmha.verify.bank.zoo.manifest.keras_packages import built
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, config, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _embedding(found: Any) -> Any:
    import numpy as np

    layer = found(LENGTH, VOCABULARY, WIDTH)
    layer(np.zeros((2, 7), "int32"))
    return layer


def _dantinox(found: Any) -> Any:
    """Make a module whose call is one of a layer without a cache."""
    from flax import nnx

    settings = config("dantinox.core.config:ModelConfig", dim=WIDTH, n_heads=HEADS, kv_heads=1, max_context=LENGTH)

    class Called(nnx.Module):
        def __init__(self) -> None:
            self.layer = found(settings, nnx.Rngs(0))

        def __call__(self, x: Any) -> Any:
            return self.layer(x, False, (None, None), 0, deterministic=True)[0]

    return Called()


def _potato(found: Any) -> Any:
    """Make an object whose call is one of a layer with the angles of its model."""
    from potatoplm.model import precompute_rope_freqs

    angles = precompute_rope_freqs(SIZE, LENGTH)

    class Called:
        def __init__(self) -> None:
            self.layer = found(WIDTH, HEADS)

        def __call__(self, x: Any) -> Any:
            return self.layer(x, *angles)

    return Called()


def _with_heads(found: Any) -> Any:
    """Return a function of queries, keys and values (B, T, H, D)."""

    def attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return found(q, k, v, HEADS, HEADS, mask)

    return attention


_bcat = of("foundax", "jax_bcat.model_eqx:", "jax")
_prose = of("foundax", "jax_prose.model_eqx:", "jax")
_maximal = of("maximal", "maximal.layers:", "keras")
_micronnx = of("micronnx", "micronnx.executor.ops:", "numpy")
_mobile = of("keras-vision", "keras_vision.MobileViT_v1.", "keras")
_tf_extra = of("tf-extra", "tf_extra.layers.custom_layers:", "keras")

ENTRIES: tuple[Entry, ...] = (
    _bcat("MultiheadAttention", "attention", with_key(WIDTH, HEADS), mask="adds"),
    _bcat("TransformerEncoderLayer", "encoder", with_key(WIDTH, HEADS, INNER), norm="pre", mask="adds"),
    _bcat(
        "TransformerEncoderLayer",
        "encoder",
        with_key(WIDTH, HEADS, INNER, gated=False, norm_first=False, norm_type="layer"),
        norm="post",
        mask="adds",
    ),
    _prose("MultiHeadAttention1to1", "attention", with_key(WIDTH, HEADS), mask="attends"),
    _prose("EncoderBlock", "encoder", with_key(WIDTH, INNER, HEADS), norm="pre"),
    Entry(
        "image-classification-jax",
        "image_classification_jax.models.ViT:LearnablePositionalEncoding",
        "embedding",
        "jax",
    ),
    Entry("bwetaf", "BwETAF.model.flash_attn:attention", "attention", "jax", mask="attends"),
    Entry("dantinox", "dantinox.core.attention:GQAAttention", "attention", "jax", _dantinox),
    _maximal("PositionalEmbedding", "embedding", _embedding),
    _maximal("Attention", "attention", built(WIDTH, inputs=3), mask="hides"),
    _maximal("MultiHeadAttention", "attention", built(HEADS, WIDTH, inputs=3), mask="hides"),
    _maximal("TransformerLayer", "encoder", built(WIDTH, HEADS, INNER), norm="post"),
    _maximal("GPTLayer", "encoder", built(WIDTH, HEADS, INNER), norm="post"),
    _mobile("multihead_self_attention_2D:MultiHeadSelfAttention", "attention", built(HEADS, WIDTH)),
    _mobile("mobile_vit_v1_block:Transformer", "encoder", built(HEADS, WIDTH), norm="pre"),
    _tf_extra("MultiHeadSelfAttention", "attention", built(WIDTH, HEADS), mask="hides"),
    _tf_extra("PositionalEncoding", "embedding", args(LENGTH)),
    Entry("tnt-tensorflow", "tnt.attention:Attention", "attention", "keras", built(WIDTH, HEADS, SIZE)),
    _micronnx("scaled_dot_product", "attention", mask="adds"),
    _micronnx("attention", "attention", _with_heads, mask="adds"),
    Entry("potatoplm", "potatoplm.model:MultiHeadAttention", "attention", "numpy", _potato),
)
