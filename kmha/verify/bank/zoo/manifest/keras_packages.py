"""Entries of packages on Keras.

Left out, because they are not the standard attention, or make what the bank calls a mistake: Luong's attention, which
does not scale, and additive attention (`keras.layers`, `attention`); masks that multiply the logits (`Attention` and
`SelfAttention` of `tfts`), that add -10,000 (`keras-self-attention`, `keras-multi-head`) or that have no effect
(`kimm`); blocks that project their input before the residual connection (`bayesflow`), or that normalize the residual
path before attention (`post_norm` in `tabtransformertf`). `OpenNMT-tf`, `tensor2tensor` and
`keras-cv-attention-models` need Keras 2 instead of Keras 3, and `keras-nlp` is `keras-hub`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, SIZE, WIDTH, of


def built(
    *arguments: Any, inputs: int = 1, call: Mapping[str, Any] = MappingProxyType({}), **more: Any
) -> Callable[[Any], Any]:
    """Return a function that makes an object of a Keras class with these arguments, and calls it to make its weights.

    Args:
        *arguments: Arguments of the constructor.
        inputs: Number of inputs of the call.
        call: Further arguments of the call.
        **more: Further arguments of the constructor.
    """

    def make(found: Any) -> Any:
        import numpy as np

        layer = found(*arguments, **more)
        layer(*(np.zeros((2, length, WIDTH), "float32") for length in (7, 5, 5)[:inputs]), **call)
        return layer

    return make


def with_list(found: Any) -> Any:
    """Make an attention that takes queries, keys and values as one list, and call it to make its weights."""
    import numpy as np

    layer = found(HEADS, SIZE)
    layer([np.zeros((2, length, WIDTH), "float32") for length in (7, 5, 5)])
    return layer


def _keras(name: str, make: Callable[[Any], Any] | None = None) -> Entry:
    return Entry("keras", f"keras.{name}", "attention", "keras", make, mask="attends")


PRE: dict[str, Any] = {"normalize_first": True, "activation": "gelu"}

_hub = of("keras-hub", "keras_hub.layers:", "keras")
_model = of("keras-hub", "keras_hub.src.models.", "keras")
_keras_cv = of("keras-cv", "keras_cv.layers:", "keras")
_tfts = of("tfts", "tfts.models.transformer:", "keras")
_vit_keras = of("vit-keras", "vit_keras.layers:", "keras")

ENTRIES = (
    _keras("layers:MultiHeadAttention"),
    _keras("layers:MultiHeadAttention", built(HEADS, SIZE, inputs=2)),
    _keras("layers:MultiHeadAttention", built(HEADS, SIZE, value_dim=7, output_shape=10, use_bias=False, inputs=2)),
    _keras("layers:GroupQueryAttention"),
    _keras("layers:GroupQueryAttention", built(SIZE, HEADS, HEADS, inputs=2)),
    _keras("ops:dot_product_attention"),
    _hub("CachedMultiHeadAttention", "attention", mask="attends"),
    _hub("CachedMultiHeadAttention", "attention", built(HEADS, SIZE, inputs=2), mask="attends"),
    _hub("TransformerEncoder", "encoder", norm="post", mask="attends"),
    _hub("TransformerEncoder", "encoder", built(INNER, HEADS, **PRE), norm="pre", mask="attends"),
    _hub("TransformerDecoder", "decoder", norm="post", mask="attends"),
    _hub("TransformerDecoder", "decoder", built(INNER, HEADS, inputs=2, **PRE), norm="pre", mask="attends"),
    _hub("TransformerDecoder", "encoder", built(INNER, HEADS), norm="post", mask="attends"),
    _hub("TokenAndPositionEmbedding", "embedding"),
    _hub("PositionEmbedding", "embedding"),
    _hub("SinePositionEncoding", "embedding"),
    _hub("RotaryEmbedding", "embedding"),
    _model("vit.vit_layers:ViTEncoderBlock", "encoder", norm="pre"),
    _model("clip.clip_layers:CLIPEncoderLayer", "encoder", norm="pre"),
    _model("siglip.siglip_layers:SigLIPEncoderLayer", "encoder", norm="pre"),
    _model("whisper.whisper_encoder:WhisperEncoder", "encoder", built(INNER, HEADS, **PRE), norm="pre", mask="attends"),
    _model(
        "whisper.whisper_decoder:WhisperDecoder",
        "decoder",
        built(INNER, HEADS, inputs=2, **PRE),
        norm="pre",
        mask="attends",
    ),
    _model("llama.llama_attention:LlamaAttention", "attention", built(HEADS, HEADS), mask="attends"),
    _keras_cv("TransformerEncoder", "encoder", norm="pre"),
    _keras_cv("SegFormerMultiheadAttention", "attention", built(WIDTH, HEADS, 1)),
    Entry("keras-pos-embd", "keras_pos_embd:TrigPosEmbedding", "embedding", "keras"),
    _tfts("CausalAttention", "attention"),
    _tfts("DecoderLayer", "decoder", norm="post"),
    _tfts("TransformerBlock", "encoder", norm="post"),
    _vit_keras("MultiHeadSelfAttention", "attention", built(num_heads=HEADS)),
    _vit_keras("TransformerBlock", "encoder", built(num_heads=HEADS, mlp_dim=INNER, dropout=0.0), norm="pre"),
    Entry(
        "tabtransformertf",
        "tabtransformertf.models.tabtransformer:TransformerBlock",
        "encoder",
        "keras",
        built(WIDTH, HEADS, INNER, post_norm=False),
        norm="pre",
    ),
)
