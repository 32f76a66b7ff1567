"""Entries of torch packages for images, series, molecules, proteins and physics, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
a softmax of the outputs (`vit-rgts`); normalized queries, keys or values (`navit-torch`, `mega-vit`, `tfc-t0`,
`relational-transformer`, and the hybrid kind of the block of `salt-ml`); sinusoids of other frequencies (`mire2e`,
`libtcrlm`) or divided by a root (`elfragmentador`); positions that are learned in the order in which they first appear
(`snp-transformer`); flow attention, and a block that adds its input once more (the layers of `pytorch-lifestream`);
attention inside of a unit of pixels (`hiera-transformer`) and linear attention (`galerkin-transformer`). `mambular` is
an older `deeptab`, `scdynomics` has a copy of xFormers and `proteingpt` one of `fair-esm`, and `muvit` uses the
attention of `x-transformers`. `panelclv`, `dglz`, `transdia` and `table-transformer` keep the layers of torch, and of
the first two there is the positional encoding alone. `stable-worldmodel`, `netra-ocr`, `vtransformer` and
`table-transformer` import `torchvision`, `dit-ml` and `tft` `timm`, which imports it, `mcrt-tools` `dgl`, and `rl4co`
`torchrl`. `actionformer` brings a C++ extension. The layer of `perttf` only runs on CUDA, `tf-bind-transformer` imports
what newer versions of `enformer-pytorch` lack, and `moltransformer` much besides its layers. Of the masks of
`salt-ml`, `mask` hides and `attn_mask` attends: its entries say what the first means.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, WIDTH, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

SALT: dict[str, Any] = {"attn_kwargs": {"num_heads": HEADS}, "dense_kwargs": {"hidden_dim": INNER}}

_dimensions = of("torch-dimensions", "torch_dimensions.mixers.attention:")
_fungal = of("fungalplm", "fungalplm.model:")
_salt = of("salt-ml", "salt.models.")
_smiles = of("uncorrupt-smiles", "uncorrupt_smiles.transformer:")
_squiggle = of("seq2squiggle", "seq2squiggle.layers:")

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "dglz",
        "eemoclas.model.crop_feature_trial_state_cnn_transformer:PositionalEncoding",
        "embedding",
        "torch",
        args(WIDTH, LENGTH, 0.0),
    ),
    _fungal("MultiHeadAttention", "attention", args(WIDTH, HEADS, 0.0), mask="attends"),
    _fungal("EncoderLayer", "encoder", args(WIDTH, HEADS, INNER, 0.0), norm="pre", mask="attends"),
    Entry(
        "panelclv",
        "panelclv.models.multinomial_transformer:SinePositionalEncoding",
        "embedding",
        "torch",
        args(WIDTH, 0.0, LENGTH),
    ),
    Entry(
        "pytorch-lifestream",
        "ptls.nn.seq_encoder.transformer_encoder:PositionalEncoding",
        "embedding",
        "torch",
        args(WIDTH, False, LENGTH),
    ),
    _salt("attention:Attention", "attention", args(WIDTH, HEADS), mask="hides"),
    _salt("transformer:EncoderLayer", "encoder", args(WIDTH, **SALT), norm="pre", mask="hides"),
    _salt("transformer:EncoderLayer", "encoder", args(WIDTH, norm_type="post", **SALT), norm="post", mask="hides"),
    _squiggle("ScaledDotProductAttention", "attention", args(SIZE**0.5), mask="hides"),
    _squiggle("MultiHeadAttention", "attention", args(HEADS, WIDTH, SIZE, SIZE, 0.0), norm="post", mask="hides"),
    _squiggle("FFTBlock", "encoder", args(WIDTH, HEADS, SIZE, SIZE, INNER, 0.0), norm="post", mask="hides"),
    Entry(
        "snp-transformer",
        "snp_transformer.model.positional_embeddings:AbsolutePositionalEncoding",
        "embedding",
        "torch",
        args(WIDTH, 0.0),
    ),
    Entry("stam-pytorch", "stam_pytorch.stam:Attention", "attention", "torch", args(WIDTH, HEADS, SIZE)),
    _dimensions("AttentionMixer", "encoder", args(WIDTH, HEADS), norm="pre"),
    _dimensions("AttentionMixer", "encoder", args(WIDTH, HEADS, causal=True), norm="pre"),
    Entry(
        "transformer-in-transformer",
        "transformer_in_transformer.tnt:Attention",
        "attention",
        "torch",
        args(dim=WIDTH, heads=HEADS, dim_head=SIZE),
    ),
    _smiles("MultiHeadAttentionLayer", "attention", args(WIDTH, HEADS, 0.0, "cpu"), mask="attends"),
    _smiles("EncoderLayer", "encoder", args(WIDTH, HEADS, INNER, 0.0, "cpu"), norm="post", mask="attends"),
    _smiles("DecoderLayer", "decoder", args(WIDTH, HEADS, INNER, 0.0, "cpu"), norm="post", mask="attends"),
)
