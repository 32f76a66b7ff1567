"""Entries of torch packages for images, time series and tables.

Left out, because they are not the standard attention, or make what the bank calls a mistake: values that are the keys
(the memory-efficient attention of `vformer`); sinusoids that the constructor overwrites with random numbers
(`vformer`); a feed-forward network that reads the output of attention instead of the residual path (the block of
`pytorch-tabular`); a mask that the block does not hand on (`ludwig`); no residual connections around attention (the
decoder layer of `pypots`); attention without a scale of its own (`fuxictr`, `timesformer-pytorch`), or with one that
is an argument (the dot products of `flood-forecast` and `pypots`); latents among the keys (`flamingo-pytorch`);
messages that are concatenated (the blocks of LightGlue in `kornia`); zero rows of the input taken as padding
(`recommenders`); convolutions (`x-unet`). `muse-maskgit-pytorch`, `phenaki-pytorch`, `imagen-pytorch`,
`video-diffusion-pytorch`, `pyhealth` and `ultralytics` import `torchvision`.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, SIZE, WIDTH, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

SIGLIP = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": INNER}
PERCEIVER = {"num_heads": HEADS, "num_q_input_channels": WIDTH, "num_kv_input_channels": WIDTH}
NO_MASK = {"arguments": {"attn_mask": None}}  # `mask_flag` is false, so that the mask is not read


def _with_positions(found: Any) -> Any:
    from positional_encodings.torch_encodings import PositionalEncoding1D

    return found(PositionalEncoding1D(WIDTH))


def _merlion(found: Any) -> Any:
    from merlion.models.utils.nn_modules.blocks import FullAttention

    return found(FullAttention(mask_flag=False, attention_dropout=0.0), WIDTH, HEADS)


def _pypots(*sizes: int) -> Any:
    """Return a function that makes a layer with scaled dot-product attention and these sizes."""

    def make(found: Any) -> Any:
        from pypots.nn.modules.transformer import ScaledDotProductAttention

        return found(ScaledDotProductAttention(SIZE**0.5, 0.0), *sizes)

    return make


_kornia = of("kornia", "kornia.")
_vformer = of("vformer", "vformer.attention.")
_min_dalle = of("min-dalle", "min_dalle.models.dalle_bart_")
_perceiver = of("perceiver-io", "perceiver.model.core.modules:")
_positional = of("positional-encodings", "positional_encodings.torch_encodings:")
_tabicl = of("tabicl", "tabicl._model.layers:")
_flood = of("flood-forecast", "flood_forecast.transformer_xl.")
_merlion_part = of("salesforce-merlion", "merlion.models.utils.nn_modules.")
_pypots_part = of("pypots", "pypots.nn.modules.transformer:")

ENTRIES = (
    _kornia("feature.lightglue:Attention", "attention", args(False), mask="attends"),
    _kornia("feature.loftr.loftr_module.linear_attention:FullAttention", "attention", mask="attends"),
    _kornia("feature.dedode.transformer.layers.attention:Attention", "attention"),
    _kornia("models.sam.architecture.transformer:Attention", "attention"),
    _kornia("models.vit:MultiHeadAttention", "attention"),
    _kornia("models.vit:TransformerEncoderBlock", "encoder", args(WIDTH, HEADS, 0.0, 0.0), norm="pre"),
    _kornia("models.siglip2.attention:SigLip2Attention", "attention", mask="attends"),
    _kornia(
        "models.siglip2.vision_encoder:SigLip2VisionLayer",
        "encoder",
        with_config("kornia.models.siglip2.config:SigLip2VisionConfig", **SIGLIP),
        norm="pre",
        mask="attends",
    ),
    Entry(
        "fightingcv-attention",
        "fightingcv_attention.attention.SelfAttention:ScaledDotProductAttention",
        "attention",
        "torch",
        mask="hides",
    ),
    _vformer("vanilla:VanillaSelfAttention", "attention"),
    _vformer("cross:CrossAttention", "attention", mask="attends"),
    _min_dalle("encoder:EncoderSelfAttention", "attention", mask="attends"),
    _min_dalle("decoder:DecoderCrossAttention", "attention", mask="attends"),
    _perceiver("MultiHeadAttention", "attention", mask="hides"),
    _perceiver("CrossAttention", "attention", args(**PERCEIVER), norm="pre", mask="hides"),
    _perceiver("SelfAttention", "attention", args(HEADS, WIDTH), norm="pre", mask="hides"),
    _perceiver("CrossAttentionLayer", "encoder", args(**PERCEIVER), norm="pre", mask="hides"),
    _perceiver("SelfAttentionLayer", "encoder", args(HEADS, WIDTH), norm="pre", mask="hides"),
    Entry("isab-pytorch", "isab_pytorch.isab_pytorch:Attention", "attention", "torch", mask="attends"),
    _positional("PositionalEncoding1D", "embedding"),
    _positional("Summer", "embedding", _with_positions),
    Entry("pytorch-frame", "torch_frame.nn.conv.tab_transformer_conv:SelfAttention", "attention", "torch"),
    Entry(
        "pytorch-tabular",
        "pytorch_tabular.models.common.layers.transformers:MultiHeadedAttention",
        "attention",
        "torch",
    ),
    _tabicl("MultiheadAttention", "attention", mask="hides"),
    _tabicl("MultiheadAttentionBlock", "encoder", args(WIDTH, HEADS, INNER, zero_init=False), norm="pre", mask="hides"),
    _tabicl(
        "MultiheadAttentionBlock",
        "encoder",
        args(WIDTH, HEADS, INNER, norm_first=False, zero_init=False),
        norm="post",
        mask="hides",
    ),
    _flood("dsanet:MultiHeadAttention", "attention", norm="post"),
    _flood("dsanet:EncoderLayer", "encoder", args(WIDTH, INNER, HEADS, SIZE, SIZE), norm="post"),
    _flood("transformer_basic:SimplePositionalEncoding", "embedding"),
    _merlion_part("layers:AttentionLayer", "attention", _merlion, options=NO_MASK),
    _merlion_part("blocks:FullAttention", "attention", args(mask_flag=False, attention_dropout=0.0), options=NO_MASK),
    _merlion_part("embed:PositionalEmbedding", "embedding"),
    _pypots_part("MultiHeadAttention", "attention", _pypots(WIDTH, HEADS, SIZE, SIZE), mask="attends"),
    _pypots_part(
        "TransformerEncoderLayer",
        "encoder",
        _pypots(WIDTH, HEADS, SIZE, SIZE, INNER),
        norm="post",
        mask="attends",
    ),
    _pypots_part("PositionalEncoding", "embedding"),
)
