"""Entries of torch packages for images, diffusion and geometry.

Left out, because their attention is not the standard one by design: CaiT and DeepViT (heads are mixed), LeViT and CvT
(convolutions, batch normalization), Swin in `monai` (relative positions), the positional encoding of `torch-geometric`
(its own frequencies). `timm`, `open-clip-torch`, `lightly`, `self-attention-cv` and `dalle2-pytorch` import
`torchvision`, which may not match the installed torch.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, SIZE, WIDTH, of, with_config
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

BERT = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "attention_probs_dropout_prob": 0.0}


def _without_fused_kernel(found: Any) -> Any:
    """Make an attention layer of diffusers that computes its scores itself."""
    from diffusers.models.attention_processor import AttnProcessor

    return found(WIDTH, heads=HEADS, dim_head=SIZE, processor=AttnProcessor())


_vit = of("vit-pytorch", "vit_pytorch.")
_perceiver = of("perceiver-pytorch", "perceiver_pytorch.")
_monai = of("monai", "monai.networks.")
_diffusers = of("diffusers", "diffusers.models.")

ENTRIES = (
    _vit("vit:Attention", "attention"),
    _vit("vit:Transformer", "encoder", args(WIDTH, 1, HEADS, SIZE, INNER), norm="pre"),
    _vit("cross_vit:Attention", "attention"),
    _vit("pit:Attention", "attention"),
    _vit("local_vit:Attention", "attention"),
    _perceiver("perceiver_pytorch:Attention", "attention", mask="attends"),
    _perceiver("perceiver_io:Attention", "attention", mask="attends"),
    _monai("blocks.selfattention:SABlock", "attention", mask="attends"),
    _monai("blocks.crossattention:CrossAttentionBlock", "attention"),
    _monai("blocks.transformerblock:TransformerBlock", "encoder", norm="pre", mask="attends"),
    _monai("nets.transchex:BertAttention", "attention", with_config("types:SimpleNamespace", **BERT)),
    _monai("nets.vista3d:Attention", "attention"),
    _monai("nets.transformer:AbsolutePositionalEmbedding", "embedding"),
    Entry("axial-attention", "axial_attention.axial_attention:SelfAttention", "attention", "torch"),
    _diffusers("attention_processor:Attention", "attention", _without_fused_kernel, mask="adds"),
    _diffusers(
        "attention:BasicTransformerBlock",
        "encoder",
        args(WIDTH, HEADS, SIZE, activation_fn="gelu", ff_inner_dim=INNER),
        norm="pre",
        mask="adds",
    ),
    _diffusers("embeddings:SinusoidalPositionalEmbedding", "embedding"),
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
