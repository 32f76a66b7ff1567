"""Entries of Keras under its older names, `tf_keras` (Keras 2) and `keras_core`, and of a package on the former."""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.keras_packages import built
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, SIZE, WIDTH, of

NAMES = {"tf-keras": "tf_keras.layers", "keras-core": "keras_core.layers"}
ENCODER: dict[str, Any] = {"num_attention_heads": HEADS, "inner_dim": INNER}
DECODER: dict[str, Any] = {"num_attention_heads": HEADS, "intermediate_size": INNER}


def _decoder_layer(found: Any) -> Any:
    """Return a decoder layer, built by a call with two inputs and two masks in a list."""
    import numpy as np

    layer = found(**DECODER, intermediate_activation="relu")
    inputs = np.zeros((2, 7, WIDTH), "float32"), np.zeros((2, 5, WIDTH), "float32")
    layer([*inputs, np.ones((2, 7, 5)), np.ones((2, 7, 7))])
    return layer


def _first_implementation(found: Any) -> Any:
    """Return a layer of the package's first Transformer, whose call needs a bias of the logits and `training`."""
    import numpy as np

    layer = found(WIDTH, HEADS, 0.0)
    lengths = (7,) if found.__name__ == "SelfAttention" else (7, 5)
    inputs = [np.zeros((2, length, WIDTH), "float32") for length in lengths]
    layer(*inputs, np.zeros((2, 1, 1, inputs[-1].shape[1]), "float32"), False)
    return layer


_layer = of("tf-models-official", "official.nlp.modeling.layers:", "keras")
_first = of("tf-models-official", "official.legacy.transformer.attention_layer:", "keras")

ENTRIES = (
    *(
        Entry(package, f"{module}:MultiHeadAttention", "attention", "keras", make, mask="attends")
        for package, module in NAMES.items()
        for make in (None, built(HEADS, SIZE, inputs=2), built(HEADS, SIZE, use_bias=False, inputs=2))
    ),
    _layer("CachedAttention", "attention", mask="attends"),
    _layer("CachedAttention", "attention", built(HEADS, SIZE, inputs=2), mask="attends"),
    _layer("ReuseMultiHeadAttention", "attention", mask="attends"),
    _layer("ReuseMultiHeadAttention", "attention", built(HEADS, SIZE, inputs=2), mask="attends"),
    _first("Attention", "attention", _first_implementation, mask="adds"),
    _first("SelfAttention", "attention", _first_implementation, mask="adds"),
    _layer("PositionEmbedding", "embedding"),
    _layer("Transformer", "encoder", built(HEADS, INNER, "gelu"), "post", "attends"),
    _layer("TransformerEncoderBlock", "encoder", built(**ENCODER, inner_activation="relu"), "post", "attends"),
    _layer(
        "TransformerEncoderBlock",
        "encoder",
        built(**ENCODER, inner_activation="gelu", norm_first=True),
        "pre",
        "attends",
    ),
    _layer("TransformerDecoderBlock", "decoder", _decoder_layer, "post", "attends"),
)
