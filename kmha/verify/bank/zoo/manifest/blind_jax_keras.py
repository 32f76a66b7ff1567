"""Entries of packages on JAX, Keras, TensorFlow and NumPy, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
heads that are split without a transpose (`noxnet`); a scale by the number of heads (the heads of `caspian-ml`); no
scale (`diajax`, and ProtT5 in `keras-bio`); a softmax over the queries (`my-lib-dsci510`); queries and keys normalized
over positions (`generax`); a residual connection that starts at the normalized input, and sines first, then cosines
(`gensbi`, the embeddings of `mltu` and `xax`); a second residual connection around dropout instead of the feed-forward
network (`cellflow-tools`); scores that serve both directions (`bidirectional-cross-attention-jax`); masks that are
ignored (`perceiver-jax`), that hide queries too (`malaya-speech`), that are -10,000 (`simplebert`) or without which the
layer fails (`learned-optimization`); one normalization for two residual connections (the decoder of `bilma`); rotary
angles of half of the features (`xax`); mean pooling and additive attention (`easyrec`, `keras-neural-processes`);
tensors with names (`haliax`); positions that start as zeros (`bert4tf2`). `clip-jax` and `dalle-mini` need axes for
sharding or the configuration of a whole model. `keras-transformer` needs an old Keras, `tf-x-transformers` calls
methods of torch, `fjformer` imports what newer versions of JAX lack, `tortto` what newer versions of NumPy lack,
`okrolearn` imports CuPy, `alphafold-colabfold` kernels that are compiled, and `cellflow-tools` much besides its layers.
`tsgm` has its block in a model, and `fygrad` takes no batch. The masks of `mml-pypi` raise an error on NumPy: its
entries have none.
"""

from collections.abc import Callable
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.jax_packages import with_key
from kmha.verify.bank.zoo.manifest.keras_packages import built, with_list
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, config, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _bio(where: str, **settings: Any) -> Callable[[Any], Any]:
    """Return a function that makes a layer of keras-bio with the configuration at `where`."""
    sizes: dict[str, Any] = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": INNER}
    rest = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return lambda found: built(config(where, **sizes, **rest, **settings))(found)


def _bio_embedding(found: Any) -> Any:
    where = "keras_bio.dna.dnabert.config:DNABERTConfig"
    sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_attention_heads": HEADS, "hidden_dropout_prob": 0.0}
    return found(config(where, **sizes, max_position_embeddings=LENGTH))


def _forward(*arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a function that makes a layer of xax and returns its method `forward`."""
    return lambda found: with_key(*arguments, **more)(found).forward


def _lucid(*arguments: Any) -> Callable[[Any], Any]:
    """Return a function that makes a function of lucidlearn with its parameters."""

    def make(found: Any) -> Any:
        import jax

        params, call = found(jax.random.key(0), *arguments)

        def layer(x: Any, mask: Any = None) -> Any:
            return call(params, x, mask)

        return layer

    return make


def _shape_params(name: str) -> dict[str, Any]:
    """Return parameters of the attention `name` of cod-vae's functions."""
    import jax

    keys = jax.random.split(jax.random.key(0), 4)
    shapes = {
        f"{name}.in_proj_weight": (3 * WIDTH, WIDTH),
        f"{name}.in_proj_bias": (3 * WIDTH,),
        f"{name}.out_proj.weight": (WIDTH, WIDTH),
        f"{name}.out_proj.bias": (WIDTH,),
    }
    return {k: jax.random.normal(key, shape) / 3 for key, (k, shape) in zip(keys, shapes.items(), strict=True)}


def _shape_attention(found: Any) -> Any:
    params = _shape_params("attn")

    def attention(query: Any, source: Any) -> Any:
        return found(params, "attn", HEADS, query, source)

    return attention


def _shape_block(found: Any) -> Any:
    import jax

    keys = jax.random.split(jax.random.key(1), 4)
    params = _shape_params("block.attn")
    for norm in ("ln_1", "ln_2"):
        params |= {f"block.{norm}.weight": jax.numpy.ones(WIDTH), f"block.{norm}.bias": jax.numpy.zeros(WIDTH)}
    for key, name, shape in zip(keys, ("c_fc", "c_proj"), ((2 * INNER, WIDTH), (WIDTH, INNER)), strict=False):
        params |= {
            f"block.mlp.{name}.weight": jax.random.normal(key, shape) / 3,
            f"block.mlp.{name}.bias": jax.numpy.zeros(shape[0]),
        }

    def block(x: Any) -> Any:
        return found(params, "block", HEADS, x)

    return block


def _forge(inputs: str, *arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a function that makes an object that takes and returns arrays instead of neuroforge's tensors.

    Args:
        inputs: What the call takes: "x", "masked", "cross" or "memory".
        *arguments: Arguments of the layer.
        **more: Further arguments of the layer.
    """

    def make(found: Any) -> Any:
        import numpy as np
        from neuroforge.core.tensor import Tensor

        layer = found(*arguments, **more)

        def run(*arrays: Any, mask: Any = None) -> Any:
            given = {} if mask is None else {"mask" if inputs == "cross" else f"{sides[inputs]}_mask": np.asarray(mask)}
            y = layer(*(Tensor(np.asarray(a, "float32")) for a in arrays), **given)
            return (y[0] if isinstance(y, tuple) else y).data

        sides = {"masked": "src", "memory": "tgt"}
        calls: dict[str, Callable[..., Any]] = {
            "x": lambda x: run(x),
            "masked": lambda x, mask=None: run(x, mask=mask),
            "cross": lambda query, key, value, mask=None: run(query, key, value, mask=mask),
            "memory": lambda tgt, memory, mask=None: run(tgt, memory, mask=mask),
        }
        return calls[inputs]

    return make


def _znap(*arguments: Any) -> Callable[[Any], Any]:
    """Return a function that makes a function of arrays from a layer of znap."""

    def make(found: Any) -> Any:
        import numpy as np
        from znap import Tensor

        layer = found(*arguments)

        def call(x: Any) -> Any:
            return np.asarray(layer(Tensor(np.asarray(x, "float32"))).data)

        return call

    return make


def _mml(inputs: int, *arguments: Any, **more: Any) -> Callable[[Any], Any]:
    """Return a function that makes a function of arrays from a layer of mml with this number of inputs."""

    def make(found: Any) -> Any:
        import numpy as np
        from mml.tensor import Tensor

        layer = found(*arguments, backend="numpy", **more)

        def tensor(x: Any) -> Any:
            return Tensor(np.asarray(x, "float32"), backend="numpy")

        calls: dict[int, Callable[..., Any]] = {
            1: lambda x: layer.forward(tensor(x)).data,
            3: lambda query, key, value: layer.forward(tensor(query), tensor(key), tensor(value)).data,
        }
        return calls[inputs]

    return make


_bert = of("bert4tf2", "bert4tf2.layers:", "keras")
_bilma = of("bilma", "bilma.transformer_text:", "keras")
_caspian = of("caspian-ml", "caspian.layers:", "numpy")
_cod = of("cod-vae", "cod_vae.jax.model:", "jax")
_forged = of("neuroforge-dl", "neuroforge.nn.layers.", "numpy")
_keras_bio = of("keras-bio", "keras_bio.", "keras")
_learn = of("lucidlearn", "lucidlearn.nn:", "jax")
_mml_part = of("mml-pypi", "mml.", "numpy")
_mltu = of("mltu", "mltu.tensorflow.transformer.layers:", "keras")
_xax = of("xax", "xax.nn.", "jax")
_znap_part = of("znap", "znap.transformer:", "numpy")

ESM, DNA = "keras_bio.protein.esm2.config:ESM2Config", "keras_bio.dna.dnabert.config:DNABERTConfig"

ENTRIES: tuple[Entry, ...] = (
    _bert("MultiHeadAttention", "attention", with_list, mask="attends"),
    _bert("SinusoidalPositionEmbedding", "embedding", args(WIDTH)),
    _bilma("EncoderBlock", "encoder", built(WIDTH, HEADS, INNER, 0.0), norm="post"),
    _caspian("Attention", "attention", args(WIDTH)),
    _caspian("Attention", "attention", args(WIDTH, use_mask=True)),
    _caspian("PositionalEncoding", "embedding", args(LENGTH, WIDTH)),
    _cod("_attention", "attention", _shape_attention),
    _cod("_self_attn_block", "encoder", _shape_block, norm="pre"),
    _forged("attention:ScaledDotProductAttention", "attention", _forge("cross"), mask="attends"),
    _forged("attention:MultiHeadAttention", "attention", _forge("cross", WIDTH, HEADS), mask="attends"),
    _forged(
        "transformer:TransformerEncoderLayer",
        "encoder",
        _forge("masked", WIDTH, HEADS, INNER, 0.0),
        norm="post",
        mask="attends",
    ),
    _forged(
        "transformer:TransformerDecoderLayer",
        "decoder",
        _forge("memory", WIDTH, HEADS, INNER, 0.0),
        norm="post",
        mask="attends",
    ),
    _forged("embedding:PositionalEncoding", "embedding", _forge("x", WIDTH, LENGTH)),
    _keras_bio("protein.esm2.layers:ESM2SelfAttention", "attention", _bio(ESM), mask="attends"),
    _keras_bio("protein.esm2.layers:ESM2EncoderLayer", "encoder", _bio(ESM), norm="pre", mask="attends"),
    _keras_bio("dna.dnabert.layers:DNABERTSelfAttention", "attention", _bio(DNA), mask="attends"),
    _keras_bio("dna.dnabert.layers:DNABERTLayer", "encoder", _bio(DNA), norm="post", mask="attends"),
    _keras_bio("dna.dnabert.layers:DNABERTEmbeddings", "embedding", _bio_embedding),
    _learn("make_multi_head_attention", "attention", _lucid(WIDTH, HEADS), mask="attends"),
    _learn("make_transformer_block", "encoder", _lucid(WIDTH, HEADS, INNER), norm="pre", mask="attends"),
    _mml_part("nn_layer_attention:nn_Layer_MultiHeadAttention", "attention", _mml(3, WIDTH, HEADS)),
    _mml_part(
        "nn_layer_transformer:nn_Layer_TransformerEncoder",
        "encoder",
        _mml(1, WIDTH, HEADS, INNER),
        norm="pre",
    ),
    _mml_part(
        "nn_layer_transformer:nn_Layer_TransformerEncoder",
        "encoder",
        _mml(1, WIDTH, HEADS, INNER, pre_norm=False),
        norm="post",
    ),
    _mltu("EncoderLayer", "encoder", built(WIDTH, HEADS, INNER, 0.0), norm="post"),
    _mltu("DecoderLayer", "decoder", built(WIDTH, HEADS, INNER, 0.0, inputs=2), norm="post"),
    Entry("timesfm", "timesfm.flax.transformer:RotaryPositionalEmbedding", "embedding", "jax", args(SIZE)),
    _xax("attention:SelfAttentionBlock", "attention", _forward(WIDTH, HEADS), mask="attends"),
    _xax("attention:SelfAttentionBlock", "attention", _forward(WIDTH, HEADS, causal=True), mask="attends"),
    _xax(
        "attention:SelfAttentionBlock", "attention", _forward(WIDTH, HEADS, use_rotary_embeddings=True), mask="attends"
    ),
    _xax("attention:CrossAttentionBlock", "attention", _forward(WIDTH, HEADS)),
    _xax("attention:TransformerBlock", "encoder", _forward(WIDTH, HEADS, INNER), norm="pre", mask="attends"),
    _xax(
        "attention:TransformerBlock",
        "decoder",
        _forward(WIDTH, HEADS, INNER, causal=True, cross_attention=True),
        norm="pre",
        mask="attends",
    ),
    _xax("embeddings:LearnedPositionalEmbeddings", "embedding", with_key(LENGTH, WIDTH)),
    _znap_part("CausalSelfAttention", "attention", _znap(WIDTH, HEADS)),
    _znap_part("TransformerBlock", "encoder", _znap(WIDTH, HEADS, INNER), norm="pre"),
)
