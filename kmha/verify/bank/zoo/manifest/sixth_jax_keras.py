"""Entries of packages on JAX, Keras and TensorFlow, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
a scale by the features of all heads (`tensorlayerx`); masks that multiply the scores (`tftf`) or that are ignored
(`tf2-bert`); a scale for each of queries and keys (`transformer-payne`); weights of attention that hold positions alone
(`tachys`); a softmax that goes over a window of the past (`memax`); weights that mix heads again (`deepvit-flax`);
attention over pixels after a group normalization (`diffuse-jax`); attention without projections and with a
configuration of the whole package (`tfcv`); features of spheres (`e3x`); tensors with names (`levanter`); constants of
the whole model (`mistral-jax`); positions that start as zeros (the embedding of `bert4keras3`). The layer of
`sequential-ft-transformer` keeps the one of Keras, and normalizes twice in a place of its own. `bert4tf`,
`bert-for-tf2e` and `tfbert` are `bert-for-tf2`, `kbert` is the BERT of `tf-models-official`, `kecam` is
`keras-cv-attention-models`, and `noxjax` is an older `flarejax`, with modules of the same name. The attention of
`transformer-flow` is in a module that is called `attention`. `librecommender` and `itachi` need TensorFlow 1. The
attention of `forge-dl`, in Python without NumPy, needs a newer Python than 3.11, like all of `canvit-nnx`, `taktiny`,
`eqx-zoo`, `perihelion`, `lerax` and `diffusionlab`. Of NumPy, no package with attention was found that is not listed.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.jax_packages import with_key
from kmha.verify.bank.zoo.manifest.keras_packages import built, with_list
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, config, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _flare(*arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a function that calls a class of flarejax, whose first argument is the key of random numbers."""

    def make(found: Any) -> Any:
        import jax

        return found(jax.random.PRNGKey(0), *arguments, **more)

    return make


def _weights() -> dict[str, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    return {name: rng.normal(0, 0.3, (WIDTH, WIDTH)).astype("float32") for name in ("WQ", "WK", "WV", "WO")}


def _physis_jax(found: Any) -> Any:
    """Return the function with its parameters."""
    import jax

    params = jax.tree.map(jax.numpy.asarray, _weights())

    def attention(q_in: Any, kv_in: Any, key_mask: Any = None) -> Any:
        return found(params, q_in, kv_in, key_mask, HEADS, False, WIDTH, 10000.0)

    return attention


def _physis_tensorflow(found: Any) -> Any:
    """Return the function with its parameters."""
    import tensorflow as tf

    params = {name: tf.constant(weight) for name, weight in _weights().items()}

    def attention(q_in: Any, kv_in: Any, key_mask: Any = None) -> Any:
        return found(params, q_in, kv_in, key_mask, HEADS, False, WIDTH, 10000.0)

    return attention


def _bert(found: Any) -> Any:
    """Make a layer of BERT, and return a function with the model's configuration."""
    import jax

    settings = config("representax.models.bert.model:BertConfig", **BERT)
    layer = found.init(settings, key=jax.random.key(0), dtype=jax.numpy.float32)
    random = "probability_key" if "Attention" in found.__name__ else "key"

    def call(hidden: Any, attention_mask: Any) -> Any:
        return layer(hidden, attention_mask, config=settings, implementation="xla", **{random: None})

    return call


def _clip(found: Any) -> Any:
    """Make an attention of CLIP, and return a function with the number of heads."""
    import jax

    layer = found.init(WIDTH, initializer_range=0.3, key=jax.random.key(0), dtype=jax.numpy.float32)

    def attention(hidden: Any, mask: Any = None) -> Any:
        return layer(hidden, mask, heads=HEADS, attention_dropout=0.0, key=None, implementation="xla")

    return attention


def _clip_layer(found: Any) -> Any:
    """Make a layer of CLIP, and return a function with the model's configuration."""
    import jax

    settings = config("representax.models.clip.config:CLIPTextConfig", **CLIP)
    layer = found.init(settings, key=jax.random.key(0), dtype=jax.numpy.float32)

    def block(hidden: Any, mask: Any = None) -> Any:
        return layer(hidden, mask, config=settings, key=None, implementation="xla")

    return block


def _zephyr(inputs: int, *arguments: Any) -> Callable[[Any], Any]:
    """Return a function that makes a function of arrays and a mask from a function of zephyr and its parameters.

    Args:
        inputs: Number of arrays that the function takes.
        *arguments: Arguments after these, without the mask and what comes after it.
    """

    def make(found: Any) -> Any:
        import jax
        from zephyr import trace

        rest = (False, "xla") if arguments else ()
        arrays = [jax.numpy.zeros((2, 5, WIDTH))] * inputs
        params = trace(found, jax.random.PRNGKey(0), *arrays, *arguments, None, *rest)

        def attention(query: Any, key: Any, value: Any, masks: Any = None) -> Any:
            return found(params, query, key, value, *arguments, masks, *rest)

        def self_attention(x: Any, masks: Any = None) -> Any:
            return found(params, x, *arguments, masks, *rest)

        return attention if inputs == 3 else self_attention

    return make


COUNT: dict[str, Any] = {"arguments": {"num_heads": HEADS}}
BERT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "max_position_embeddings": LENGTH,
    "type_vocab_size": 2,
}
CLIP: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "max_position_embeddings": LENGTH,
    "hidden_activation": "gelu",
    "layer_norm_epsilon": 1e-5,
    "attention_dropout": 0.0,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 1,
}

_bert_keras = of("bert4keras3", "bert4keras3.Layers_add.", "keras")
_flarejax = of("flarejax", "flarejax.net._attention:", "jax")
_ion = of("ion-nn", "ion.nn.layers.", "jax")
_jaxon = of("jaxonmodels", "jaxonmodels.", "jax")
_represent = of("representax", "representax.models.", "jax")
_specflux = of("specflux", "specflux.", "jax")
_xera = of("xera", "xera.loom.", "jax")
_xwm = of("xwm", "xwm.nn.", "jax")
_zephyr_nets = of("z-zephyr", "zephyr.nets:", "jax")

ENTRIES: tuple[Entry, ...] = (
    _bert_keras("Attentions:MultiHeadAttention", "attention", with_list, mask="attends"),
    _bert_keras("Embeddings:SinusoidalPositionEmbedding", "embedding", args(WIDTH)),
    _flarejax("DotProductAttention", "attention", _flare(WIDTH, HEADS), mask="attends"),
    _flarejax("DotProductAttention", "attention", _flare(WIDTH, HEADS, is_causal=True), mask="attends"),
    _flarejax("CrossAttention", "attention", _flare(WIDTH, HEADS)),
    _ion("attention:MultiHeadAttention", "attention", with_key(WIDTH, num_heads=HEADS), mask="attends"),
    _ion("attention:MultiHeadAttention", "attention", with_key(WIDTH, num_heads=HEADS, causal=True), mask="attends"),
    _ion(
        "attention:MultiHeadAttention",
        "attention",
        with_key(WIDTH, num_heads=HEADS, num_kv_heads=1, use_bias=True),
        mask="attends",
    ),
    _ion("positional:LearnedPositionalEmbedding", "embedding", with_key(LENGTH, WIDTH)),
    _ion("positional:SinusoidalPositionalEmbedding", "embedding", args()),
    _ion("positional:RoPE", "embedding", args(axis=-2)),
    _jaxon("layers.attention:MultiheadAttention", "attention", with_key(WIDTH, HEADS), mask="hides"),
    _jaxon("layers.attention:MultiheadAttention", "attention", with_key(WIDTH, HEADS, bias=False), mask="hides"),
    _jaxon(
        "models.vit:ResidualAttentionBlock",
        "encoder",
        with_key(WIDTH, HEADS, dtype="float32"),
        norm="pre",
        mask="hides",
    ),
    Entry(
        "physis-lm",
        "physis_lm.jax_backend.layers:multihead_attention",
        "attention",
        "jax",
        _physis_jax,
        mask="attends",
    ),
    Entry(
        "physis-lm",
        "physis_lm.tf_backend.layers:multihead_attention",
        "attention",
        "tensorflow",
        _physis_tensorflow,
        mask="attends",
    ),
    Entry(
        "pretrain4keras",
        "pretrain4keras.layers:MultiHeadAttentionV2",
        "attention",
        "keras",
        built(WIDTH, HEADS, inputs=3),
        mask="attends",
    ),
    _represent("bert.model:BertSelfAttention", "attention", _bert, mask="attends"),
    _represent("bert.model:BertLayer", "encoder", _bert, norm="post", mask="attends"),
    _represent("clip.model:CLIPAttention", "attention", _clip, mask="attends"),
    _represent("clip.model:CLIPLayer", "encoder", _clip_layer, norm="pre", mask="attends"),
    _specflux("nn.attention:MultiheadAttention", "attention", args(WIDTH, HEADS, rngs=0), mask="attends"),
    _specflux("nn.attention:CausalSelfAttention", "attention", args(WIDTH, HEADS, rngs=0)),
    _specflux("functional.attention:scaled_dot_product_attention", "attention", mask="attends"),
    _xera("attention:SelfAttention", "attention", with_key(WIDTH), mask="attends"),
    _xera("attention:MultiHeadAttention", "attention", with_key(WIDTH, HEADS), mask="attends"),
    _xera("attention:MultiHeadAttention", "attention", with_key(WIDTH, HEADS, use_rope=True), mask="attends"),
    _xera("attention:GroupedQueryAttention", "attention", with_key(WIDTH, HEADS, 1), mask="attends"),
    _xera("transformer:TransformerBlock", "encoder", with_key(WIDTH, HEADS, INNER), norm="pre", mask="attends"),
    _xera("embedding:RotaryEmbedding", "embedding", args(SIZE)),
    _xwm("attention:Attention", "attention", with_key(WIDTH, HEADS), mask="attends"),
    _xwm("attention:CrossAttention", "attention", with_key(WIDTH, HEADS), mask="attends"),
    _xwm("transformer:Block", "encoder", with_key(WIDTH, HEADS), norm="pre", mask="attends"),
    _xwm("embed:LearnedPosEmbed", "embedding", with_key(LENGTH, WIDTH)),
    _zephyr_nets("single_head_attention", "attention", _zephyr(3), mask="attends"),
    _zephyr_nets("multi_head_attention", "attention", _zephyr(3, HEADS), mask="attends", options=COUNT),
    _zephyr_nets("multi_head_self_attention", "attention", _zephyr(1, HEADS), mask="attends", options=COUNT),
)
