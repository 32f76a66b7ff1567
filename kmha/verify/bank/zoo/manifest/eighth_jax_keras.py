"""Entries of packages on JAX, Keras and TensorFlow and of NumPy, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
attention to the future alone (`neuralforge`); a scale by the positions, and another base of the sinusoids (`quacknet`);
weights of points, and no projection of the outputs (`wassersteinwormhole`); attention over the rows of an alignment
(`colabdesign`); normalized queries and keys (the models of `adjaxt`); masks that are not used (the multi-head attention
of `noniml`); positions that are appended to the features (the embedding of `transformer-lafae`), and a decoder that
fails without a padding mask (`pytransformers`). `sequence-layers` takes sequences of its own. `deep-rec-kit` overrides
what Keras 3 does not have, and newer versions of Keras refuse a loss of `calotron`. Newer versions of JAX lack what
`brachy` and `flax-extra` import, and the transformer of `evosax` imports itself in a circle. `deep-kolibri` and
`bobbin` bring a package that is called `tests`. `ajax-rl`, `banax`, `discretax`, `mytorch-gpu` and `recml` need another
Python.
The attention of `processtransformer`, `pytransformers` and `transformer-lafae` is Keras', in blocks of their own. Those
of `evosax` take no batches, and its second one takes the keys first. The layers of `tax-dp` need a mask.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.keras_packages import built
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, VOCABULARY, WIDTH, config, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _drawn(*shape: int) -> Any:
    """Return weights, the same ones for each shape."""
    return 0.3 * np.random.default_rng(0).normal(size=shape)


def _configured(name: str, **settings: Any) -> Callable[[Any], Any]:
    """Return a function that gives an attention of adjaxt the configuration of this class, which is not causal."""

    def make(found: Any) -> Any:
        return functools.partial(
            found, cfg=config(f"adjaxt.config:{name}", implementation="xla", is_causal=False, **settings)
        )

    return make


def _of_arrays(causal: bool) -> Callable[[Any], Any]:
    """Return a function that makes a block of noniml for inference, as a function of arrays instead of its tensors."""

    def make(found: Any) -> Any:
        block = found(WIDTH, HEADS, INNER, dropout=0.0, causal=causal)
        block.eval()

        def call(x: Any) -> Any:
            return block(config("noni.tensor:Tensor", data=np.asarray(x, "float32"))).data

        return call

    return make


def _dot_product(found: Any) -> Any:
    """Return the attention of noniml as a function of arrays instead of tensors."""

    def call(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        tensors = [config("noni.tensor:Tensor", data=np.asarray(x, "float32")) for x in (q, k, v)]
        return found(*tensors, mask=mask).data

    return call


def _forward(*arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a function that makes a layer of scratchkit with these arguments and returns its method `forward`."""
    return lambda found: found(*arguments, **more).forward


def _with_projections(found: Any) -> Any:
    """Return an attention that is a function of its input, with the weights of its projections."""
    inward = {"w": _drawn(WIDTH, 3 * WIDTH), "b": _drawn(3 * WIDTH)}
    outward = {"w": _drawn(WIDTH, WIDTH), "b": _drawn(WIDTH)}
    return functools.partial(found, c_attn=inward, c_proj=outward)


def _with_weights(found: Any) -> Any:
    """Return a block of pycograd that is a function of its input, with its weights."""
    weights = {name: _drawn(WIDTH, WIDTH) for name in ("wq", "wk", "wv", "wo")}
    weights |= {"g1": 1 + _drawn(WIDTH), "beta1": _drawn(WIDTH), "g2": 1 + _drawn(WIDTH), "beta2": _drawn(WIDTH)}
    weights |= {"w1": _drawn(WIDTH, INNER), "bff1": _drawn(INNER), "w2": _drawn(INNER, WIDTH), "bff2": _drawn(WIDTH)}
    return functools.partial(found, **weights)


def _built_tokens(*arguments: Any) -> Callable[[Any], Any]:
    """Return a function that makes a Keras embedding, and calls it with tokens to make its weights."""

    def make(found: Any) -> Any:
        layer = found(*arguments)
        layer(np.zeros((2, 5), "int32"))
        return layer

    return make


TAX: dict[str, Any] = {
    "name": "",
    "base_dir": "",
    "nheads": HEADS,
    "hidden_dim": WIDTH,
    "dropout": 0.0,
}

_adjaxt = of("adjaxt", "adjaxt.", "jax")
_evosax = of("evosax", "evosax.learned_evolution.lga_tools:", "jax")
_lafae = of("transformer-lafae", "Transformer.", "keras")
_noni = of("noniml", "noni.nn.modules:", "numpy")
_process = of("processtransformer", "processtransformer.models.transformer:", "keras")
_pycograd = of("pycograd", "pycograd.", "numpy")
_pydantic = of("pydanttention", "pydanttention.original.vogel:", "numpy")
_pytransformers = of("pytransformers", "pytransformers.transformer:", "keras")
_scratch = of("scratchkit", "mlscratch.neural.attention:", "numpy")
_tax = of("tax-dp", "tax.examples.lra.model.", "jax")

_tax_config = with_config("tax.config:ModelConfig", **TAX)

ENTRIES: tuple[Entry, ...] = (
    _adjaxt("layers:mha_attn", "attention", _configured("MHAAttentionConfig"), mask="attends"),
    _adjaxt("layers:gqa_attn", "attention", _configured("GQAAttnConfig", num_kv_groups=HEADS), mask="attends"),
    _adjaxt("layers:apply_rot_pos_emb", "embedding"),
    _adjaxt("config:compute_rope_freqs", "embedding"),
    _evosax("MultiHeadSelfAttention", "attention", args(num_heads=HEADS, num_features=WIDTH)),
    _evosax("MultiHeadCrossAttention", "attention", args(num_heads=HEADS, num_features=WIDTH)),
    _noni("scaled_dot_product_attention", "attention", _dot_product, mask="hides"),
    _noni("TransformerBlock", "encoder", _of_arrays(causal=False), norm="pre"),
    _noni("TransformerBlock", "encoder", _of_arrays(causal=True), norm="pre"),
    _process("TransformerBlock", "encoder", built(WIDTH, HEADS, INNER, 0.0, call={"training": False}), norm="post"),
    _process("TokenAndPositionEmbedding", "embedding", _built_tokens(LENGTH, VOCABULARY, WIDTH)),
    _pycograd("functional:scaled_dot_product_attention", "attention", mask="attends"),
    _pycograd(
        "functional:multi_head_attention",
        "attention",
        lambda found: functools.partial(found, num_heads=HEADS),
        mask="attends",
    ),
    _pycograd("examples.models:transformer_block", "encoder", _with_weights, norm="post"),
    _pydantic("attention", "attention", mask="adds"),
    _pydantic("causal_self_attention", "attention", _with_projections),
    _pytransformers("PositionalEmbedding", "embedding", _built_tokens(LENGTH, VOCABULARY, WIDTH)),
    _pytransformers("TransformerEncoder", "encoder", built(WIDTH, INNER, HEADS), norm="post", mask="attends"),
    _scratch("ScaledDotProductAttention", "attention", args(), mask="attends"),
    _scratch("MultiHeadAttention", "attention", _forward(WIDTH, HEADS, 0), mask="attends"),
    _scratch("TransformerEncoderLayer", "encoder", _forward(WIDTH, HEADS, INNER, 0), norm="post", mask="attends"),
    _scratch("PositionalEncoding", "embedding", _forward(WIDTH, LENGTH)),
    _tax("attention:BidirectionalAttention", "attention", _tax_config, mask="attends"),
    _tax("lra_enc:SotaTransBlock", "encoder", _tax_config, norm="pre", mask="attends"),
    _tax("lra_enc:PositionalEncoding", "embedding", args(WIDTH, LENGTH)),
    _lafae("GlobalAttention:GlobalSelfAttention", "attention", built(num_heads=HEADS, key_dim=WIDTH), norm="post"),
    _lafae("encoderLayer:EncoderLayer", "encoder", built(WIDTH, HEADS, INNER, 0.0), norm="post"),
    _lafae("decoderLayer:DecoderLayer", "decoder", built(WIDTH, HEADS, INNER, 0.0, inputs=2), norm="post"),
    Entry("transformer-lafae", "Transformer.aux_functions:positional_encoding", "embedding", "tensorflow"),
)
