"""Entries of torch packages for language models.

Left out, because they are not the standard attention, or make what the bank calls a mistake: linear, routed and hashed
attention (`performer-pytorch`, `linear-attention-transformer`, `routing-transformer`, `reformer-pytorch`); relative
positions with biases in the logits (`enformer-pytorch`); sines first, then cosines (the sinusoids of
`performer-pytorch`, `reformer-pytorch` and `x-transformers`); learned positions that add one row to all positions
(labml's ViT). `audiolm-pytorch` imports `torchaudio`, and `d2l.torch` imports `torchvision`.
"""

from typing import Any

from kmha.verify.bank.zoo.entry import Entry
from kmha.verify.bank.zoo.manifest.making import HEADS, INNER, LENGTH, SIZE, VOCABULARY, WIDTH, called, config, of
from kmha.verify.bank.zoo.manifest.making import with_arguments as args

LITGPT: dict[str, Any] = {
    "n_embd": WIDTH,
    "n_head": HEADS,
    "n_layer": 1,
    "padded_vocab_size": VOCABULARY,
    "block_size": LENGTH,
    "intermediate_size": INNER,
    "rotary_percentage": 1.0,
}
PYTHIA = {**LITGPT, "parallel_residual": False}
LLAMA = {**PYTHIA, "bias": False, "norm_class_name": "RMSNorm", "mlp_class_name": "LLaMAMLP"}


def _labml_layer(found: Any) -> Any:
    from labml_nn.transformers.feed_forward import FeedForward
    from labml_nn.transformers.mha import MultiHeadAttention

    attention, network = MultiHeadAttention(HEADS, WIDTH, 0.0), FeedForward(WIDTH, INNER, 0.0)
    return found(d_model=WIDTH, self_attn=attention, feed_forward=network, dropout_prob=0.0)


def _litgpt_layer(settings: dict[str, Any]) -> Any:
    """Return a function that makes a layer of litgpt, and gives it the rotary angles of its model."""

    def make(found: Any) -> Any:
        from litgpt.model import build_rope_cache

        def call(layer: Any, x: Any, mask: Any) -> Any:
            cosines, sines = build_rope_cache(x.shape[1], layer.config.rope_n_elem)
            return layer(x, cosines[None].to(x.dtype), sines[None].to(x.dtype), mask)

        return called(found(config("litgpt:Config", **settings), 0), call)

    return make


def _with_mask_object(layer: Any) -> Any:
    """Return a module that hands the layer a mask object of curated-transformers."""
    import torch
    from curated_transformers.layers import AttentionMask

    def call(layer: Any, x: Any, mask: Any) -> Any:
        mask = torch.ones(len(x), x.shape[1], dtype=torch.bool) if mask is None else mask
        return layer(x, attention_mask=AttentionMask(mask))[0]

    return called(layer, call)


def _curated_attention(found: Any) -> Any:
    from curated_transformers.layers import AttentionHeads, QkvMode, ScaledDotProductAttention
    from curated_transformers.layers.attention import QkvSplitGroupedByKVHeads

    return found(
        attention_heads=AttentionHeads.uniform(HEADS, QkvSplitGroupedByKVHeads()),
        attention_scorer=ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None),
        hidden_width=WIDTH,
        qkv_mode=QkvMode.SEPARATE,
        use_bias=True,
    )


def _curated_layer(*norms: str) -> Any:
    """Return a function that makes a layer of curated-transformers with these normalizations."""

    def make(found: Any) -> Any:
        import torch
        from curated_transformers import layers

        sizes = {"hidden_width": WIDTH, "intermediate_width": INNER}
        network = layers.PointwiseFeedForward(activation=torch.nn.GELU(), use_bias=True, use_gate=False, **sizes)
        layer = found(
            attention_layer=_curated_attention(layers.SelfAttention),
            feed_forward_layer=network,
            dropouts=layers.TransformerDropouts(),
            layer_norms=layers.TransformerLayerNorms(**{name: torch.nn.LayerNorm(WIDTH) for name in norms}),
            use_parallel_attention=False,
        )
        return _with_mask_object(layer)

    return make


def _curated_embedding(found: Any) -> Any:
    from curated_transformers.layers import EmbeddingDropouts, EmbeddingLayerNorms

    return found(
        dropouts=EmbeddingDropouts(),
        layer_norms=EmbeddingLayerNorms(),
        embedding_width=WIDTH,
        hidden_width=WIDTH,
        n_pieces=VOCABULARY,
        n_positions=LENGTH,
        n_types=None,
    )


def _torchtune_attention(found: Any, causal: bool = True) -> Any:
    import torch

    names = ("q_proj", "k_proj", "v_proj", "output_proj")
    kernels = {name: torch.nn.Linear(WIDTH, WIDTH, bias=False) for name in names}
    return found(
        embed_dim=WIDTH,
        num_heads=HEADS,
        num_kv_heads=HEADS,
        head_dim=SIZE,
        max_seq_len=LENGTH,
        is_causal=causal,
        **kernels,
    )


def _torchtune_layer(prefix: str) -> Any:
    """Return a function that makes a layer of torchtune. The names of its normalizations start with `prefix`."""

    def make(found: Any) -> Any:
        import torch
        from torchtune import modules

        network = modules.FeedForward(
            gate_proj=torch.nn.Linear(WIDTH, INNER), down_proj=torch.nn.Linear(INNER, WIDTH), activation=torch.nn.GELU()
        )
        norms = {name: torch.nn.LayerNorm(WIDTH) for name in (f"{prefix}_norm", "mlp_norm")}
        return found(_torchtune_attention(modules.MultiHeadAttention, prefix == "sa"), network, **norms)

    return make


_x_transformers = of("x-transformers", "x_transformers")
_labml_nn = of("labml-nn", "labml_nn.transformers.")
_curated = of("curated-transformers", "curated_transformers.layers:")
_litgpt = of("litgpt", "litgpt.model:")
_torchtune = of("torchtune", "torchtune.modules:")

ENTRIES = (
    _x_transformers(".x_transformers:Attention", "attention", mask="attends"),
    _x_transformers(
        ":Encoder",
        "encoder",
        args(dim=WIDTH, depth=1, heads=HEADS, attn_dim_head=SIZE, pre_norm=False),
        norm="post",
        mask="attends",
    ),
    _x_transformers(
        ":Decoder",
        "decoder",
        args(dim=WIDTH, depth=1, heads=HEADS, attn_dim_head=SIZE, cross_attend=True, pre_norm_has_final_norm=False),
        norm="pre",
        mask="attends",
    ),
    _x_transformers(".x_transformers:AbsolutePositionalEmbedding", "embedding"),
    _labml_nn("mha:MultiHeadAttention", "attention", mask="attends"),
    _labml_nn("models:TransformerLayer", "encoder", _labml_layer, norm="pre", mask="attends"),
    _labml_nn("positional_encoding:PositionalEncoding", "embedding"),
    _labml_nn("positional_encoding:get_positional_encoding", "embedding"),
    _labml_nn("models:EmbeddingsWithPositionalEncoding", "embedding"),
    _labml_nn("models:EmbeddingsWithLearnedPositionalEncoding", "embedding"),
    _curated("SelfAttention", "attention", lambda found: _with_mask_object(_curated_attention(found)), mask="attends"),
    _curated(
        "EncoderLayer",
        "encoder",
        _curated_layer("attn_residual_layer_norm", "ffn_residual_layer_norm"),
        norm="post",
        mask="attends",
    ),
    _curated(
        "DecoderLayer",
        "encoder",
        _curated_layer("attn_input_layer_norm", "ffn_input_layer_norm"),
        norm="pre",
        mask="attends",
    ),
    _curated("TransformerEmbeddings", "embedding", _curated_embedding),
    _litgpt("CausalSelfAttention", "attention", _litgpt_layer(PYTHIA), mask="attends"),
    _litgpt("Block", "encoder", _litgpt_layer(PYTHIA), norm="pre", mask="attends"),
    _litgpt("Block", "encoder", _litgpt_layer(LLAMA), norm="pre", mask="attends"),
    _torchtune("MultiHeadAttention", "attention", _torchtune_attention, mask="attends"),
    _torchtune("TransformerSelfAttentionLayer", "encoder", _torchtune_layer("sa"), norm="pre", mask="attends"),
    _torchtune("TransformerCrossAttentionLayer", "encoder", _torchtune_layer("ca"), norm="pre", mask="attends"),
    Entry("palm-rlhf-pytorch", "palm_rlhf_pytorch.attention:Attention", "attention", "torch", mask="attends"),
    Entry(
        "memorizing-transformers-pytorch",
        "memorizing_transformers_pytorch.memorizing_transformers_pytorch:Attention",
        "attention",
        "torch",
        args(dim=WIDTH, heads=HEADS, dim_head=SIZE),
    ),
)
