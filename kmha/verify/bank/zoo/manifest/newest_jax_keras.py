"""Entries of packages on JAX, Keras, TensorFlow and NumPy, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
rotary angles in pairs for halves (the rotary layers of `triton-neural`) and with a base that its configuration does not
change (the attention of Llama in `google-tunix`, whose layers start with a feed-forward network of zeros); keys that
are made from values (`synax` with normalized queries and keys); shared heads in another order (`neutro` with groups);
heads where its documentation has positions (`jax-transformer`); sinusoids of a frequency for each feature (`tavolo`,
`mlable`); swapped sines and cosines and an activation of the last layer (`xformer`); relative positions and a mask that
fails (`conformer-tf`); the meaning of a mask that is not the one of Keras, whose name it has (`isab`); a mask of
-10,000 (`bert2tf`); a positional encoding that fails (`euclid-ml`); clipped projections (`e1jax`); recurrent states
(`memorax`); a normalization of each input of the attention (`mlable`); an old Keras (`transformer-keras`, `bert4keras`,
`dynastes`, `planbert` and the layers of `tensorflow-modules`) or Flax (`elegy`). `jimmy-vision` and `snaxlib` import
what newer versions of Flax and JAX lack, `ml-networks` a compiled package, and `decimer` and `tensorflowtts` much
besides the attention. `keras-rs`, `tfvit`, `ramsey`, `sensortransformer` and `tensorflowasr` use the attention of Keras
or Flax, and `penzai` has axes with names. `jaxonlayers`, `noxton`, `julax`, `tinyjax` and `numpygrad` need another
Python.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.jax_packages import with_key
from kmha.verify.bank.zoo.manifest.keras_packages import built
from kmha.verify.bank.zoo.manifest.making import (
    HEADS,
    INNER,
    LENGTH,
    SIZE,
    VOCABULARY,
    WIDTH,
    config,
    of,
    with_rngs,
)
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _clip_function(found: Any) -> Any:
    """Return a function of the input and the mask alone."""
    random = np.random.default_rng(0)
    weights = (random.normal(size=(WIDTH, 3 * WIDTH)) / 3, random.normal(size=3 * WIDTH))
    output = (random.normal(size=(WIDTH, WIDTH)) / 3, random.normal(size=WIDTH))

    def attention(x: Any, attention_mask: Any = None) -> Any:
        return found(x, HEADS, *weights, *output, attention_mask)

    return attention


def _bound(around: Callable[[Any, Any], Any], *arguments: Any) -> Callable[[Any], Any]:
    """Return a function that makes a layer of triton-neural and its parameters, and returns `around` both."""

    def make(found: Any) -> Any:
        import jax

        layer = found(*arguments)
        return around(layer, layer.init(jax.random.key(0), (2, 7, WIDTH)))

    return make


def _alone(layer: Any, params: Any) -> Any:
    return lambda x: layer(x, params)


def _with_mask(layer: Any, params: Any) -> Any:
    return lambda x, mask=None: layer(x, params, mask=mask)


def _crossing(layer: Any, params: Any) -> Any:
    return lambda query, key_value, mask=None: layer(query, key_value, params, mask=mask)


def _decoding(layer: Any, params: Any) -> Any:
    return lambda x, memory, mask=None: layer(x, params, encoder_output=memory, self_attn_mask=mask)


def _synax(found: Any) -> Any:
    """Make a function that calls a layer with its parameters. The package has no projection of the output."""
    import jax

    layer = found(WIDTH, hidden_dim=SIZE, heads=HEADS)
    params = layer.init(jax.random.key(0))
    return lambda query, key, value, mask=None: layer.apply(params, query, key, value, mask=mask)


def _of_arrays(
    tensor: str, *arguments: Any, masked: bool = False, first: Any = None, **more: Any
) -> Callable[[Any], Any]:
    """Return a function that makes a function that takes and returns arrays of NumPy instead of a package's tensors.

    Args:
        tensor: Class of the tensors, as MODULE:NAME.
        *arguments: Arguments of the layer.
        masked: Whether the call of the layer takes a mask.
        first: Array of a first call, which makes the weights of some layers.
        **more: Further arguments of the layer.
    """

    def make(found: Any) -> Any:
        import importlib

        module, _, name = tensor.partition(":")
        kind = getattr(importlib.import_module(module), name)
        layer = found(*arguments, **more)
        if first is not None:
            layer(kind(first))

        def with_mask(x: Any, mask: Any = None) -> Any:
            given = None if mask is None else kind(np.asarray(mask, float))
            return np.asarray(layer(kind(np.asarray(x)), mask=given).data)

        return with_mask if masked else lambda x: np.asarray(layer(kind(np.asarray(x))).data)

    return make


def _rasp_attention(found: Any) -> Any:
    from rasptorch import Tensor

    layer = found(WIDTH, HEADS)
    return lambda query, key, value: layer(*(Tensor(np.asarray(x, "float32")) for x in (query, key, value))).numpy()


def _rasp_layer(found: Any) -> Any:
    from rasptorch import Tensor

    layer = found(WIDTH, HEADS, ff_hidden_dim=INNER)
    return lambda x: layer(Tensor(np.asarray(x, "float32"))).numpy()


def _modules_attention(found: Any) -> Any:
    """Make a layer whose mask may be left out. The one of the package takes values, keys and queries in this order."""
    import keras

    class Called(keras.layers.Layer):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.layer = found(WIDTH, HEADS)

        def call(self, query: Any, key: Any, value: Any, attention_mask: Any = None) -> Any:
            return self.layer(value, key, query, attention_mask)[0]

    return built(inputs=3)(Called)


def _gloss_config() -> Any:
    sizes = {"hidden_size": WIDTH, "attention_heads": HEADS, "feed_forward_size": INNER, "maximum_position": LENGTH}
    rest = {"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY, "encoder_layers": 1, "decoder_layers": 1}
    return config("pantogloss.config:ModelConfig", **sizes, **rest)


def _gloss_encoder(found: Any) -> Any:
    """Make a layer whose mask may be left out."""
    import keras

    class Called(keras.layers.Layer):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.layer = found(_gloss_config())

        def call(self, x: Any, attention_mask: Any = None) -> Any:
            return self.layer(x, source_mask=attention_mask)

    return built()(Called)


def _gloss_decoder(found: Any) -> Any:
    """Make a decoder layer whose mask is the one of its self-attention."""
    import keras

    class Called(keras.layers.Layer):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.layer = found(_gloss_config())

        def call(self, x: Any, memory: Any, attention_mask: Any = None) -> Any:
            return self.layer(x, memory, source_mask=None, target_mask=attention_mask)

    return built(inputs=2)(Called)


EUCLID, NEUTRO = "euclid.core.tensor:Tensor", "neutro.autograd:Tensor"

_neutro_of = functools.partial(_of_arrays, NEUTRO, first=np.zeros((2, 5, WIDTH)))
_masked = _neutro_of(HEADS, WIDTH, masked=True)

_euclid = of("euclid-ml", "euclid.neural_network.layers.transformer:", "numpy")
_gloss = of("pantogloss", "pantogloss.keras.model:", "keras")
_inox = of("inox", "inox.nn:", "jax")
_neutro = of("neutro", "neutro.layers.", "numpy")
_rasp = of("rasptorch", "rasptorch.nn:", "numpy")
_triton = of("triton-neural", "triton_neural.transformer:", "jax")
_tunix = of("google-tunix", "tunix.models.gemma3.vision:", "jax")

ENTRIES: tuple[Entry, ...] = (
    _inox("MultiheadAttention", "attention", with_key(WIDTH, heads=HEADS), mask="attends"),
    _inox("MultiheadAttention", "attention", with_key(WIDTH, heads=HEADS, causal=True), mask="attends"),
    _triton("SelfAttention", "attention", _bound(_with_mask, WIDTH, HEADS), mask="attends"),
    _triton("MaskedSelfAttention", "attention", _bound(_with_mask, WIDTH, HEADS), mask="attends"),
    _triton("CrossAttention", "attention", _bound(_crossing, WIDTH, HEADS), mask="attends"),
    _triton("FlashAttention", "attention", _bound(_alone, WIDTH, HEADS, 4)),
    _triton("TransformerLayer", "encoder", _bound(_with_mask, WIDTH, HEADS, INNER, 0.0), norm="post", mask="attends"),
    _triton(
        "TransformerDecoderLayer", "decoder", _bound(_decoding, WIDTH, HEADS, INNER, 0.0), norm="post", mask="attends"
    ),
    _triton("PositionalEncoding", "embedding", _bound(_alone, WIDTH, LENGTH)),
    _triton("LearnedPositionalEmbedding", "embedding", _bound(_alone, LENGTH, WIDTH)),
    Entry("synax", "synax:Attention", "attention", "jax", _synax, mask="attends"),
    _tunix("VisionAttention", "attention", with_rngs(WIDTH, HEADS)),
    _tunix(
        "Encoder1DBlock",
        "encoder",
        with_rngs(width=WIDTH, block_id=0, mlp_dim=INNER, num_heads=HEADS),
        norm="pre",
    ),
    _gloss("MultiHeadAttention", "attention", built(WIDTH, HEADS, 0.0, True, inputs=3), mask="attends"),
    _gloss("EncoderLayer", "encoder", _gloss_encoder, norm="pre", mask="attends"),
    _gloss("DecoderLayer", "decoder", _gloss_decoder, norm="pre", mask="attends"),
    _gloss("SinusoidalPositionEncoding", "embedding", args(WIDTH, LENGTH, 0.0)),
    Entry("mlable", "mlable.layers.embedding:RotaryPositionalEmbedding", "embedding", "keras"),
    Entry(
        "tensorflow-modules",
        "tensorflow_modules.multi_head_attention.attention:scaled_dot_product_attention",
        "attention",
        "tensorflow",
        mask="hides",
    ),
    Entry(
        "tensorflow-modules",
        "tensorflow_modules.multi_head_attention.model:MultiHeadAttention",
        "attention",
        "keras",
        _modules_attention,
        mask="hides",
    ),
    _euclid("MultiHeadAttention", "attention", _of_arrays(EUCLID, WIDTH, HEADS)),
    _euclid("TransformerBlock", "encoder", _of_arrays(EUCLID, WIDTH, HEADS, INNER), norm="pre"),
    Entry("mossblaser-clippie", "clippie.nn:multi_head_attention", "attention", "numpy", _clip_function, mask="adds"),
    _neutro("attention.mha:MultiHeadAttention", "attention", _masked, mask="hides"),
    _neutro("attention.mqa:MultiQueryAttention", "attention", _masked, mask="hides"),
    _neutro(
        "transformer.transformer_block:TransformerBlock",
        "encoder",
        _neutro_of(WIDTH, HEADS, INNER),
        norm="post",
    ),
    _neutro(
        "transformer.transformer_block:TransformerBlock",
        "encoder",
        _neutro_of(WIDTH, HEADS, INNER, causal=True, pre_norm=True),
        norm="pre",
    ),
    _neutro(
        "embedding.token_position_embedding:TokenPositionEmbedding",
        "embedding",
        _of_arrays(NEUTRO, VOCABULARY, LENGTH, WIDTH, first=np.zeros((2, 5), int)),
    ),
    Entry(
        "nnetflow",
        "nnetflow:MultiHeadAttention",
        "attention",
        "numpy",
        _of_arrays("nnetflow:Tensor", WIDTH, WIDTH, HEADS, dropout=0.0),
    ),
    _rasp("MultiheadAttention", "attention", _rasp_attention),
    _rasp("TransformerEncoder", "encoder", _rasp_layer, norm="post"),
)
