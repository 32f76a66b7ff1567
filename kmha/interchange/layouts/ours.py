"""kmha's own layers: `kmha.MultiHeadAttention` has the canonical layout, and the blocks have the names of a course.

`canonical.read(layer)` gives these names. The position of a block's norms, its epsilon, activation and dropout are
arguments of the layer, not weights.
"""

from kmha.interchange.layout import Entry, Item, Layout, at

ATTENTION = (
    Entry("query/kernel", "query/kernel", "H I O -> H I O"),
    Entry("query/bias", "query/bias", "H O -> H O", optional="bias"),
    Entry("key/kernel", "key/kernel", "H J O -> H J O"),
    Entry("key/bias", "key/bias", "H O -> H O", optional="bias"),
    Entry("gate/kernel", "gate/kernel", "H I V -> H I V", optional="gate"),
    Entry("gate/bias", "gate/bias", "H V -> H V", optional=("gate", "bias")),
    Entry("value/kernel", "value/kernel", "H K V -> H K V"),
    Entry("value/bias", "value/bias", "H V -> H V", optional="bias"),
    Entry("attention_output/kernel", "attention_output/kernel", "H V ... -> H V ..."),
    Entry("attention_output/bias", "attention_output/bias", "... -> ...", optional="bias"),
)
_FEED_FORWARD = (
    Entry("dense1/kernel", "inner/kernel", "E F -> E F"),
    Entry("dense1/bias", "inner/bias", "F -> F"),
    Entry("dense2/kernel", "outer/kernel", "F E -> F E"),
    Entry("dense2/bias", "outer/bias", "E -> E"),
)
_NORM = (Entry("gamma", "gamma", "E -> E"), Entry("beta", "beta", "E -> E"))

ENCODER_LAYER = (
    *at(ATTENTION, "mha/", "self_attention/"),
    *at(_FEED_FORWARD, "ffn/", "feed_forward/"),
    *at(_NORM, "layernorm1/", "self_attention_norm/"),
    *at(_NORM, "layernorm2/", "feed_forward_norm/"),
)
DECODER_LAYER = (
    *at(ATTENTION, "mha1/", "self_attention/"),
    *at(ATTENTION, "mha2/", "cross_attention/"),
    *at(_FEED_FORWARD, "ffn/", "feed_forward/"),
    *at(_NORM, "layernorm1/", "self_attention_norm/"),
    *at(_NORM, "layernorm2/", "cross_attention_norm/"),
    *at(_NORM, "layernorm3/", "feed_forward_norm/"),
)


def _stack(layer: tuple[Item, ...], letter: str, side: str) -> tuple[Item, ...]:
    """Return the embedding, the layers that `letter` counts, and the norm that `norm="pre"` adds at the end."""
    return (
        Entry("embedding/embeddings", "embedding/table", "V E -> V E", optional=f"{side} embedding"),
        *at(layer, f"layer{{{letter}+1}}/", f"layer_{{{letter}}}/"),
        *at(_NORM, "layernorm/", "norm/", (f"{side} norm",)),
    )


_TRANSFORMER = (
    *at(_stack(ENCODER_LAYER, "n", "encoder"), "encoder/", "encoder/"),
    *at(_stack(DECODER_LAYER, "m", "decoder"), "decoder/", "decoder/"),
    Entry("final_layer/kernel", "logits/kernel", "E V -> E V", optional="untied"),
    Entry("final_layer/bias", "logits/bias", "V -> V", optional="logits"),
)
LAYOUTS = (
    Layout(
        "ours", "kmha.MultiHeadAttention: kernels (heads, in, head size)", ATTENTION, keras_layer="multi_head_attention"
    ),
    Layout("ours-encoder-layer", "kmha.layers.EncoderLayer", ENCODER_LAYER),
    Layout("ours-decoder-layer", "kmha.layers.DecoderLayer", DECODER_LAYER),
    Layout("ours-encoder", "kmha.layers.Encoder, any number of layers", _stack(ENCODER_LAYER, "n", "encoder")),
    Layout("ours-decoder", "kmha.layers.Decoder, any number of layers", _stack(DECODER_LAYER, "n", "decoder")),
    Layout("ours-transformer", "kmha.layers.Transformer, any number of layers", _TRANSFORMER),
)
