"""Entries of torch packages for images, skies and particles, chosen from their source alone.

Left out, because they are not the standard attention, or make what the bank calls a mistake:
a standard deviation of a sample in the normalization (`learning3d`, whose modules also have names that others have);
blocks that attend along rows and columns in turn (`the-well`); positions that are learned for each head
(`rotary-spatial-embeddings`).
`revit-pde` brings modules named `config`, `data` and `lib`, and `openrl` one named `examples`, as others do.
`cellarium-ml`, `picasa`, `anemoi-models`, `trendmaster` and `dynamic-network-architectures` import packages that no
other entry needs. No attention of their own was found in `scpram`, `cell-attn`, `transformerst` and `tchdlmodel`.
The masks say what is hidden.
"""

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, WIDTH, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

_diffusion = of("monai-generative", "generative.networks.nets.diffusion_model_unet:")
_generative = of("monai-generative", "generative.networks.")
_sky = of("polymathic-aion", "aion.fourm.fm_utils:")

ENTRIES: tuple[Entry, ...] = (
    _diffusion("CrossAttention", "attention", args(WIDTH, num_attention_heads=HEADS, num_head_channels=SIZE)),
    _diffusion("get_timestep_embedding", "embedding"),
    _generative("blocks.selfattention:SABlock", "attention", args(WIDTH, HEADS)),
    _generative("blocks.selfattention:SABlock", "attention", args(WIDTH, HEADS, causal=True, sequence_length=LENGTH)),
    _generative("blocks.transformerblock:TransformerBlock", "encoder", args(WIDTH, INNER, HEADS), norm="pre"),
    _generative(
        "blocks.transformerblock:TransformerBlock",
        "encoder",
        args(WIDTH, INNER, HEADS, qkv_bias=True, causal=True, sequence_length=LENGTH),
        norm="pre",
    ),
    _generative(
        "blocks.transformerblock:TransformerBlock",
        "decoder",
        args(WIDTH, INNER, HEADS, causal=True, sequence_length=LENGTH, with_cross_attention=True),
        norm="pre",
    ),
    _generative("nets.transformer:AbsolutePositionalEmbedding", "embedding", args(LENGTH, WIDTH)),
    _sky("Attention", "attention", args(WIDTH, HEADS), mask="hides"),
    _sky("CrossAttention", "attention", args(WIDTH, HEADS, qkv_bias=True), mask="hides"),
    _sky("Block", "encoder", args(WIDTH, HEADS), norm="pre", mask="hides"),
    _sky("Block", "encoder", args(WIDTH, HEADS, gated_mlp=True), norm="pre", mask="hides"),
    _sky("DecoderBlock", "decoder", args(WIDTH, HEADS), norm="pre", mask="hides"),
    _sky("CrossAttentionBlock", "decoder", args(WIDTH, HEADS), norm="pre", mask="hides"),
    _sky("build_1d_sincos_posemb", "embedding"),
    Entry(
        "weaver-core",
        "weaver.nn.model.ParticleTransformer:Attention",
        "attention",
        "torch",
        args(WIDTH, HEADS),
        mask="hides",
    ),
)
