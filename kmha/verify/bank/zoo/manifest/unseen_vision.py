"""Held-out entries of torch packages for images, videos and decisions, chosen later.

Left out, because they are not the standard attention, or make what the bank calls a mistake: a residual connection
inside the attention layer (`mmcv-lite`); an activation after the feed-forward network (the transformer of `di-engine`);
heads that are split without a transpose (`x-metaformer`); a mask that is changed in place (the transposed attention of
`pytorchvideo`).
"""

from typing import Any

from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, WIDTH, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _ding_attention(found: Any) -> Any:
    import torch

    return found(WIDTH, SIZE, WIDTH, HEADS, torch.nn.Dropout(0.0))


def _mmcv(*order: str) -> Any:
    """Return a function that makes a layer of these operations, in this order."""
    attention = {"type": "MultiheadAttention", "embed_dims": WIDTH, "num_heads": HEADS}
    network = {"type": "FFN", "embed_dims": WIDTH, "feedforward_channels": INNER, "act_cfg": {"type": "ReLU"}}
    return lambda found: found(attention, network, operation_order=order, batch_first=True)


def _without_pooling(*arguments: int) -> Any:
    """Return a function that makes a layer with these arguments, and hands it the shape of a video with one pixel."""

    def make(found: Any) -> Any:
        import torch

        class OnePixel(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = found(*arguments, has_cls_embed=False)

            def forward(self, x: Any) -> Any:
                return self.layer(x, [x.shape[1], 1, 1])[0]

        return OnePixel()

    return make


_mmcv_layer = of("mmcv-lite", "mmcv.cnn.bricks.transformer:")
_pytorchvideo = of("pytorchvideo", "pytorchvideo.layers.")
_ding = of("di-engine", "ding.torch_utils.network.transformer:")
_ding_model = of("di-engine", "ding.model.template.")

ENTRIES = (
    _mmcv_layer(
        "BaseTransformerLayer", "encoder", _mmcv("self_attn", "norm", "ffn", "norm"), norm="post", mask="hides"
    ),
    _mmcv_layer("BaseTransformerLayer", "encoder", _mmcv("norm", "self_attn", "norm", "ffn"), norm="pre", mask="hides"),
    _mmcv_layer(
        "BaseTransformerLayer",
        "decoder",
        _mmcv("self_attn", "norm", "cross_attn", "norm", "ffn", "norm"),
        norm="post",
        mask="hides",
    ),
    _pytorchvideo("attention:MultiScaleAttention", "attention", _without_pooling(WIDTH, HEADS)),
    _pytorchvideo("attention:MultiScaleBlock", "encoder", _without_pooling(WIDTH, WIDTH, HEADS), norm="pre"),
    _pytorchvideo("positional_encoding:PositionalEncoding", "embedding"),
    _ding("Attention", "attention", _ding_attention, mask="attends"),
    _ding("ScaledDotProductAttention", "attention", mask="attends"),
    _ding_model("hpt:CrossAttention", "attention", args(WIDTH, HEADS, SIZE), mask="attends"),
    _ding_model("decision_transformer:MaskedCausalAttention", "attention", args(WIDTH, LENGTH, HEADS, 0.0)),
    _ding_model("decision_transformer:Block", "encoder", args(WIDTH, LENGTH, HEADS, 0.0), norm="post"),
)
