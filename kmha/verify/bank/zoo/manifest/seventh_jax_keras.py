"""Entries of packages on JAX, Keras and TensorFlow and of NumPy, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
a scale by the fourth root of the features of a head (`ott-jax`); a scale by the heads, and sinusoids of other
frequencies (`skystar`); masks that multiply the scores (`texor`); outputs of attention of one position alone
(`thunet`); residual connections and masks inside of the attention of a recommender (`ezsasrec`, `deepmatch`); attention
and feed-forward network side by side (`palm-jax`); attention over windows of the past (`recurrentgemma`,
`megalodon-jax`); named tensors (`marin-levanter`); attention of graphs (`kgcnn`), of recurrent networks (`da-rnn`) or
of windows (`keras-swin-unet`). `spectrax-lib` and `spectrux` look like other names of `specflux`. `k3im`,
`alquimodelia`, `aetherlm` and `flaxspeaker` keep the layers of Keras or Flax. Newer versions of JAX lack what `pax3`,
`fastax`, `clip-jaxtorch` and `opifex` import, and newer ones of Keras what `deepconsensus` does. `jax-flash-attn2` and
`neuralgcm` need much besides their layers, `jformers` a module that it does not bring, and `axono` a part in C++.
`hyperbolix`, `heal-swin-nnx`, `maxtext`, `jax-linear-attention` and `mistral-v0-2-jax` need another Python. The weights
of `irtk-jax` start as zeros, because it loads them: its entries draw them. The layers of `headliner` and
`metalearning-class` are written after the same tutorial, and take values, keys and queries in this order, with a mask
that may be None, but not left out.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.keras_packages import built
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, config, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _with_weights(**settings: Any) -> Callable[[Any], Any]:
    """Return a function that makes a module of irtk, and draws the weights that the package loads from a model."""

    def make(found: Any) -> Any:
        import jax

        layer = found(config("irtk.hooked_transformer_config:HookedTransformerConfig", **IRTK, **settings), layer_idx=0)
        leaves, tree = jax.tree.flatten(layer)
        keys = jax.random.split(jax.random.key(0), len(leaves))
        drawn = [0.3 * jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(tree, drawn)

    return make


def _randomized(*arguments: Any) -> Callable[[Any], Any]:
    """Return a function that makes a model of miniml and draws its parameters, and returns its prediction."""

    def make(found: Any) -> Any:
        model = found(*arguments)
        model.randomize(0)
        return model.predict

    return make


def _mini_attention(found: Any) -> Any:
    """Make an attention of miniml, and return a function of arrays instead of a tuple of these."""
    model = found(WIDTH, HEADS)
    model.randomize(0)

    def attention(query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        return model.predict((query, key, value), attn_mask=attn_mask)

    return attention


def _without_mask(*arguments: Any, inputs: int, **rest: Any) -> Callable[[Any], Any]:
    """Return a function that makes a Keras layer, and calls it to make its weights.

    All arrays have one length, because the tutorial's attention takes the value first.

    Args:
        *arguments: Arguments of the constructor.
        inputs: Number of arrays that the call takes.
        **rest: Arguments of the call after these arrays.
    """

    def make(found: Any) -> Any:
        layer = found(*arguments)
        layer(*[np.zeros((2, 5, WIDTH), "float32")] * inputs, **rest)
        return layer

    return make


def _of_arrays(tensor: str, inputs: str, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that makes a function of arrays of NumPy from a layer that takes a package's own tensors.

    Args:
        tensor: Class of the tensors, as MODULE:NAME.
        inputs: What the layer takes, one of the names below.
        make: Function that makes the layer.
    """

    def made(found: Any) -> Any:
        layer = make(found)

        def tensors(*arrays: Any) -> list[Any]:
            return [config(tensor, data=np.asarray(array, "float32")) for array in arrays]

        def given(mask: Any, queries: Any, keys: Any) -> Any:
            """Return the mask, or one that hides nothing: the layers of start-zero do not take None."""
            return np.asarray(np.zeros((queries.shape[1], keys.shape[1])) if mask is None else mask, "float32")

        def alone(x: Any) -> Any:
            return layer(*tensors(x)).data

        def crossing(query: Any, key: Any, value: Any) -> Any:
            return layer(*tensors(query, key, value)).data

        def masked(x: Any, mask: Any = None) -> Any:
            return layer(*tensors(x), given(mask, x, x)).data

        def masked_crossing(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
            return layer(*tensors(query, key, value), given(mask, query, key)).data

        def memory(
            x: Any, encoder_output: Any, self_attention_mask: Any = None, encoder_attention_mask: Any = None
        ) -> Any:
            masks = given(self_attention_mask, x, x), given(encoder_attention_mask, x, encoder_output)
            return layer(*tensors(x, encoder_output), *masks).data

        calls: dict[str, Callable[..., Any]] = {
            "alone": alone,
            "crossing": crossing,
            "masked": masked,
            "masked crossing": masked_crossing,
            "memory": memory,
        }
        return calls[inputs]

    return made


def _of_lists(found: Any) -> Any:
    """Make a layer of ft-tensorlib, whose tensors are lists, and return a function of arrays of NumPy."""
    from tensorlib.tensor import Tensor

    settings = {"vocab_size": VOCABULARY, "block_size": LENGTH, "n_head": HEADS, "n_embd": WIDTH}
    layer = found(config("tensorlib.nn.transformer:GPTConfig", **settings))

    def call(x: Any) -> Any:
        x = np.asarray(x, float)
        return np.reshape(layer(Tensor(x.ravel().tolist(), shape=x.shape)).data, x.shape)

    return call


IRTK: dict[str, Any] = {
    "n_layers": 1,
    "d_model": WIDTH,
    "n_ctx": LENGTH,
    "d_head": SIZE,
    "n_heads": HEADS,
    "d_vocab": VOCABULARY,
    "d_mlp": INNER,
}

_bart = of("zeromodels", "zeromodels.models.", "keras")
_headliner = of("headliner", "headliner.model.transformer_util:", "keras")
_irtk = of("irtk-jax", "irtk.components.", "jax")
_lib = of("ft-tensorlib", "tensorlib.nn.transformer:", "numpy")
_learning = of("metalearning-class", "metalearning_class.modules.transformer_utils:", "keras")
_mini = of("miniml-jax", "miniml.nn.", "jax")
_tavan = of("tavan", "tavan.nn:", "numpy")
_weaver = of("tensorweaver", "tensorweaver.layers.multihead_attention:", "numpy")
_zero = of("start-zero", "zero.layers.ted:", "numpy")

_tavan_of = functools.partial(_of_arrays, "tavan.nn:Tensor", "alone")
_weaver_of = functools.partial(_of_arrays, "tensorweaver.autodiff.tensor:Tensor", "crossing")
_zero_of = functools.partial(_of_arrays, "zero.core.tensor:Tensor")

# Two packages follow the same tutorial.
_tutorial_attention = _without_mask(WIDTH, HEADS, inputs=3, mask=None)
_tutorial_encoder = _without_mask(WIDTH, HEADS, INNER, inputs=1, training=False, mask=None)

ENTRIES: tuple[Entry, ...] = (
    _irtk("attention:Attention", "attention", _with_weights()),
    _irtk("attention:Attention", "attention", _with_weights(attention_dir="bidirectional")),
    _irtk(
        "attention:Attention",
        "attention",
        _with_weights(positional_embedding_type="rotary", rotary_dim=SIZE, n_key_value_heads=1),
    ),
    _irtk("transformer_block:TransformerBlock", "encoder", _with_weights(), norm="pre"),
    _mini("mha:MultiHeadAttention", "attention", _mini_attention, mask="hides"),
    _mini("positional:PositionalEmbedding", "embedding", _randomized(LENGTH, WIDTH)),
    _mini("positional:RotaryPositionalEmbedding", "embedding", _randomized(SIZE)),
    _headliner("MultiHeadAttention", "attention", _tutorial_attention, mask="hides"),
    _headliner(
        "EncoderLayer",
        "encoder",
        _tutorial_encoder,
        norm="post",
        mask="hides",
    ),
    _headliner(
        "DecoderLayer",
        "decoder",
        _without_mask(WIDTH, HEADS, INNER, inputs=2, training=False, look_ahead_mask=None, padding_mask=None),
        norm="post",
        mask="hides",
    ),
    Entry("headliner", "headliner.model.transformer_util:positional_encoding", "embedding", "tensorflow"),
    _learning("MultiHeadAttention", "attention", _tutorial_attention, mask="hides"),
    _learning(
        "EncoderLayer",
        "encoder",
        _tutorial_encoder,
        norm="post",
        mask="hides",
    ),
    Entry(
        "metalearning-class",
        "metalearning_class.modules.transformer_utils:scaled_dot_product_attention",
        "attention",
        "tensorflow",
        mask="hides",
    ),
    Entry(
        "metalearning-class",
        "metalearning_class.modules.transformer_utils:positional_encoding",
        "embedding",
        "tensorflow",
    ),
    _bart("bart.bart_layers:BartAttention", "attention", built(WIDTH, HEADS), mask="adds"),
    _bart("gpt2.gpt2_layers:GPT2Attention", "attention", built(WIDTH, HEADS), mask="adds"),
    _bart("detr.detr_layers:DETRMultiHeadAttention", "attention", built(WIDTH, HEADS, inputs=3)),
    _bart("vit.vit_layers:ViTMultiHeadSelfAttention", "attention", built(WIDTH, HEADS)),
    _lib("CausalSelfAttention", "attention", _of_lists),
    _lib("TransformerBlock", "encoder", _of_lists, norm="pre"),
    Entry("graph-attention-engine", "gae.primitives:scaled_dot_product_attention", "attention", "numpy", mask="adds"),
    _zero(
        "MultiHeadAttention", "attention", _zero_of("masked crossing", args(WIDTH, HEADS, dropout_rate=0)), mask="hides"
    ),
    _zero(
        "TransformerEncodeLayer",
        "encoder",
        _zero_of("masked", args(WIDTH, INNER, HEADS, dropout_rate=0)),
        norm="pre",
        mask="hides",
    ),
    _zero(
        "TransformerDecodeLayer",
        "decoder",
        _zero_of("memory", args(WIDTH, INNER, HEADS, dropout_rate=0)),
        norm="pre",
        mask="hides",
    ),
    Entry("start-zero", "zero.models.transformer:create_positional_encoding", "embedding", "numpy"),
    _tavan("MultiHeadAttention", "attention", _tavan_of(args(WIDTH, HEADS))),
    _tavan("TransformerEncoderLayer", "encoder", _tavan_of(args(WIDTH, HEADS, INNER)), norm="pre"),
    _tavan("sinusoidal_embedding", "embedding"),
    _weaver("MultiheadAttention", "attention", _weaver_of(args(WIDTH, HEADS))),
    _weaver("MultiheadAttention", "attention", _weaver_of(args(WIDTH, HEADS, bias=False))),
)
