"""torch's `TransformerEncoderLayer`, `TransformerDecoderLayer`, the stacks of them, and `Transformer`.

`norm_first`, `layer_norm_eps` (1e-5 in torch, 1e-6 in ours) and `activation` are arguments of a layer and no weights.
"""

from kmha.interchange import torch
from kmha.interchange.layout import Entry, Item, Layout, at

_FEED_FORWARD = (
    Entry("linear1.weight", "feed_forward/inner/kernel", "F E -> E F"),
    Entry("linear1.bias", "feed_forward/inner/bias", "F -> F", optional="bias"),
    Entry("linear2.weight", "feed_forward/outer/kernel", "E F -> F E"),
    Entry("linear2.bias", "feed_forward/outer/bias", "E -> E", optional="bias"),
)
_NORM = (Entry("weight", "gamma", "E -> E"), Entry("bias", "beta", "E -> E", optional="bias"))

ENCODER_LAYER = (
    *at(torch.PACKED, "self_attn.", "self_attention/"),
    *_FEED_FORWARD,
    *at(_NORM, "norm1.", "self_attention_norm/"),
    *at(_NORM, "norm2.", "feed_forward_norm/"),
)
DECODER_LAYER = (
    *at(torch.PACKED, "self_attn.", "self_attention/"),
    *at(torch.PACKED, "multihead_attn.", "cross_attention/"),
    *_FEED_FORWARD,
    *at(_NORM, "norm1.", "self_attention_norm/"),
    *at(_NORM, "norm2.", "cross_attention_norm/"),
    *at(_NORM, "norm3.", "feed_forward_norm/"),
)


def _stack(layer: tuple[Item, ...], letter: str, side: str) -> tuple[Item, ...]:
    """Layers that the letter counts, and the norm after them, which torch leaves to the caller."""
    layers = at(layer, f"layers.{{{letter}}}.", f"layer_{{{letter}}}/")
    return (*layers, *at(_NORM, "norm.", "norm/", (f"{side} norm",)))


_TRANSFORMER = (
    *at(_stack(ENCODER_LAYER, "n", "encoder"), "encoder.", "encoder/"),
    *at(_stack(DECODER_LAYER, "m", "decoder"), "decoder.", "decoder/"),
)
_ENDS = "torch's stacks begin with embedded tokens and end before the logits: convert the weights without it"
_REFUSALS = dict.fromkeys(("embedding/table", "position/table", "logits/kernel", "logits/bias"), _ENDS)


def _layout(name: str, of: str, items: tuple[Item, ...]) -> Layout:
    return Layout(name, f"torch.nn.{of}", items, torch.RULES, _REFUSALS)


LAYOUTS = (
    _layout("torch-encoder-layer", "TransformerEncoderLayer", ENCODER_LAYER),
    _layout("torch-decoder-layer", "TransformerDecoderLayer", DECODER_LAYER),
    _layout("torch-encoder", "TransformerEncoder, any number of layers", _stack(ENCODER_LAYER, "n", "encoder")),
    _layout("torch-decoder", "TransformerDecoder, any number of layers", _stack(DECODER_LAYER, "n", "decoder")),
    _layout("torch-transformer", "Transformer, any number of layers", _TRANSFORMER),
)
