"""Entries of torch packages for images, diffusion and geometry.

Left out, because their attention is not the standard one by design: CaiT and DeepViT (heads are mixed), LeViT and CvT
(convolutions, batch normalization), Swin in `monai` (relative positions), the positional encoding of `torch-geometric`
(its own frequencies). `timm`, `open-clip-torch`, `lightly`, `self-attention-cv` and `dalle2-pytorch` import
`torchvision`, which may not match the installed torch.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, SIZE, WIDTH, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

BERT = {
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "attention_probs_dropout_prob": 0.0,
}


def _without_fused_kernel(found: Any) -> Any:
    """Make an attention layer of diffusers that computes its scores itself."""
    from diffusers.models.attention_processor import AttnProcessor

    return found(WIDTH, heads=HEADS, dim_head=SIZE, processor=AttnProcessor())


ENTRIES = (
    Entry("vit-pytorch", "vit_pytorch.vit:Attention", "attention", "torch"),
    Entry(
        "vit-pytorch",
        "vit_pytorch.vit:Transformer",
        "encoder",
        "torch",
        args(WIDTH, 1, HEADS, SIZE, INNER),
        norm="pre",
    ),
    Entry("vit-pytorch", "vit_pytorch.cross_vit:Attention", "attention", "torch"),
    Entry("vit-pytorch", "vit_pytorch.pit:Attention", "attention", "torch"),
    Entry("vit-pytorch", "vit_pytorch.local_vit:Attention", "attention", "torch"),
    Entry("perceiver-pytorch", "perceiver_pytorch.perceiver_pytorch:Attention", "attention", "torch", mask="attends"),
    Entry("perceiver-pytorch", "perceiver_pytorch.perceiver_io:Attention", "attention", "torch", mask="attends"),
    Entry("monai", "monai.networks.blocks.selfattention:SABlock", "attention", "torch", mask="attends"),
    Entry("monai", "monai.networks.blocks.crossattention:CrossAttentionBlock", "attention", "torch"),
    Entry(
        "monai",
        "monai.networks.blocks.transformerblock:TransformerBlock",
        "encoder",
        "torch",
        norm="pre",
        mask="attends",
    ),
    Entry(
        "monai",
        "monai.networks.nets.transchex:BertAttention",
        "attention",
        "torch",
        with_config("types:SimpleNamespace", **BERT),
    ),
    Entry("monai", "monai.networks.nets.vista3d:Attention", "attention", "torch"),
    Entry("monai", "monai.networks.nets.transformer:AbsolutePositionalEmbedding", "embedding", "torch"),
    Entry("axial-attention", "axial_attention.axial_attention:SelfAttention", "attention", "torch"),
    Entry(
        "diffusers",
        "diffusers.models.attention_processor:Attention",
        "attention",
        "torch",
        _without_fused_kernel,
        mask="adds",
    ),
    Entry(
        "diffusers",
        "diffusers.models.attention:BasicTransformerBlock",
        "encoder",
        "torch",
        args(WIDTH, HEADS, SIZE, activation_fn="gelu", ff_inner_dim=INNER),
        norm="pre",
        mask="adds",
    ),
    Entry("diffusers", "diffusers.models.embeddings:SinusoidalPositionalEmbedding", "embedding", "torch"),
    Entry("x-clip", "x_clip.x_clip:Attention", "attention", "torch", mask="attends"),
    Entry(
        "coca-pytorch",
        "coca_pytorch.coca_pytorch:CrossAttention",
        "attention",
        "torch",
        args(WIDTH, dim_head=SIZE, heads=HEADS),
        norm="pre",
    ),
    Entry("egnn-pytorch", "egnn_pytorch.egnn_pytorch:Attention", "attention", "torch", mask="attends"),
    Entry(
        "torch-geometric",
        "torch_geometric.nn.aggr.utils:MultiheadAttentionBlock",
        "encoder",
        "torch",
        args(WIDTH, HEADS),
        norm="post",
        mask="attends",
    ),
)
