"""Entries of packages that kmha was tried on before it was changed for them (the README tells how often it was right).

Left out: packages of that trial that need a newer Python, or that import much besides what attention needs; layers of
`minigrad-framework`, which take tensors of their own; the layer of `graph-transformer`, which adds edges to keys and
values; and the attention of `distillable-vision-transformer`, which never uses its dropout.
"""

from typing import Any

from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, VOCABULARY, WIDTH, config, of, with_rngs
from kmha.verify.bank.zoo.manifest.making import with_arguments as args
from kmha.verify.bank.zoo.manifest.making import with_config as by

NANO = by(
    "nano_gpt.config:GPTConfig", block_size=LENGTH, vocab_size=VOCABULARY, n_layer=1, n_head=HEADS, n_embd=WIDTH
)  # fmt: skip
TABULAR = "tabular_transformer.hyperparameters:ModelArgs"
STACK = {"embed_dim": WIDTH, "num_heads": HEADS, "hidden_dim": INNER}
BLOCK = "stackformer.modules.layer:BlockConfig"


def _grover(found: Any) -> Any:
    """Return a function of the arrays alone."""
    import numpy as np

    random = np.random.default_rng(0)
    linear = [{"weight": random.normal(size=(WIDTH, WIDTH)) / 3, "bias": random.normal(size=WIDTH)} for _ in range(4)]
    params = {"linear_layers": linear[:3], "output_linear": linear[3]}

    def attend(query: Any, key: Any, value: Any) -> Any:
        return found(params, HEADS, query, key, value)

    return attend


_artifex = of("avitai-artifex", "artifex.generative_models.core.layers.", "jax")
_distilled = of("distillable-vision-transformer", "distillable_vision_transformer.model:")
_flashee = of("flashee", "flashee.model:")
_grover_part = of("jax-grover", "jax_grover.layers:", "jax")
_jaxnn = of("jaxnn", "jaxnn.", "jax")
_library = of("neuralnetlib", "neuralnetlib.layers:", "numpy")
_moe = of("nano-moe-jax", "nano_moe.layers:", "jax")
_nano = of("nano-gpt", "nano_gpt.model:")
_pretrained = of("pytorch-pretrained-vit", "pytorch_pretrained_vit.transformer:")
_segment = of("segment-anything", "segment_anything.modeling.transformer:")
_stack = of("stackformer", "stackformer.modules.")
_tabular = of("tabular-transformer", "tabular_transformer.tabular_transformer:")
_temporal = of("temporal-forecasting", "temporal.")
_tfs = of("tfs-mt", "tfs_mt.")
_toroidal = of("toroidal", "toroidal.models:")
_vit = of("vit-hk", "ViT.core:")

ENTRIES = (
    _artifex("positional:SinusoidalPositionalEncoding", "embedding", with_rngs(WIDTH, LENGTH)),
    _distilled("EncoderBlock", "encoder", args(WIDTH, INNER, HEADS), norm="pre"),
    _distilled("PositionEmbs", "embedding", args(LENGTH - 2, WIDTH)),
    _flashee("MultiHeadAttention", "attention", args(WIDTH, HEADS, 0.0), mask="attends"),
    _flashee("EncoderLayer", "encoder", args(WIDTH, HEADS, INNER, 0.0), norm="pre", mask="attends"),
    _grover_part("scaled_dot_product_attention", "attention"),
    _grover_part("multi_headed_attention_apply", "attention", _grover),
    _jaxnn("layers.attention:Attention", "attention", with_rngs(WIDTH, HEADS), mask="attends"),
    _jaxnn("models.vision_transformer:Block", "encoder", with_rngs(WIDTH, HEADS, 2.0), norm="pre", mask="attends"),
    _library("MultiHeadAttention", "attention", mask="hides"),
    _library("TransformerEncoderLayer", "encoder", norm="post", mask="hides"),
    _library("PositionalEncoding", "embedding"),
    _moe(
        "MultiHeadAttention",
        "attention",
        by("nano_moe.config:NanoMoEConfig", n_heads=HEADS, d_model=WIDTH, block_size=LENGTH),
    ),
    _nano("CausalSelfAttention", "attention", NANO),
    _nano("Block", "encoder", NANO, norm="pre"),
    _pretrained("MultiHeadedSelfAttention", "attention", args(WIDTH, HEADS, 0.0), mask="attends"),
    _pretrained("Block", "encoder", args(WIDTH, HEADS, INNER, 0.0), norm="pre", mask="attends"),
    _segment("Attention", "attention", args(WIDTH, HEADS)),
    _stack("Attention:Multi_Head_Attention", "attention", args(WIDTH, HEADS, mask_type=["causal"])),
    _stack("Attention:Cross_MultiHead_Attention", "attention", args(WIDTH, HEADS), mask="attends"),
    _stack("layer:EncoderBlock", "encoder", by(BLOCK, **STACK), norm="pre"),
    _stack(
        "layer:DecoderBlock",
        "decoder",
        by(BLOCK, **STACK, ffn="gelu", norm="layernorm", pre_norm=False),
        norm="post",
    ),
    _stack("position_embedding:SinusoidalPositionalEmbedding", "embedding", args(LENGTH, WIDTH)),
    _tabular("Attention", "attention", by(TABULAR, dim=WIDTH, n_heads=HEADS)),
    _tabular(
        "TransformerBlock",
        "encoder",
        lambda found: found(0, config(TABULAR, dim=WIDTH, n_heads=HEADS, hidden_dim=INNER)),
        norm="pre",
    ),
    _temporal("attention:MultiHeadAttention", "attention", args(WIDTH, HEADS, 0.0), mask="attends"),
    _temporal("decoder:DecoderLayer", "decoder", args(WIDTH, HEADS, INNER, 0.0), norm="post", mask="attends"),
    _temporal("position_encoding:LearnablePositionEncoding", "embedding", args(WIDTH, LENGTH)),
    _tfs("architecture:MultiHeadAttention", "attention", args(WIDTH, HEADS), mask="attends"),
    _tfs("architecture:EncoderBlock", "encoder", args(WIDTH, HEADS, INNER), norm="post", mask="attends"),
    _tfs("architecture:DecoderBlock", "decoder", args(WIDTH, HEADS, INNER), norm="post", mask="attends"),
    _tfs("embeddings:SinusoidalPositionalEncoding", "embedding", args(WIDTH, max_sequence_length=LENGTH)),
    _toroidal("Attention", "attention", args(WIDTH, HEADS)),
    _toroidal("BERTBlock", "encoder", args(WIDTH, HEADS, INNER), norm="post"),
    _toroidal("TextEmbedding", "embedding", args(LENGTH, WIDTH, VOCABULARY)),
    _vit("MultiHeadSelfAttention", "attention", args(WIDTH, HEADS)),
    _vit("TransformerBlock", "encoder", args(WIDTH, HEADS, INNER / WIDTH), norm="pre"),
)
